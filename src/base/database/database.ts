// The interface that every store uses (D89): statements with numbered parameters. No store knows which engine it has.

import type { Unavailable } from '../errors.ts';

/** A value of a statement. */
export type SqlValue = null | number | bigint | string | Uint8Array;

/** A row by the names of its columns; whole numbers come as `number`. */
export type Row = Readonly<Record<string, unknown>>;

/** The migrations of one part's tables: statements applied in order, each once, and never changed after a release. */
export interface Migrations {
  /** The part of the program that owns the tables: `spool`, `accounts` ... */
  readonly owner: string;
  /** SQL texts of SQLite; index + 1 is the version. */
  readonly steps: readonly string[];
  /** Tables whose changes other processes hear of (`Changes`), where the engine can tell them. */
  readonly told?: readonly ToldTable[];
  /** The same steps as SQL of PostgreSQL; needed only where they have more than tables and indexes (postgres-migrations.ts). */
  readonly postgres?: readonly string[];
  /** A question for versions of `postgres`: where it finds no row the step is passed over for good, and everything works without. */
  readonly postgresWhere?: Readonly<Record<number, string>>;
}

/** A table whose changes other processes hear of. */
export interface ToldTable {
  readonly table: string;
  /** Changes of other columns are not told of; absent: all are. */
  readonly columns?: readonly string[];
}

/** Tells that other processes have changed something. */
export interface Changes {
  /**
   * Calls a listener when another process may have changed a subject: a table of `Migrations.told`, or a word of the spool
   * (`mail_due`, `mail_events`). It may be called without need. It may also not be called: an engine without such messages
   * never does, and a message is lost with its connection. So whoever listens looks regularly as well.
   * @returns a function that ends it
   */
  on(subject: string, listener: () => void): () => void;
}

/** Runs statements with parameters `$1`, `$2` ..., each for the value of that place. Every value must appear, as often as one likes. */
export interface Queryable {
  /** Runs a statement that answers rows. @throws Unavailable where the database cannot be used now; Error where it is at fault */
  query(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>;
  /** Runs a change. @returns how many rows it changed. @throws like `query` */
  run(sql: string, params?: readonly SqlValue[]): Promise<number>;
}

/** The kind of constraint that stopped a statement; `trigger` is an error that a trigger of the tables raised. */
export type ConstraintKind = 'check' | 'foreign-key' | 'primary-key' | 'trigger' | 'unique';

/** The result of a change that a constraint may stop. */
export type Attempt =
  | { readonly changes: number }
  /** The statement changed nothing, and the transaction goes on. `text` is the engine's message. */
  | { readonly stoppedBy: ConstraintKind; readonly text: string };

/** A transaction under way. It sees what it has written; nobody else does before its end. */
export interface Transaction extends Queryable {
  /** Runs a change that a constraint may stop, which the result tells. @throws as `query` does, for anything else */
  attempt(sql: string, params?: readonly SqlValue[]): Promise<Attempt>;
}

/** A statement that changes something, with its values. */
export interface Change {
  readonly sql: string;
  readonly params?: readonly SqlValue[];
}

/** A connection to the database of the gateway. Nothing in it blocks the calling thread. */
export interface Database extends Queryable {
  readonly changes: Changes;
  /** Why the database cannot be used; undefined while it can. It is here before a request fails, until a later look finds it well. */
  readonly unavailable: Unavailable | undefined;
  /** Milliseconds by which this host's wall clock is ahead of the database's, by which processes compare; a minute old at most. */
  aheadMs(): Promise<number>;
  /** SQL of the database's time (milliseconds since 1970), by which several hosts judge leases. Absent: all are on one host, and its clock counts. */
  readonly timeSql?: string;
  /**
   * Runs several statements as one: others see all of them or none. One transaction that writes is under way at a time;
   * the next one waits for it, for a bounded time. It is undone where `work` throws, and where `work` takes longer than
   * the engine's limit: what it asks for after that is refused. Inside `work` use what it is handed only: a write asked of
   * the database itself would wait for the end of the transaction that waits for it. An engine whose transactions can get
   * in each other's way runs `work` again from its beginning, so `work` changes nothing but the database.
   * @returns what `work` resolves to, once it is on disk
   * @throws what `work` throws; Unavailable where the transaction cannot begin or end
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /**
   * Runs a change, and where it changed a row the others with it: all of them are kept, or none. Where the database is embedded nothing
   * comes back to the caller between them, so that others wait for its lock no longer than the changes themselves take, however busy this
   * thread is; and those that wait for the lock together share a sync of the disk.
   * @returns how long they took, in milliseconds, without the wait for the lock, once they are on disk; undefined where no row was changed
   * @throws like `query`
   */
  runWith(first: Change, others: readonly Change[]): Promise<number | undefined>;
  /** Brings an owner's tables up to date beside others. @throws Error where they are newer; Unavailable where others keep one locked */
  migrate(migrations: Migrations): Promise<void>;
  /** Has all that waits for a silent server, now and later, fail with Unavailable, so that `close` ends soon. Absent without one. */
  abandon?(): void;
  /** Finishes what was asked and closes the connection. Asked once more it does nothing. */
  close(): Promise<void>;
}

/** Writes the parameters `($1, $2), ($3, $4)` of a statement that takes many rows. @param first number of the first parameter */
export function placeholders(rows: number, columns: number, first = 1): string {
  const row = (at: number): string =>
    `(${Array.from({ length: columns }, (_, column) => `$${at * columns + column + first}`).join(', ')})`;
  return Array.from({ length: rows }, (_, at) => row(at)).join(', ');
}

/** How the statements of a store tell the time, in milliseconds since 1970: the database's where several hosts share it (D91). */
export function sharedTimeOf({ timeSql }: Pick<Database, 'timeSql'>) {
  return {
    /** SQL of the time now. @param last the number of the statement's last parameter, which is the time where the database has none */
    sql: (last: number): string => timeSql ?? `$${last}`,
    /** The values of such a statement. @param now the time of this process, of which nothing is used where the database has its own */
    values: (now: number, ...values: readonly SqlValue[]): readonly SqlValue[] =>
      timeSql === undefined ? [...values, now] : values,
  };
}
/** What `sharedTimeOf` gives. */
export type SharedTime = ReturnType<typeof sharedTimeOf>;
