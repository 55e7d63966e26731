// Keeps sessions of the console and links that sign in once. Tables hold hashes (D92): who reads them signs in nowhere.

import { hash } from 'node:crypto';
import type { Database, Migrations, Queryable } from '../../base/database/database.ts';
import { randomSecret } from '../../base/ids.ts';

/** The tables of this room. */
export const consoleMigrations: Migrations = {
  owner: 'console',
  steps: [
    // `token` is the hash of the token that signed in, sealed by the session's secret; NULL: a link signed in.
    `CREATE TABLE console_sessions (
       sha256 TEXT PRIMARY KEY,
       account TEXT NOT NULL,
       credential TEXT NOT NULL,
       token TEXT,
       created_at INTEGER NOT NULL,
       expires_at INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX console_sessions_of_account ON console_sessions (account, created_at);
     CREATE INDEX console_sessions_by_age ON console_sessions (created_at);
     CREATE INDEX console_sessions_by_end ON console_sessions (expires_at);
     CREATE TABLE console_links (
       sha256 TEXT PRIMARY KEY,
       account TEXT NOT NULL,
       credential TEXT NOT NULL,
       created_at INTEGER NOT NULL,
       expires_at INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;`,
  ],
};

/** Who signs in, and how long it holds; times are milliseconds since 1970. */
interface SignIn {
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  /** The hash of the token (`hashToken`); absent where a link signs in. */
  readonly token?: string | undefined;
  readonly now: number;
  readonly expiresAt: number;
}

/** A session that has not expired. */
export type StoredSession = Omit<SignIn, 'now'>;

/** How many are kept at most; beyond that the oldest go. */
interface SessionLimits {
  readonly perAccount: number;
  readonly all: number;
}

const usual: SessionLimits = { perAccount: 100, all: 10_000 };

const sql = {
  open: `INSERT INTO console_sessions (sha256, account, credential, token, created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6)`,
  find: 'SELECT account, credential, token, expires_at FROM console_sessions WHERE sha256 = $1 AND expires_at > $2',
  end: 'DELETE FROM console_sessions WHERE sha256 = $1',
  expire: 'DELETE FROM console_sessions WHERE expires_at <= $1',
  // The new session stays whatever the clock said when the others were made.
  trimAccount: `DELETE FROM console_sessions WHERE sha256 IN
    (SELECT sha256 FROM console_sessions WHERE account = $1 AND sha256 <> $2 ORDER BY created_at DESC, sha256
     LIMIT 1000000 OFFSET $3)`,
  trimAll: `DELETE FROM console_sessions WHERE sha256 IN
    (SELECT sha256 FROM console_sessions WHERE sha256 <> $1 ORDER BY created_at DESC, sha256 LIMIT 1000000 OFFSET $2)`,
  offer: `INSERT INTO console_links (sha256, account, credential, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
  use: 'DELETE FROM console_links WHERE sha256 = $1 RETURNING account, credential, expires_at',
  expireLinks: 'DELETE FROM console_links WHERE expires_at <= $1',
} as const;

function keyOf(secret: string): string {
  return hash('sha256', secret, 'hex');
}

/** Seals a token's hash by the session's secret, and opens it again: a configured token may be short enough to be found by its hash. */
function sealed(token: string, secret: string): string {
  const pad = hash('sha256', `token ${secret}`, 'buffer');
  const octets = Buffer.from(token, 'hex').map((octet, at) => octet ^ (pad[at] ?? 0));
  return Buffer.from(octets).toString('hex');
}

async function openSession(database: Queryable, signIn: SignIn, limits: SessionLimits): Promise<string> {
  const { account, credential, token, now, expiresAt } = signIn;
  const secret = randomSecret();
  const key = keyOf(secret);
  const kept = token === undefined ? null : sealed(token, secret);
  await database.run(sql.expire, [now]);
  await database.run(sql.open, [key, account, credential, kept, now, expiresAt]);
  await database.run(sql.trimAccount, [account, key, limits.perAccount - 1]);
  await database.run(sql.trimAll, [key, limits.all - 1]);
  return secret;
}

/** How long a link holds: until somebody who has just started Postern has opened it. */
const linkMs = 15 * 60_000;

/** Makes a link that signs in once, within 15 minutes. @param who by the id of its account @returns its path */
export async function offerSignIn(
  store: Pick<SessionStore, 'offerLink'>,
  { account, credential, now }: Pick<SignIn, 'account' | 'credential' | 'now'>,
): Promise<string> {
  return `/console/sign-in/${await store.offerLink({ account, credential, now, expiresAt: now + linkMs })}`;
}

/** Opens the store and brings its tables up to date. @param given limits other than the program's */
export async function openSessionStore(database: Database, given: Partial<SessionLimits> = {}) {
  const limits = { ...usual, ...given };
  await database.migrate(consoleMigrations);
  return {
    /** Opens a session, and removes expired ones and the oldest where there are too many. @returns its secret, not shown again */
    open: (signIn: SignIn): Promise<string> => database.transaction((inside) => openSession(inside, signIn, limits)),
    /** The session of a secret if it has not expired at `now`; read from the database each time. */
    async find(secret: string, now: number): Promise<StoredSession | undefined> {
      const [row] = await database.query(sql.find, [keyOf(secret), now]);
      if (!row) return undefined;
      const { token } = row;
      return {
        account: String(row['account']),
        credential: String(row['credential']),
        ...(typeof token === 'string' ? { token: sealed(token, secret) } : {}),
        expiresAt: Number(row['expires_at']),
      };
    },
    /** Ends a session. Where there is none it does nothing. */
    async end(secret: string): Promise<void> {
      await database.run(sql.end, [keyOf(secret)]);
    },
    /** Makes a link. @returns its code, which cannot be shown again */
    offerLink: ({ account, credential, now, expiresAt }: Omit<SignIn, 'token'>): Promise<string> =>
      database.transaction(async (inside) => {
        const code = randomSecret();
        await inside.run(sql.expireLinks, [now]);
        await inside.run(sql.offer, [keyOf(code), account, credential, now, expiresAt]);
        return code;
      }),
    /** Uses a link up. @returns whom it lets in; undefined where it does not exist, was used or has expired */
    async useLink(code: string, now: number): Promise<Pick<SignIn, 'account' | 'credential'> | undefined> {
      const [row] = await database.query(sql.use, [keyOf(code)]);
      if (!row || Number(row['expires_at']) <= now) return undefined;
      return { account: String(row['account']), credential: String(row['credential']) };
    },
  };
}

/** The sessions and links. Every promise rejects when the database fails. */
export type SessionStore = Awaited<ReturnType<typeof openSessionStore>>;
