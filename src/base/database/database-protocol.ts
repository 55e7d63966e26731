// What the two threads of the embedded database say to one another: requests over, replies back, many in one message.

import type { Migrations, SqlValue } from './database.ts';
import type { DatabaseFailure } from './sqlite-errors.ts';

/** A statement and its values, `$1` first. */
export interface Statement {
  readonly sql: string;
  readonly params: readonly SqlValue[];
}

/** What is wanted of a statement: its rows, how many rows it changed, or an Attempt. */
export type Wanted = 'rows' | 'changes' | 'attempt';

/** Something asked, main thread to worker; `id` is the reply's. */
export type DatabaseRequest = { readonly id: number } & (
  | ({ readonly kind: 'read' } & Statement)
  /** A change outside a transaction; those that wait together share one. */
  | ({ readonly kind: 'write'; readonly wanted: Wanted } & Statement)
  /** Answered once the transaction has begun; the request's id is the transaction's. */
  | { readonly kind: 'begin' }
  | ({ readonly kind: 'inside'; readonly transaction: number; readonly wanted: Wanted } & Statement)
  | { readonly kind: 'end'; readonly transaction: number; readonly keep: boolean }
  | { readonly kind: 'migrate'; readonly migrations: Migrations }
);

/** An answer, worker to main thread. A second one to `begin` tells that the transaction took too long and was undone. */
export type DatabaseReply = { readonly id: number } & (
  | { readonly value: unknown }
  | { readonly failure: DatabaseFailure }
);

/** All messages: main thread to worker, and back. */
export type ToWorker = readonly DatabaseRequest[] | 'close';
export type FromWorker = readonly DatabaseReply[] | 'open';

/** What the worker is started with. */
export interface DatabaseWorkerData extends DatabaseTimes {
  /** A path, or `:memory:`. */
  readonly file: string;
}

/** How long things may wait, in milliseconds. */
export interface DatabaseTimes {
  /** How long a change waits for a lock that another program holds, and for transactions before it. */
  readonly patienceMs: number;
  /** How long a transaction may take. */
  readonly transactionMs: number;
}
