// The tokens of the store, 256 random bits kept as SHA-256 (D92, D93), in a table that commands write and each login reads (D94).

import { hash } from 'node:crypto';
import type { Database, Migrations, Queryable, Row } from '../base/database/database.ts';
import { orNull, rowReader } from '../base/database/row-reader.ts';
import { randomHex, randomSecret } from '../base/ids.ts';
import { type Credential, isScope, type Scope } from './account.ts';

/** The record of a token: everything but the token itself. Times are milliseconds since 1970. */
export interface TokenRecord {
  readonly id: string;
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  /** The token's last four characters, to tell it from others. */
  readonly lastFour: string;
  /** What the token was made for; '' where nobody said. */
  readonly label: string;
  /** The scopes that it is narrowed to, of those of its credential; all of them if absent. */
  readonly scopes?: readonly Scope[] | undefined;
  readonly createdAt: number;
  /** It does not expire if absent. */
  readonly expiresAt?: number | undefined;
  readonly revokedAt?: number | undefined;
}

/** The hash under which a token is kept and looked up: 64 hex digits. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'hex');
}

/** A token that is to be made. */
export type NewToken = Omit<TokenRecord, 'id' | 'lastFour' | 'label' | 'revokedAt'> & { readonly label?: string };

/** Reads the scopes of a database row. Words that this program does not know are ignored. */
function scopesOf(column: unknown): readonly Scope[] | undefined {
  return typeof column === 'string' ? column.split(' ').filter(isScope) : undefined;
}

/** The scopes that a token has now, in its credential's order: never one that the credential lacks, and all unless it is narrowed. */
export function scopesInForce(credential: Credential | undefined, scopes: readonly Scope[] | undefined): Scope[] {
  const own = [...(credential?.scopes ?? [])];
  return scopes ? own.filter((scope) => scopes.includes(scope)) : own;
}

/** Whether a token is valid at a time: neither revoked nor expired. */
export function isLive(record: TokenRecord, now: number): boolean {
  return record.revokedAt === undefined && (record.expiresAt === undefined || record.expiresAt > now);
}

/** The tables of accounts: tokens, and the recipients of a day. */
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

/** Which tokens of an account are wanted, the oldest first. */
export interface TokenQuery {
  readonly limit: number;
  /** The `next` of the page before; absent: from the oldest on. */
  readonly after?: Pick<TokenRecord, 'createdAt' | 'id'> | undefined;
  /** Only those that are neither revoked nor expired at this time, milliseconds since 1970. */
  readonly liveAt?: number | undefined;
}

/** The operations on tokens. Every promise rejects when the database fails. */
type Tokens = ReturnType<typeof tokensOn>;

/** The token operations, alone or several in one transaction. */
export type TokenStore = Awaited<ReturnType<typeof openTokenStore>>;

const whereLive = (time: string) => `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${time})`;

const sql = {
  create: `INSERT INTO tokens (id, account, credential, sha256, last_four, label, created_at, expires_at, scopes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
  list: 'SELECT * FROM tokens WHERE account = coalesce($1, account) ORDER BY created_at, id',
  page: `SELECT * FROM tokens WHERE account = $1 AND (created_at, id) > ($2, $3)
    AND ((${whereLive('$5')}) OR $5 IS NULL) ORDER BY created_at, id LIMIT $4`,
  countLive: `SELECT count(*) AS tokens FROM tokens WHERE account = $1 AND ${whereLive('$2')}`,
  // A token that was revoked before keeps the time of that.
  revoke: `UPDATE tokens SET revoked_at = coalesce(revoked_at, $2)
    WHERE id = $1 AND account = coalesce($3, account) RETURNING *`,
  findLive: `SELECT account, credential, scopes FROM tokens WHERE sha256 = $1 AND ${whereLive('$2')}`,
} as const;

const owner = { account: String, credential: String, scopes: scopesOf };
const ownerOf = rowReader(owner);
const recordOf: (row: Row) => TokenRecord = rowReader({
  ...{ ...owner, id: String, lastFour: String, label: String, createdAt: Number },
  expiresAt: orNull(Number),
  revokedAt: orNull(Number),
});

function tokensOn(database: Queryable) {
  return {
    /** Makes a token, valid at once in every process on this database. @returns its record, and the token, which is not kept */
    async create(wanted: NewToken): Promise<{ readonly record: TokenRecord; readonly token: string }> {
      const { account, credential, createdAt, expiresAt, label = '', scopes } = wanted;
      // Without the prefix a token could begin with a hyphen, and command lines would take it for an option.
      const token = `pt_${randomSecret()}`;
      const id = randomHex(8);
      const lastFour = token.slice(-4);
      const named = [id, account, credential, hashToken(token), lastFour, label];
      await database.run(sql.create, [...named, createdAt, expiresAt ?? null, scopes?.join(' ') ?? null]);
      return { record: { ...wanted, id, lastFour, label }, token };
    },
    /** How many tokens of an account (by its id) are neither revoked nor expired at `now`. */
    async countLive(account: string, now: number): Promise<number> {
      const [row] = await database.query(sql.countLive, [account, now]);
      return Number(row?.['tokens']);
    },
    /** The records of all tokens, or of one account's (by its id), the oldest first; revoked and expired ones too. */
    list: async (account?: string): Promise<readonly TokenRecord[]> =>
      (await database.query(sql.list, [account ?? null])).map(recordOf),
    /** Some of the tokens of an account (by its id). @returns beside them the `after` of the next page; undefined on the last one */
    async page(account: string, { limit, after = { createdAt: -1, id: '' }, liveAt }: TokenQuery) {
      const rows = await database.query(sql.page, [account, after.createdAt, after.id, limit + 1, liveAt ?? null]);
      const tokens = rows.slice(0, limit).map(recordOf);
      return { tokens, next: rows.length > limit ? tokens.at(-1) : undefined };
    },
    /** Revokes a token at once. @param which its id, and its account where that matters @returns its record; undefined for none */
    async revoke({ id, account = null, now }: { id: string; account?: string | null; now: number }) {
      const [row] = await database.query(sql.revoke, [id, now, account]);
      return row && recordOf(row);
    },
    /** The token of a hash (`hashToken`) if it is neither revoked nor expired at `now`; read from the database each time. */
    async findLive(
      sha256: string,
      now: number,
    ): Promise<Pick<TokenRecord, 'account' | 'credential' | 'scopes'> | undefined> {
      const [row] = await database.query(sql.findLive, [sha256, now]);
      return row && ownerOf(row);
    },
  };
}

/** Opens the token store and brings the accounts' tables up to date. */
export async function openTokenStore(database: Database) {
  await database.migrate(accountMigrations);
  return {
    ...tokensOn(database),
    /** Runs several operations in one transaction: of two processes, the second one sees what the first one did. */
    transaction: <T>(work: (tokens: Tokens) => Promise<T>): Promise<T> =>
      database.transaction((transaction) => work(tokensOn(transaction))),
  };
}
