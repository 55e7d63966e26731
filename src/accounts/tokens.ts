// The tokens of the store: 256 random bits, shown once, kept as SHA-256 (D92, D93). The commands beside a running
// server write the same table that the server reads at each login (D94).

import { hash } from 'node:crypto';
import type { Migrations } from '../base/database/database.ts';
import type { DatabaseSync } from '../base/database/sqlite-file.ts';
import { randomHex, randomSecret } from '../base/ids.ts';
import { type Credential, isScope, type Scope } from './account.ts';

/** The tables of this room. */
export const accountMigrations: Migrations = {
  owner: 'accounts',
  steps: [
    `CREATE TABLE tokens (
       id TEXT PRIMARY KEY,
       account TEXT NOT NULL,
       credential TEXT NOT NULL,
       sha256 TEXT NOT NULL UNIQUE,
       last_four TEXT NOT NULL,
       label TEXT NOT NULL,
       created_at INTEGER NOT NULL,
       expires_at INTEGER,
       revoked_at INTEGER
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX tokens_of_credential ON tokens (account, credential);
     CREATE TABLE recipients_per_day (
       account TEXT NOT NULL,
       day INTEGER NOT NULL,
       recipients INTEGER NOT NULL,
       PRIMARY KEY (account, day)
     ) STRICT, WITHOUT ROWID;`,
    // NULL: all of the credential's; else words with a blank between them.
    'ALTER TABLE tokens ADD COLUMN scopes TEXT',
  ],
};

/** What is kept of a token: everything but itself. Times are milliseconds since 1970. */
export interface TokenRecord {
  readonly id: string;
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  /** Its last four characters, to tell it from others. */
  readonly lastFour: string;
  /** What it was made for; '' for nothing in particular. */
  readonly label: string;
  /** What it is narrowed to (it never may more than its credential); absent: all that its credential may. */
  readonly scopes?: readonly Scope[];
  readonly createdAt: number;
  readonly expiresAt?: number;
  readonly revokedAt?: number;
}

/** The hash under which a token is kept and looked up: 64 hex digits. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'hex');
}

/** For whom a token is made. */
export interface NewToken {
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  readonly label?: string;
  /** Narrows it to some of its credential's scopes; absent: all of them. */
  readonly scopes?: readonly Scope[];
  /** Milliseconds since 1970; absent: until it is revoked. */
  readonly expiresAt?: number;
  /** Now, milliseconds since 1970. */
  readonly createdAt: number;
}

/**
 * Makes a token and keeps its hash. It counts at once in every process on this database.
 * @returns its record, and the token itself, which nobody can tell again
 */
export function createToken(
  database: DatabaseSync,
  wanted: NewToken,
): { readonly record: TokenRecord; readonly token: string } {
  // The prefix keeps a token from beginning with a hyphen, which command lines take for an option.
  const token = `pt_${randomSecret()}`;
  const { account, credential, createdAt, expiresAt, label = '', scopes } = wanted;
  const id = randomHex(8);
  const lastFour = token.slice(-4);
  database
    .prepare(
      `INSERT INTO tokens (id, account, credential, sha256, last_four, label, created_at, expires_at, scopes)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      id,
      account,
      credential,
      hashToken(token),
      lastFour,
      label,
      createdAt,
      expiresAt ?? null,
      scopes?.join(' ') ?? null,
    );
  const record = {
    id,
    account,
    credential,
    lastFour,
    label,
    ...(scopes === undefined ? {} : { scopes }),
    createdAt,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
  return { record, token };
}

/** The scopes of a row; a word that this program does not know gives no right. */
export function scopesOf(column: unknown): readonly Scope[] | undefined {
  return typeof column === 'string' ? column.split(' ').filter(isScope) : undefined;
}

/**
 * The scopes that a token has now, in the order of its credential's: all of those where it is not narrowed, never one
 * that the credential lacks.
 */
export function scopesInForce(credential: Credential | undefined, scopes: readonly Scope[] | undefined): Scope[] {
  const own = [...(credential?.scopes ?? [])];
  return scopes ? own.filter((scope) => scopes.includes(scope)) : own;
}

function recordOf(row: Readonly<Record<string, unknown>>): TokenRecord {
  const { expires_at: expiresAt, revoked_at: revokedAt } = row;
  const scopes = scopesOf(row['scopes']);
  return {
    id: String(row['id']),
    account: String(row['account']),
    credential: String(row['credential']),
    lastFour: String(row['last_four']),
    label: String(row['label']),
    ...(scopes === undefined ? {} : { scopes }),
    createdAt: Number(row['created_at']),
    ...(typeof expiresAt === 'number' ? { expiresAt } : {}),
    ...(typeof revokedAt === 'number' ? { revokedAt } : {}),
  };
}

/** The records of all tokens, or of one account's (by its id), the oldest first; revoked and expired ones too. */
export function listTokens(database: DatabaseSync, account?: string): TokenRecord[] {
  return database
    .prepare('SELECT * FROM tokens WHERE ?1 IS NULL OR account = ?1 ORDER BY created_at, id')
    .all(account ?? null)
    .map(recordOf);
}

/**
 * Revokes a token: from now on no login by it succeeds.
 * @param which the token's id, and the account it must be of where that matters
 * @returns undefined where there is none; the record as it is now otherwise, also when it was revoked before
 */
export function revokeToken(
  database: DatabaseSync,
  which: { readonly id: string; readonly account?: string; readonly now: number },
): TokenRecord | undefined {
  const of = which.account ?? null;
  database
    .prepare('UPDATE tokens SET revoked_at = ?3 WHERE id = ?1 AND (?2 IS NULL OR account = ?2) AND revoked_at IS NULL')
    .run(which.id, of, which.now);
  const row = database.prepare('SELECT * FROM tokens WHERE id = ?1 AND (?2 IS NULL OR account = ?2)').get(which.id, of);
  return row && recordOf(row);
}

/** Whether a token counts at a time. */
export function isLive(record: TokenRecord, now: number): boolean {
  return record.revokedAt === undefined && (record.expiresAt === undefined || record.expiresAt > now);
}
