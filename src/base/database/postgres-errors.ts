// What the error codes of PostgreSQL mean to us (https://www.postgresql.org/docs/current/errcodes-appendix.html).

import { ConfigurationError, cannotBeUsed, errorCode, errorMessage, Unavailable } from '../errors.ts';
import type { ConstraintKind } from './database.ts';

/** Retry-After where the disk of the server is full, in seconds. */
const roomRetrySeconds = 30;

const diskFull = '53100';

/** Another holds a lock for longer than lock_timeout. */
const lockNotAvailable = '55P03';
/** A statement took longer than statement_timeout, or somebody has cancelled it. */
const queryCanceled = '57014';
/** idle_in_transaction_session_timeout: the next statement of a transaction came too late, because this process stood still. */
const cameTooLate = '25P03';

/** Codes that say that the server cannot be used now, whatever was asked. A code of two characters is a whole class. */
const awayCodes: ReadonlySet<string> = new Set([
  '08', // connection exceptions
  '53', // insufficient resources: memory, connections
  '57', // operator intervention: shutdown, crash, a statement over its time
  '58', // errors of the server's system
  '28', // the password or the user is refused, which somebody has changed
  '3D000', // the database is gone
  '25006', // read_only_sql_transaction: a standby
  '3F000', // the schema is gone
  '42P01', // a table is gone: somebody restores a backup, or moves it
  '42501', // insufficient_privilege: somebody has taken a right away
  cameTooLate,
  lockNotAvailable,
]);

/** Codes among these that say that nobody is let in, whatever is asked. A code of two or three characters is a whole class. */
const closedCodes: ReadonlySet<string> = new Set(['08', '57P', '28', '53300', '3D000', '25006']);

/** Codes of transactions that PostgreSQL broke off because others came between; run again they may pass. */
const raceCodes: ReadonlySet<string> = new Set(['40001', '40P01']);

const constraints: Readonly<Record<string, ConstraintKind>> = {
  '23503': 'foreign-key',
  '23505': 'unique',
  '23514': 'check',
  // RAISE EXCEPTION of a trigger.
  P0001: 'trigger',
};

/** SQLSTATE: five digits and capitals, in PostgreSQL's own at least one digit. Of Node's codes EPIPE has five letters. */
function sqlState(thrown: unknown): string | undefined {
  const code = errorCode(thrown);
  return code !== undefined && /^(?=.*\d)[\dA-Z]{5}$/.test(code) ? code : undefined;
}

/** An error without a code is none of the server's: nobody knows what the connection is still about. */
export function hasNoCode(thrown: unknown): boolean {
  return !(thrown instanceof Error) || !('code' in thrown);
}

/** Others came between, so that the transaction was undone and may be tried again. */
export function isRace(thrown: unknown): boolean {
  return raceCodes.has(sqlState(thrown) ?? '');
}

/** Others held what a statement wanted to lock, or waited for what it held: run again it may pass. */
export function isLockConflict(thrown: unknown): boolean {
  return isRace(thrown) || sqlState(thrown) === lockNotAvailable;
}

/** Whether a request failed for its own time, or for what others hold or change: that says nothing about other statements. */
export function isOfOneStatement(thrown: Unavailable): boolean {
  return isLockConflict(thrown.cause) || [queryCanceled, cameTooLate].includes(sqlState(thrown.cause) ?? '');
}

/** Which constraint stopped a statement; undefined where it failed for something else. */
export function constraintOf(thrown: unknown): ConstraintKind | undefined {
  const kind = constraints[sqlState(thrown) ?? ''];
  if (kind !== 'unique' || !(thrown instanceof Error) || !('constraint' in thrown)) return kind;
  // PostgreSQL names a primary key so unless the table says otherwise.
  return String(thrown.constraint).endsWith('_pkey') ? 'primary-key' : kind;
}

/** Turns what the driver threw into Unavailable where the server is away, busy or full, and else into the error itself. */
export function storeError(thrown: unknown): Error {
  const state = sqlState(thrown);
  if (state === diskFull) {
    return new Unavailable(errorMessage(thrown), { reason: 'room', retryAfterSeconds: roomRetrySeconds });
  }
  // Without a SQLSTATE the error is the driver's or the system's: the connection was refused, reset or timed out.
  const isAway = state === undefined || awayCodes.has(state) || awayCodes.has(state.slice(0, 2)) || isRace(thrown);
  const error = thrown instanceof Error ? thrown : new Error(errorMessage(thrown));
  if (!isAway || error instanceof Unavailable) return error;
  return cannotBeUsed(error);
}

/** Has what the driver throws told in our own words (`storeError`). */
export async function told<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (thrown) {
    throw storeError(thrown);
  }
}

/** Whether nobody is let in or reached, so that any request may fail; otherwise it was one statement, its time or a lock. */
export function isOutOfReach(thrown: unknown): thrown is Unavailable {
  if (!(thrown instanceof Unavailable) || thrown.cause === undefined) return false;
  const state = sqlState(thrown.cause);
  return state === undefined || [2, 3, 5].some((length) => closedCodes.has(state.slice(0, length)));
}

/** Codes that mean at the start that the configuration names the wrong thing: waiting would not help. */
const wrongCodes: ReadonlySet<string> = new Set(['28000', '28P01', '3D000', '25006']);
/** The same of TLS, as Node names it: the server's certificate is not trusted, not valid, or another's. */
const wrongTls = /^(?:CERT|DEPTH_ZERO|ERR_TLS|SELF_SIGNED|UNABLE_TO)_/;
/** What the driver says, without a code, of a server that speaks no TLS where `sslmode` asks for it. */
const speaksNoTls = 'does not support SSL';

function isWrong(cause: unknown): boolean {
  const code = errorCode(cause) ?? '';
  // A file that `sslrootcert`, `sslcert` or `sslkey` names; the socket of a server that is away fails at `connect`.
  const isFile = cause instanceof Error && 'syscall' in cause && cause.syscall === 'open';
  return wrongCodes.has(code) || wrongTls.test(code) || isFile || errorMessage(cause).includes(speaksNoTls);
}

/** Tells what the start failed by: ConfigurationError where no server takes anybody by these settings, else the error itself. */
export function startError(thrown: unknown): unknown {
  const cause = thrown instanceof Unavailable ? thrown.cause : thrown;
  return isWrong(cause) ? new ConfigurationError(`database.url: ${errorMessage(cause)}`, { cause }) : thrown;
}
