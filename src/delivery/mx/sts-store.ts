// Keeps the policies of MTA-STS in the database: a domain that enforces stays protected through a restart, and while its name
// server or its policy host is silenced (RFC 8461 §5.1).

import type { Database, Migrations } from '../../base/database/database.ts';
import type { StsPolicy } from './sts-policy.ts';

export const stsMigrations: Migrations = {
  owner: 'deliver',
  steps: [
    `CREATE TABLE sts_policies (
       domain TEXT NOT NULL PRIMARY KEY,
       id TEXT NOT NULL,
       mode TEXT NOT NULL,
       mx TEXT NOT NULL,
       max_age INTEGER NOT NULL,
       fetched_at INTEGER NOT NULL,
       expires_at INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX sts_policies_that_expire ON sts_policies (expires_at);`,
  ],
};

/** A policy and when it was fetched, in milliseconds since 1970. */
export interface KeptPolicy {
  readonly policy: StsPolicy;
  readonly fetchedAt: number;
}

/** The policies that are kept. */
export type StsStore = Awaited<ReturnType<typeof openStsStore>>;

function modeOf(text: unknown): StsPolicy['mode'] {
  return text === 'enforce' || text === 'testing' ? text : 'none';
}

/** Opens the store. */
export async function openStsStore(database: Database) {
  await database.migrate(stsMigrations);
  return {
    /** @throws Unavailable where the database cannot be used now */
    async get(domain: string): Promise<KeptPolicy | undefined> {
      const [row] = await database.query('SELECT * FROM sts_policies WHERE domain = $1', [domain]);
      if (!row) return undefined;
      const { id, mode, mx, max_age: maxAge, fetched_at: fetchedAt } = row;
      const policy = {
        id: String(id),
        mode: modeOf(mode),
        mx: String(mx).split(' ').filter(Boolean),
        maxAge: Number(maxAge),
      };
      return { policy, fetchedAt: Number(fetchedAt) };
    },
    /** Keeps a policy in place of the one before, and forgets those that have expired. @throws like `get` */
    async put(domain: string, { policy: { id, mode, mx, maxAge }, fetchedAt }: KeptPolicy): Promise<void> {
      await database.run('DELETE FROM sts_policies WHERE expires_at < $1', [fetchedAt]);
      await database.run(
        `INSERT INTO sts_policies (domain, id, mode, mx, max_age, fetched_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (domain) DO UPDATE SET id = $2, mode = $3, mx = $4, max_age = $5, fetched_at = $6, expires_at = $7`,
        [domain, id, mode, mx.join(' '), maxAge, fetchedAt, fetchedAt + maxAge * 1000],
      );
    },
  };
}
