// Runs the spool's operations on a SQLite database, synchronously, on the worker thread (D90). All operations that have
// come in share one transaction; callers get results only after COMMIT has returned, which is after the fsync.

import type { ClockReading } from '../../base/clock.ts';
import { failureOf, isBusy, sqliteMessage } from '../../base/database/sqlite-errors.ts';
import type { DatabaseSync } from '../../base/database/sqlite-file.ts';
import { keptSettings, type SpoolOptions } from '../spool-limits.ts';
import { followedAtOnce } from './event-follower.ts';
import type { SpoolLock } from './file/sqlite-lock.ts';
import { StoreCalls } from './sqlite-calls.ts';
import type { Behind, OperationOutcome, ReadOperation, WriteOperation, WriteResult } from './sqlite-protocol.ts';
import { tablesOf } from './sqlite-tables.ts';

/** How long is waited after the first failure, and at most after many in a row, in milliseconds. */
const firstPauseMs = 1000;
const longestPauseMs = 60_000;
/** Slices that are made for a reader who waits for them, at most. */
const slicesForReader = 8;

const needsLock: ReadonlySet<string> = new Set(['add', 'claimDue', 'turns', 'hold']);

/** Has an operation done by the call of its kind. */
function called<Calls>(
  calls: Calls,
  { kind, args }: { readonly kind: keyof Calls; readonly args: readonly unknown[] },
) {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an operation has what the call of its kind takes
  return (calls[kind] as (...values: readonly unknown[]) => Extract<OperationOutcome, { value: unknown }>['value'])(
    ...args,
  );
}

/**
 * When what is made behind the commits is tried again after it has failed: its fault is told once, and does not cost a try a second.
 */
class FollowPace {
  #pauseMs = 0;
  #tryAt = Number.NEGATIVE_INFINITY;
  /** Why the last slice failed; undefined where it did not. */
  fault: string | undefined;

  /** Does a slice, unless one has failed a while ago. @returns what it gives; false where it was not done */
  take(slice: () => boolean): boolean {
    if (performance.now() < this.#tryAt) return false;
    try {
      const isMore = slice();
      this.#pauseMs = 0;
      this.fault = undefined;
      return isMore;
    } catch (thrown) {
      // Somebody else writes; that passes, or is told as a fault of the spool.
      if (isBusy(thrown)) return false;
      this.#pauseMs = Math.min(Math.max(firstPauseMs, this.#pauseMs * 2), longestPauseMs);
      this.#tryAt = performance.now() + this.#pauseMs;
      this.fault = sqliteMessage(thrown);
      return false;
    }
  }
}

/** The spool in one database. It owns nothing but its prepared statements; the caller closes database and lock. */
export class SqliteStore extends StoreCalls {
  readonly #followPace = new FollowPace();

  /**
   * Brings the tables up to date.
   * @param options.bodies folder of the bodies that are files; it need not exist
   */
  constructor({
    database,
    lock,
    bodies,
    ...settings
  }: { readonly database: DatabaseSync; readonly lock: SpoolLock; readonly bodies: string } & SpoolOptions) {
    super({ ...tablesOf(database), database, lock, bodies, ...keptSettings(settings) });
  }

  /**
   * Runs operations in one transaction. If one fails, all are undone and each is run again in a transaction of its own, so
   * that only the faulty one fails.
   * @param now the time; without it, the clock is not checked for having been set
   */
  write(operations: readonly WriteOperation[], now?: ClockReading): WriteResult {
    try {
      if (now) this.clock.observe(now);
      if (operations.some(({ kind }) => needsLock.has(kind))) this.parts.lock.take();
      return this.#transaction(operations);
    } catch (thrown) {
      // If the time was spent waiting for another process, each retry would spend it again.
      if (operations.length === 1 || isBusy(thrown)) {
        return {
          outcomes: operations.map(() => ({ error: failureOf(thrown) })),
          orphanedBodies: [],
          removed: [],
          isBusy: isBusy(thrown),
        };
      }
      const singles = operations.map((operation) => this.write([operation], now));
      return {
        outcomes: singles.flatMap((single) => single.outcomes),
        orphanedBodies: singles.flatMap((single) => single.orphanedBodies),
        removed: singles.flatMap((single) => single.removed),
        isBusy: false,
      };
    }
  }

  /** Answers one question. */
  read(operation: ReadOperation): OperationOutcome {
    try {
      this.clock.hold();
      return { value: called(this.reads, operation) };
    } catch (thrown) {
      return { error: failureOf(thrown) };
    }
  }

  #transaction(operations: readonly WriteOperation[]): WriteResult {
    const { database } = this.parts;
    this.begin();
    database.exec('BEGIN IMMEDIATE');
    try {
      this.clock.hold();
      const outcomes = operations.map((operation): OperationOutcome => {
        // One refused because of what the store already holds does not undo the others of the batch.
        const refused = operation.kind === 'add' ? this.retention.overQuota(operation.args[0]) : undefined;
        return refused ? { error: refused } : { value: called(this.writes, operation) };
      });
      this.retention.removeSurplus();
      this.ledger.write();
      this.lines.write();
      this.inFlight.mark();
      database.exec('COMMIT');
      return { outcomes, orphanedBodies: this.messages.gone, removed: this.retention.removed, isBusy: false };
    } catch (thrown) {
      // SQLite has already rolled back by itself after a full disk or an I/O error.
      if (database.isTransaction) database.exec('ROLLBACK');
      this.ledger.changes.clear();
      this.inFlight.undo();
      throw thrown;
    }
  }

  /**
   * Does a slice of what is made behind the commits: events are filed, and those that are too many or too old removed. Does nothing
   * before the first write, which brings the time, nor for a while after it has failed.
   * @returns whether there may be more to do
   */
  follow(): boolean {
    const { now } = this.clock;
    if (now === undefined) return false;
    return this.#followPace.take(() => {
      this.clock.hold();
      const isMore =
        this.follower.follow(this.clock.stored(now)) ||
        this.follower.unsynced(() => this.parts.settled.settle(now, this.inFlight.oldest));
      this.unfiled = isMore ? Math.max(0, this.unfiled - followedAtOnce) : 0;
      return isMore;
    });
  }

  protected catchUp(): void {
    for (let slices = 0; slices < slicesForReader && this.follower.unfiled > 0 && this.follow(); ) slices += 1;
  }

  /** How far what is made behind the commits is behind them. @throws what SQLite throws */
  get behind(): Behind {
    const { unfiled, passedOver } = this.follower;
    return { unfiled, passedOver, fault: this.#followPace.fault };
  }

  /** Whether a whole slice of events waits to be filed. */
  get isBehind(): boolean {
    return this.unfiled >= followedAtOnce;
  }

  /** Writes a value, to find out whether the database can be written. @throws what SQLite throws */
  probe(now: number): void {
    this.statements.probe.run(now);
  }
}
