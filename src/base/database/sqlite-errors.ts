// What SQLite's result codes mean to us (https://www.sqlite.org/rescode.html).

import { errorCode, errorMessage } from '../errors.ts';
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

/** The primary result code of an error of SQLite's; undefined for other errors. */
export function sqliteCode(thrown: unknown): number | undefined {
  if (errorCode(thrown) !== 'ERR_SQLITE_ERROR' || !(thrown instanceof Error) || !('errcode' in thrown))
    return undefined;
  return typeof thrown.errcode === 'number' ? thrown.errcode & 0xff : undefined;
}

/** Another connection holds what is asked for, and has for as long as the busy timeout lasts. */
export function isBusy(thrown: unknown): boolean {
  return sqliteCode(thrown) === busy;
}

/** Why the store cannot be written now; undefined where the fault is in what was to be written. */
export function whyUnwritable(code: number | undefined): 'room' | 'store' | undefined {
  if (code === undefined) return undefined;
  if (code === full) return 'room';
  return storeCodes.has(code) ? 'store' : undefined;
}

/** Why something asked of a database's thread failed, as it crosses between threads. */
export interface DatabaseFailure {
  readonly message: string;
  /** The system's or SQLite's. */
  readonly code?: string;
  /** Where it did not fail for what it was, so that the same may be done later. */
  readonly unavailable?: 'room' | 'store';
}

/** Reads what SQLite threw. */
export function failureOf(thrown: unknown): DatabaseFailure {
  const code = errorCode(thrown);
  const unavailable = whyUnwritable(sqliteCode(thrown));
  return {
    message: errorMessage(thrown),
    ...(code === undefined ? {} : { code }),
    ...(unavailable ? { unavailable } : {}),
  };
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
  if (sqliteCode(thrown) === undefined || !(thrown instanceof Error) || !('errcode' in thrown)) return undefined;
  return constraints[Number(thrown.errcode)];
}
