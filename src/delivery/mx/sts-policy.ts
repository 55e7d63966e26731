// What a policy of MTA-STS says (RFC 8461 §3.1, §3.2, §4.1). Policies are kept in the database: a domain that enforces stays protected
// through a restart, and while its name server or its policy host is silenced (§5.1).

import type { Database, Migrations } from '../../base/database/database.ts';
import { rowReader } from '../../base/database/row-reader.ts';

/** A policy. */
export interface StsPolicy {
  /** From the TXT record; a new one says that there is a new policy. */
  readonly id: string;
  /** `enforce` nothing is sent where it does not hold; `testing` it is only reported. */
  readonly mode: 'enforce' | 'testing' | 'none';
  /** Names of mail exchangers in lower case, `*.` in place of the first label for any. */
  readonly mx: readonly string[];
  /** For how many seconds it holds. */
  readonly maxAge: number;
}

/** RFC 8461 §3.2. */
const longestMaxAge = 31_557_600;
const mostNames = 1000;
const mxName = /^(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** RFC 8461 §3.1: `v=STSv1; id=20160831085700Z;`. */
const record = /^v=STSv1[ \t]*;(.*)$/;

/** The id in the TXT records of `_mta-sts.DOMAIN`; undefined without a policy: no record, more than one, or a malformed one. */
export function stsId(texts: readonly string[]): string | undefined {
  const records = texts.filter((text) => text.startsWith('v=STSv1'));
  const [, fields = ''] = records.length === 1 ? (record.exec(records[0] ?? '') ?? []) : [];
  const ids = fields.split(';').flatMap((field) => /^[ \t]*id=([A-Za-z0-9]{1,32})[ \t]*$/.exec(field)?.[1] ?? []);
  return ids.length === 1 ? ids[0] : undefined;
}

/** Reads the text of a policy file. @param id from the TXT record @returns the policy, or a clause that tells what is wrong */
export function readStsPolicy(text: string, id: string): StsPolicy | string {
  const values = new Map<string, string>();
  const mx: string[] = [];
  for (const line of text.split(/\r?\n/)) {
    const colon = line.indexOf(':');
    if (colon < 0) continue;
    const key = line.slice(0, colon).trim();
    const value = line.slice(colon + 1).trim();
    if (key === 'mx') {
      const name = value.toLowerCase().replace(/\.$/, '');
      if (!mxName.test(name)) return `"${name.slice(0, 100)}" is no name of a mail exchanger`;
      if (mx.length < mostNames) mx.push(name);
    } else if (!values.has(key)) values.set(key, value);
  }
  const mode = values.get('mode');
  const maxAge = values.get('max_age') ?? '';
  if (values.get('version') !== 'STSv1') return 'its version is not STSv1';
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none') return 'it has no mode';
  if (!/^\d{1,10}$/.test(maxAge)) return 'it has no max_age';
  if (mode !== 'none' && mx.length === 0) return 'it names no mail exchanger';
  return { id, mode, mx, maxAge: Math.min(Number(maxAge), longestMaxAge) };
}

/** Whether a policy names a mail exchanger. RFC 8461 §4.1: `*` stands for exactly one label. */
export function isNamedBy({ mx }: Pick<StsPolicy, 'mx'>, exchanger: string): boolean {
  const dot = exchanger.indexOf('.');
  const anyLabel = dot < 0 ? undefined : `*${exchanger.slice(dot)}`;
  return mx.some((name) => name === exchanger || name === anyLabel);
}

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

const policyOf = rowReader({
  ...{ id: String, maxAge: Number, mx: (names) => String(names).split(' ').filter(Boolean) },
  mode: (text): StsPolicy['mode'] => (text === 'enforce' || text === 'testing' ? text : 'none'),
});

/** Opens the store. */
export async function openStsStore(database: Database) {
  await database.migrate(stsMigrations);
  return {
    /** @throws Unavailable where the database cannot be used now */
    async get(domain: string): Promise<KeptPolicy | undefined> {
      const [row] = await database.query('SELECT * FROM sts_policies WHERE domain = $1', [domain]);
      return row && { policy: policyOf(row), fetchedAt: Number(row['fetched_at']) };
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
