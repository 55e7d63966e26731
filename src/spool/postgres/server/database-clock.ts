// The time of the spool in PostgreSQL is the server's: every stored time but that of acceptance is wall time less what this host's clock
// is ahead of the server's. So hosts whose clocks differ, or are set, wait equally long and see each other's claims alike.

import { BelievedTime, type Clock, type ClockReading, clockStep, readClock } from '../../../base/clock.ts';
import { Part } from '../../../base/part.ts';
import type { PostgresSession } from './postgres-session.ts';

/** Smaller differences between two hosts come from the way and from drift; they move no time. */
const leastDifferenceMs = 1000;

/** What this host's wall clock is ahead of the server's. */
export class DatabaseClock extends Part<Clock> {
  #offset = 0;
  #seen: ClockReading = readClock(this.parts);
  /** From the first comparison on. */
  #believed: BelievedTime | undefined;

  /** The wall time of this host, milliseconds since 1970. */
  now(): number {
    return this.parts.now();
  }

  /** Looks whether the wall clock was set since the last look; to be called before each operation. */
  observe(): void {
    const now = readClock(this.parts);
    this.#offset += clockStep(this.#seen, now);
    this.#seen = now;
  }

  /** Compares with the server. @param serverTime its time just now, milliseconds since 1970 */
  compare(serverTime: number): void {
    this.observe();
    const difference = Math.round(this.parts.now() - serverTime);
    if (Math.abs(difference - this.#offset) >= leastDifferenceMs)
      this.#offset = Math.abs(difference) < leastDifferenceMs ? 0 : difference;
    this.#believed ??= new BelievedTime({
      now: () => this.#storedNow(),
      monotonic: () => this.parts.monotonic(),
    });
  }

  /** The stored time for removals: neither a server's clock that is ahead, nor one set ahead within a day, makes anything old. */
  removalTime(): number {
    return Math.min(this.#believed?.now() ?? this.#storedNow(), this.parts.now());
  }

  #storedNow(): number {
    this.observe();
    return this.stored(this.parts.now());
  }

  /** Turns a wall time into the time to store. */
  stored(wallTime: number): number {
    return Math.round(wallTime - this.#offset);
  }

  /** Turns a stored time into wall time. */
  wall(storedTime: number): number {
    return storedTime + this.#offset;
  }
}

/** What everything has that asks the server for rows with times. */
export interface ServerParts {
  readonly session: PostgresSession;
  readonly clock: DatabaseClock;
}
