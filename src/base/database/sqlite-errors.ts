// What SQLite's result codes mean to us (https://www.sqlite.org/rescode.html).

import { errorCode, errorMessage, Unavailable } from '../errors.ts';
import type { ConstraintKind } from './database.ts';

/** Result codes that say that the database cannot be written now, whatever was to be written. */
const storeCodes: ReadonlySet<number> = new Set([
  5, // SQLITE_BUSY: another connection holds what is asked for
  6, // SQLITE_LOCKED
  8, // SQLITE_READONLY
  10, // SQLITE_IOERR
  11, // SQLITE_CORRUPT
  14, // SQLITE_CANTOPEN
  26, // SQLITE_NOTADB
]);
const busy = 5;
const full = 13;
const corrupt = 11;
/** Result codes that say that the file is damaged. */
const damageCodes: ReadonlySet<number> = new Set([corrupt, 26]);
/** Result codes of a question that say that the file cannot be read: it is damaged, or the disk fails. */
const unreadableCodes: ReadonlySet<number> = new Set([10, ...damageCodes, 14]);
/** SQLITE_CORRUPT_VTAB, an extended code: what a virtual table such as the index of a search keeps is wrong, and nothing else. */
const wrongIndex = 267;

/** The result code of an error of SQLite's with its extension; undefined for other errors. */
function extendedCode(thrown: unknown): number | undefined {
  if (errorCode(thrown) !== 'ERR_SQLITE_ERROR' || !(thrown instanceof Error) || !('errcode' in thrown))
    return undefined;
  return typeof thrown.errcode === 'number' ? thrown.errcode : undefined;
}

/** The primary result code of an error of SQLite's; undefined for other errors. */
export function sqliteCode(thrown: unknown): number | undefined {
  const code = extendedCode(thrown);
  return code === undefined ? undefined : code & 0xff;
}

/** Whether another connection held the lock for as long as the busy timeout lasts. */
export function isBusy(thrown: unknown): boolean {
  return sqliteCode(thrown) === busy;
}

/** Why the store cannot be written now; undefined where the data to be written are at fault. */
export function whyUnwritable(code: number | undefined): 'room' | 'store' | undefined {
  if (code === undefined) return undefined;
  if (code === full) return 'room';
  return storeCodes.has(code) ? 'store' : undefined;
}

/** Why a request to the database's thread failed, in a form that can be sent between threads. */
export interface DatabaseFailure {
  readonly message: string;
  /** The error code of the system or of SQLite. */
  readonly code?: string | undefined;
  /** Set where the request itself was not at fault, so that it may succeed later. */
  readonly unavailable?: Unavailable['reason'] | undefined;
  /** No change can begin, whatever it would write: another program holds the lock, or the file cannot be written. */
  readonly stopsChanges?: true;
  /** A question failed because the file cannot be read: it is damaged, or the disk fails. */
  readonly isUnreadable?: true;
}

/** The message of what SQLite threw; where the file is damaged, with what to do. */
export function sqliteMessage(thrown: unknown): string {
  const message = errorMessage(thrown);
  if (!damageCodes.has(sqliteCode(thrown) ?? 0)) return message;
  return `${message}: stop Postern, look at the database with "postern db check", and restore a backup if it is damaged`;
}

/** Whether what was asked stands on a page that is damaged; the file itself is one of SQLite's. */
export function isDamaged(thrown: unknown): boolean {
  return sqliteCode(thrown) === corrupt;
}

/** Whether a question failed because the file cannot be read, whatever was asked. */
export function isUnreadable(thrown: unknown): boolean {
  return unreadableCodes.has(sqliteCode(thrown) ?? 0) && extendedCode(thrown) !== wrongIndex;
}

/** Makes a failure of what SQLite threw. */
export function failureOf(thrown: unknown): DatabaseFailure {
  const unavailable = whyUnwritable(sqliteCode(thrown));
  return { message: sqliteMessage(thrown), code: errorCode(thrown), unavailable };
}

/** The error of a failure. @param retryAfterSeconds of one that may pass */
export function errorOf({ message, code, unavailable }: DatabaseFailure, retryAfterSeconds: number): Error {
  if (unavailable) return new Unavailable(message, { reason: unavailable, retryAfterSeconds });
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}

// Extended result codes (https://www.sqlite.org/rescode.html#extrc).
const constraints: Readonly<Record<number, ConstraintKind>> = {
  275: 'check',
  787: 'foreign-key',
  1555: 'primary-key',
  1811: 'trigger',
  2067: 'unique',
};

/** Which constraint stopped a statement; undefined where it failed for something else. */
export function constraintOf(thrown: unknown): ConstraintKind | undefined {
  return constraints[extendedCode(thrown) ?? 0];
}
