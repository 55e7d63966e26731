// The spool's own time. Every stored time but that of acceptance is wall time minus an offset, which all processes share. Where the
// wall clock is found to have been set, the offset moves by as much: every waiting time keeps its length, and no row is changed.

import { type ClockReading, clockStep } from '../../base/clock.ts';
import { type DatabaseSync, inTransaction } from '../../base/database/sqlite-file.ts';
import { Part } from '../../base/part.ts';

/** Keeps the offset of a database. */
export class SpoolClock extends Part<{ readonly database: DatabaseSync }> {
  readonly #get = this.parts.database.prepare('SELECT offset, skew FROM spool_clock');
  readonly #put = this.parts.database.prepare('INSERT OR REPLACE INTO spool_clock VALUES (1, ?, ?)');
  #seen: ClockReading | undefined;
  /** When it was seen, by this thread's own clock. */
  #seenAt = 0;
  #applied = 0;

  /** Milliseconds subtracted from a wall time before it is stored. */
  get #offset(): number {
    return Number(this.#get.get()?.['offset'] ?? 0);
  }

  /** Reads the offset. `stored` and `wall` use this value until the next call, however many rows are worked on. */
  hold(): void {
    this.#applied = this.#offset;
  }

  /** Turns a wall time into the time to store. */
  stored(wallTime: number): number {
    return wallTime - this.#applied;
  }

  /** Turns a stored time into wall time. */
  wall(storedTime: number): number {
    return storedTime + this.#applied;
  }

  /** Moves the offset where the wall clock was set since the last check; outside a transaction. @throws Error of SQLite: check again */
  observe(now: ClockReading): void {
    const step = this.#seen ? clockStep(this.#seen, now) : 0;
    if (step !== 0) this.#move(step, now);
    this.#seen = now;
    this.#seenAt = performance.now();
  }

  /** Takes the last check as the reference, in a transaction, where no other process works: the last may have run before a boot. */
  begin(): void {
    if (this.#seen) this.#put.run(this.#offset, skewOf(this.#seen));
  }

  /** The wall time; undefined before the first check. */
  get now(): number | undefined {
    return this.#seen && this.#seen.wall + performance.now() - this.#seenAt;
  }

  #move(step: number, now: ClockReading): void {
    inTransaction(this.parts.database, () => {
      const row = this.#get.get();
      const moved = row ? skewOf(now) - Number(row['skew']) : step;
      // All processes of a machine share its clocks. Whoever sees the step first moves the offset; the others find that it was.
      if (Math.abs(moved) >= Math.abs(step) / 2) this.#put.run(Number(row?.['offset'] ?? 0) + step, skewOf(now));
    });
  }
}

function skewOf({ wall, monotonic }: ClockReading): number {
  return Math.round(wall - monotonic);
}
