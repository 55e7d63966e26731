// The tokens of the store. A token is 256 random bits, shown once and kept as SHA-256 (D92, D93). The commands write the same
// table that the running server reads at each login (D94).

import type { Database, Queryable, Row } from '../base/database/database.ts';
import { orNull, rowReader } from '../base/database/row-reader.ts';
import { randomHex, randomSecret } from '../base/ids.ts';
import { accountMigrations } from './account-tables.ts';
import { hashToken, type NewToken, scopesOf, type TokenRecord } from './tokens.ts';

/** Which tokens of an account are wanted, the oldest first. */
export interface TokenQuery {
  readonly limit: number;
  /** The `next` of the page before; absent: from the oldest on. */
  readonly after?: Pick<TokenRecord, 'createdAt' | 'id'> | undefined;
  /** Only those that are neither revoked nor expired at this time, milliseconds since 1970. */
  readonly liveAt?: number | undefined;
}

/** One page of an account's tokens. */
interface TokenPage {
  readonly tokens: readonly TokenRecord[];
  /** The `after` of the next page; absent on the last one. */
  readonly next?: TokenQuery['after'];
}

/** The operations on tokens. Every promise rejects when the database fails. */
interface Tokens {
  /**
   * Makes a token and stores its hash. It is valid at once in every process on this database.
   * @returns its record, and the token itself, which cannot be shown again
   */
  create(wanted: NewToken): Promise<{ readonly record: TokenRecord; readonly token: string }>;
  /** How many tokens of an account (by its id) are neither revoked nor expired at `now`. */
  countLive(account: string, now: number): Promise<number>;
  /** The records of all tokens, or of one account's (by its id), the oldest first; revoked and expired ones too. */
  list(account?: string): Promise<readonly TokenRecord[]>;
  /** Some of the tokens of an account (by its id). */
  page(account: string, query: TokenQuery): Promise<TokenPage>;
  /**
   * Revokes a token: from now on no login by it succeeds.
   * @param which the token's id, and the account it must be of where that matters
   * @returns its record, also where it was revoked before; undefined where there is no such token
   */
  revoke(which: { id: string; account?: string; now: number }): Promise<TokenRecord | undefined>;
  /** The token of a hash (`hashToken`) if it is neither revoked nor expired at `now`; read from the database each time. */
  findLive(sha256: string, now: number): Promise<Pick<TokenRecord, 'account' | 'credential' | 'scopes'> | undefined>;
}

/** The token operations, alone or several in one transaction. */
export interface TokenStore extends Tokens {
  /** Runs several operations in one transaction: of two processes, the second one sees what the first one did. */
  transaction<T>(work: (tokens: Tokens) => Promise<T>): Promise<T>;
}

const whereLive = (time: string) => `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${time})`;
const pageOf = (more: string) => `SELECT * FROM tokens
  WHERE account = $1 AND (created_at, id) > ($2, $3)${more} ORDER BY created_at, id LIMIT $4`;

const sql = {
  create: `INSERT INTO tokens (id, account, credential, sha256, last_four, label, created_at, expires_at, scopes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
  list: 'SELECT * FROM tokens ORDER BY created_at, id',
  listOf: 'SELECT * FROM tokens WHERE account = $1 ORDER BY created_at, id',
  page: pageOf(''),
  pageOfLive: pageOf(` AND ${whereLive('$5')}`),
  countLive: `SELECT count(*) AS tokens FROM tokens WHERE account = $1 AND ${whereLive('$2')}`,
  // A token that was revoked before keeps the time of that.
  revoke: 'UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING *',
  revokeOf: 'UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 AND account = $3 RETURNING *',
  findLive: `SELECT account, credential, scopes FROM tokens WHERE sha256 = $1 AND ${whereLive('$2')}`,
} as const;

const recordOf: (row: Row) => TokenRecord = rowReader({
  ...{ id: String, account: String, credential: String, lastFour: String, label: String, createdAt: Number },
  scopes: scopesOf,
  expiresAt: orNull(Number),
  revokedAt: orNull(Number),
});

function tokensOn(database: Queryable): Tokens {
  return {
    async create(wanted) {
      const { account, credential, createdAt, expiresAt, label = '', scopes } = wanted;
      // Without the prefix a token could begin with a hyphen, and command lines would take it for an option.
      const token = `pt_${randomSecret()}`;
      const id = randomHex(8);
      const lastFour = token.slice(-4);
      const named = [id, account, credential, hashToken(token), lastFour, label];
      await database.run(sql.create, [...named, createdAt, expiresAt ?? null, scopes?.join(' ') ?? null]);
      return { record: { ...wanted, id, lastFour, label }, token };
    },
    async countLive(account, now) {
      const [row] = await database.query(sql.countLive, [account, now]);
      return Number(row?.['tokens']);
    },
    async list(account) {
      const rows = account === undefined ? database.query(sql.list) : database.query(sql.listOf, [account]);
      return (await rows).map(recordOf);
    },
    async page(account, { limit, after = { createdAt: -1, id: '' }, liveAt }) {
      const values = [account, after.createdAt, after.id, limit + 1];
      const rows = await (liveAt === undefined
        ? database.query(sql.page, values)
        : database.query(sql.pageOfLive, [...values, liveAt]));
      const tokens = rows.slice(0, limit).map(recordOf);
      const last = rows.length > limit ? tokens.at(-1) : undefined;
      return last ? { tokens, next: last } : { tokens };
    },
    async revoke({ id, account, now }) {
      const [row] =
        account === undefined
          ? await database.query(sql.revoke, [id, now])
          : await database.query(sql.revokeOf, [id, now, account]);
      return row && recordOf(row);
    },
    async findLive(sha256, now) {
      const [row] = await database.query(sql.findLive, [sha256, now]);
      if (!row) return undefined;
      const scopes = scopesOf(row['scopes']);
      const found = { account: String(row['account']), credential: String(row['credential']) };
      return scopes === undefined ? found : { ...found, scopes };
    },
  };
}

/** Opens the token store and brings the accounts' tables up to date. */
export async function openTokenStore(database: Database): Promise<TokenStore> {
  await database.migrate(accountMigrations);
  return {
    ...tokensOn(database),
    transaction: (work) => database.transaction((transaction) => work(tokensOn(transaction))),
  };
}
