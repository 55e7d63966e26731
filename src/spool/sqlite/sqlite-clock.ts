// The spool's own time. Every time in its rows but that of acceptance is wall time less an offset, and whenever the wall
// clock is found to have been set, the offset is moved by as much: what waits goes on waiting for as long as it was to, a
// claim holds for as long as it was to, and no row is touched. All processes on a database share the offset.

import { type ClockReading, clockStep } from '../../base/clock.ts';
import type { DatabaseSync, StatementSync } from '../../base/database/sqlite-file.ts';

/** Keeps the offset of a database. */
export class SpoolClock {
  readonly #database: DatabaseSync;
  readonly #get: StatementSync;
  readonly #put: StatementSync;
  #seen: ClockReading | undefined;
  #held = 0;

  /** The tables must be up to date. */
  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#get = database.prepare('SELECT offset, skew FROM spool_clock');
    this.#put = database.prepare('INSERT OR REPLACE INTO spool_clock VALUES (1, ?, ?)');
  }

  /** Milliseconds that are taken from a wall time before it is stored. */
  get #offset(): number {
    return Number(this.#get.get()?.['offset'] ?? 0);
  }

  /** Reads the offset. `stored` and `wall` reckon with it until the next call, however many rows are worked on. */
  hold(): void {
    this.#held = this.#offset;
  }

  /** A wall time as it is stored. */
  stored(wallTime: number): number {
    return wallTime - this.#held;
  }

  /** A stored time as the wall clock tells it. */
  wall(storedTime: number): number {
    return storedTime + this.#held;
  }

  /**
   * Looks whether the wall clock was set since the last look, and moves the offset if so. Outside of a transaction.
   * @throws Error of SQLite; it is looked at again the next time
   */
  observe(now: ClockReading): void {
    const step = this.#seen ? clockStep(this.#seen, now) : 0;
    if (step !== 0) this.#move(step, now);
    this.#seen = now;
  }

  /**
   * Begins anew, where no other process works on the database: its last one may have run before the machine was booted,
   * and a monotonic time of then has no meaning now. Within a transaction.
   */
  begin(now: ClockReading): void {
    this.#put.run(this.#offset, skewOf(now));
    this.#seen = now;
  }

  #move(step: number, now: ClockReading): void {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      const row = this.#get.get();
      const moved = row ? skewOf(now) - Number(row['skew']) : step;
      // All processes of a machine have one wall clock and one monotonic time. Whoever sees the step first moves the
      // offset; the others find that it was moved.
      if (Math.abs(moved) >= Math.abs(step) / 2) this.#put.run(Number(row?.['offset'] ?? 0) + step, skewOf(now));
      this.#database.exec('COMMIT');
    } catch (thrown) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw thrown;
    }
  }
}

function skewOf({ wall, monotonic }: ClockReading): number {
  return Math.round(wall - monotonic);
}
