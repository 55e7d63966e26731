// The messages between the main thread and the thread of the embedded database: requests and replies, many in one message.

import type { Change, Migrations } from './database.ts';
import type { DatabaseFailure } from './sqlite-errors.ts';

/** Which result of a statement is wanted: its rows, the number of rows it changed, or an Attempt. */
export type Wanted = 'rows' | 'changes' | 'attempt';

/** A request of the main thread to the worker. The reply has the same `id`. */
export type DatabaseRequest = { readonly id: number } & (
  | ({ readonly kind: 'read' } & Change)
  /** A change outside a transaction, and `more` where it changed a row. Changes that wait together share one transaction. */
  | ({ readonly kind: 'write'; readonly wanted: Wanted; readonly more?: readonly Change[] } & Change)
  /** Changes in a transaction of their own. The reply's value is how many milliseconds they took. */
  | { readonly kind: 'atOnce'; readonly statements: readonly Change[] }
  /** Begins a transaction, whose id is the request's. The reply comes once it has begun. */
  | { readonly kind: 'begin' }
  | ({ readonly kind: 'inside'; readonly transaction: number; readonly wanted: Wanted } & Change)
  | { readonly kind: 'end'; readonly transaction: number; readonly keep: boolean }
  | { readonly kind: 'migrate'; readonly migrations: Migrations }
);

/** A reply of the worker. A second reply to `begin` says that the transaction took too long and was rolled back. */
export type DatabaseReply = { readonly id: number } & (
  | { readonly value: unknown }
  | { readonly failure: DatabaseFailure }
);

/** A message of the main thread to the worker. */
export type ToWorker = readonly DatabaseRequest[] | 'close';
/** A message of the worker to the main thread. */
export type FromWorker = readonly DatabaseReply[] | 'open';

/** What the worker is started with. */
export interface DatabaseWorkerData extends DatabaseTimes {
  /** A path, or `:memory:`. */
  readonly file: string;
  /** As `OpenDatabaseOptions.isDurable`. */
  readonly isDurable: boolean;
}

/** How long things may wait, in milliseconds. */
export interface DatabaseTimes {
  /** How long a change waits for a lock that another program holds, and for transactions before it. */
  readonly patienceMs: number;
  /** How long a transaction may take. */
  readonly transactionMs: number;
}
