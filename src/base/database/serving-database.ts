// The database on the thread that serves everybody: a lock that another program holds is waited for a quarter of a second
// and not once for each who asks.

import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { Unavailable } from '../errors.ts';
import { isBusy } from './sqlite-errors.ts';

/** How long the event loop may stand for a lock, in milliseconds. */
export const servingPatienceMs = 250;
/** After a wait in vain nobody waits again before so long has gone by without one. */
const impatientMs = 1000;
/** Before and after serving there is time, as in a command (`openSqliteFile`). */
const otherPatienceMs = 5000;

/**
 * A connection that throws Unavailable where another connection holds the lock on the database: at once after it was
 * waited for in vain, until a second has gone by without a failure.
 */
export class ServingDatabase extends DatabaseSync {
  #isServing = false;
  #timeoutMs = otherPatienceMs;
  #lastBusyAt = Number.NEGATIVE_INFINITY;

  /** @param file a path; see `openSqliteFile` */
  constructor(file: string) {
    super(file, { timeout: otherPatienceMs });
  }

  /** From now on (true) the thread serves others and waits 250 ms at most; before that, and again after it, 5 s. */
  serve(isServing: boolean): void {
    this.#isServing = isServing;
    this.#lastBusyAt = Number.NEGATIVE_INFINITY;
  }

  override exec(sql: string): void {
    this.#guarded(() => super.exec(sql));
  }

  override prepare(...args: Parameters<DatabaseSync['prepare']>): StatementSync {
    const statement = super.prepare(...args);
    // A statement waits for the lock by itself where it runs outside a transaction.
    for (const name of ['run', 'get', 'all'] as const) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- handed through with the arguments it came with
      const method = statement[name].bind(statement) as (...values: unknown[]) => never;
      statement[name] = (...values: unknown[]) => this.#guarded(() => method(...values));
    }
    return statement;
  }

  #guarded<T>(work: () => T): T {
    this.#wait(this.#patience());
    try {
      return work();
    } catch (thrown) {
      if (!isBusy(thrown)) throw thrown;
      this.#lastBusyAt = performance.now();
      const details = { reason: 'store', retryAfterSeconds: 1 } as const;
      throw Object.assign(new Unavailable('Another program holds the lock on the database', details), {
        cause: thrown,
      });
    }
  }

  #patience(): number {
    if (!this.#isServing) return otherPatienceMs;
    return performance.now() - this.#lastBusyAt < impatientMs ? 0 : servingPatienceMs;
  }

  #wait(timeoutMs: number): void {
    if (timeoutMs === this.#timeoutMs) return;
    this.#timeoutMs = timeoutMs;
    super.exec(`PRAGMA busy_timeout = ${timeoutMs}`);
  }
}
