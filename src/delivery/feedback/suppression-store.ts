// The suppression lists: addresses that an account does not send to, kept in the database (D51, D52, D94).

import type { Clock } from '../../base/clock.ts';
import type { Database, Migrations, Row } from '../../base/database/database.ts';
import { placeholders } from '../../base/database/database.ts';
import { orNull, rowReader } from '../../base/database/row-reader.ts';
import { uuidv7 } from '../../base/ids.ts';
import type { MaybePromise } from '../../base/load/maybe-promise.ts';
import { Part } from '../../base/part.ts';
import { asciiDomain, splitMailbox } from '../../mail/address/domain.ts';
import { comparableMailbox } from '../../mail/address/path.ts';

/** The table of the list. */
export const suppressionMigrations: Migrations = {
  owner: 'suppressions',
  steps: [
    `CREATE TABLE suppressions (
       account TEXT NOT NULL,
       id TEXT NOT NULL,
       address TEXT NOT NULL,
       reason TEXT NOT NULL,
       note TEXT,
       created_at INTEGER NOT NULL,
       expires_at INTEGER,
       PRIMARY KEY (account, id)
     ) STRICT, WITHOUT ROWID;
     CREATE UNIQUE INDEX suppressions_of_address ON suppressions (account, address);
     CREATE INDEX suppressions_that_expire ON suppressions (expires_at) WHERE expires_at IS NOT NULL;`,
  ],
};

/** The reasons why an address is on the list. */
export const suppressionReasons = ['manual', 'hard_bounce', 'complaint', 'unsubscribe'] as const;

/** Why an address is on the list. */
export type SuppressionReason = (typeof suppressionReasons)[number];

/** One entry. Times are milliseconds since 1970. */
export interface Suppression {
  /** 32 hex digits; a later entry has a greater id. */
  readonly id: string;
  /** Id of the account. */
  readonly account: string;
  /** In the spelling of `comparableMailbox`. */
  readonly address: string;
  readonly reason: SuppressionReason;
  readonly note?: string | undefined;
  readonly createdAt: number;
  readonly expiresAt?: number | undefined;
}

/** A new entry; its address in any spelling, which the caller has checked. Without `expiresAt` it stays until it is removed. */
export type NewSuppression = Omit<Suppression, 'id' | 'createdAt'>;

/** Which entries of an account are wanted; the newest come first. */
interface SuppressionQuery {
  readonly limit: number;
  /** Id of the last entry of the previous page. */
  readonly after?: string | undefined;
  /** Part of the address or the note, in any case. */
  readonly search?: string | undefined;
}

/** The suppression lists of all accounts. `account` is always an account's id. */
export type SuppressionStore = Awaited<ReturnType<typeof openSuppressionStore>>;

/** Entries up to which an account adds its own by the API; those that returned mail makes, and the operator's, come beside. */
const suppressionsPerAccount = 1_000_000;

/** How long a full list is believed to be full, in milliseconds: a million entries are not counted for each that is asked for. */
const fullForMs = 10_000;
/** How long an account is remembered as having no entries, in milliseconds: well within the second of D94. */
const emptyForMs = 500;
/** Rows that a search reads at a time, and those that it reads for one page at most, which may then have few entries or none. */
const [sliceRows, searchedRows] = [1000, 20_000];
/** Expired rows that one `add` clears away. */
const prunedAtOnce = 1000;
/** Greater than every id. */
const behindAll = 'g';

function reasonOf(text: unknown): SuppressionReason {
  // An unknown reason, written by a newer program, is shown as the most general one.
  return suppressionReasons.find((reason) => reason === text) ?? 'manual';
}

const suppressionOf: (row: Row) => Suppression = rowReader({
  ...{ id: String, account: String, address: String, reason: reasonOf, createdAt: Number },
  note: orNull(String),
  expiresAt: orNull(Number),
});

/** Makes the test of whether an entry contains the searched text; a domain may be given in its own script. */
function matcher(search: string): (entry: Suppression) => boolean {
  const wanted = search.toLowerCase();
  const { localPart, domain = '' } = search.includes('@') ? splitMailbox(search) : { localPart: '', domain: search };
  const ascii = asciiDomain(domain);
  const inAddress =
    ascii === undefined ? wanted : `${search.includes('@') ? `${localPart.toLowerCase()}@` : ''}${ascii}`;
  return ({ address, note }) =>
    address.includes(inAddress) || address.includes(wanted) || (note?.toLowerCase().includes(wanted) ?? false);
}

const sql = {
  any: 'SELECT 1 FROM suppressions WHERE account = $1 LIMIT 1',
  count: 'SELECT count(*) AS count FROM suppressions WHERE account = $1',
  find: 'SELECT * FROM suppressions WHERE account = $1 AND address = $2 AND (expires_at IS NULL OR expires_at > $3)',
  forget: 'DELETE FROM suppressions WHERE account = $1 AND address = $2 AND expires_at <= $3',
  pruneAll: 'DELETE FROM suppressions WHERE expires_at <= $1',
  prune: `DELETE FROM suppressions WHERE (account, id) IN
    (SELECT account, id FROM suppressions WHERE expires_at <= $1 LIMIT ${prunedAtOnce})`,
  add: `INSERT INTO suppressions (account, id, address, reason, note, created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (account, address) DO UPDATE
    SET reason = excluded.reason, note = excluded.note, expires_at = excluded.expires_at RETURNING *`,
  remove: `DELETE FROM suppressions WHERE account = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3)
    RETURNING *`,
  page: `SELECT * FROM suppressions WHERE account = $1 AND id < $2 AND (expires_at IS NULL OR expires_at > $3)
    ORDER BY id DESC LIMIT $4`,
} as const;

const addedAtOnce = 500;

/** The statements that add many rows: a transaction of many would hold the lock that the spool's commits wait for. */
function manyRows(count: number) {
  return {
    forget: `DELETE FROM suppressions WHERE expires_at <= $1 AND (account, address) IN (VALUES ${placeholders(count, 2, 2)})`,
    add: `INSERT INTO suppressions (account, id, address, reason, note, created_at, expires_at)
      VALUES ${placeholders(count, 7)} ON CONFLICT (account, address) DO NOTHING RETURNING id`,
  };
}

/** The values of a new row. @param now milliseconds since 1970 */
function valuesOf({ account, address, reason, note, expiresAt }: NewSuppression, now: number) {
  const id = uuidv7(now).replaceAll('-', '');
  return [account, id, comparableMailbox(address), reason, note ?? null, now, expiresAt ?? null] as const;
}

/** Remembers for a short time which accounts have no entries. */
class EmptyAccounts extends Part<{ readonly database: Database; readonly clock: Clock }> {
  /** When the database said that the account has no entries. */
  readonly #since = new Map<string, number>();
  /** How many entries this process has added: an answer that was asked for before one of them may be outdated. */
  #added = 0;

  /** The account is known to have no entries. */
  has(account: string): boolean {
    const since = this.#since.get(account);
    return since !== undefined && this.parts.clock.monotonic() - since < emptyForMs;
  }

  /** Asks the database whether the account has no entries. */
  async ask(account: string): Promise<boolean> {
    const now = this.parts.clock.monotonic();
    const added = this.#added;
    const rows = await this.parts.database.query(sql.any, [account]);
    if (rows.length > 0) this.#since.delete(account);
    else if (added === this.#added) this.#since.set(account, now);
    return rows.length === 0;
  }

  /** Forgets an account, since an entry of it was added. */
  forget(account: string): void {
    this.#added += 1;
    this.#since.delete(account);
  }
}

type ReadPage = (after: string, limit: number) => Promise<Suppression[]>;

/** Some entries, and the `after` of the next page; undefined on the last one. */
interface SuppressionPage {
  readonly entries: readonly Suppression[];
  readonly next: string | undefined;
}

function cut(found: readonly Suppression[], limit: number): SuppressionPage {
  const entries = found.slice(0, limit);
  return { entries, next: found.length > limit ? entries.at(-1)?.id : undefined };
}

async function search(
  page: ReadPage,
  { limit, after: last = behindAll, search: wanted = '' }: SuppressionQuery,
): Promise<SuppressionPage> {
  const fits = matcher(wanted);
  const entries: Suppression[] = [];
  let after = last;
  for (let read = 0; read < searchedRows; read += sliceRows) {
    const slice = await page(after, sliceRows);
    for (const entry of slice) if (fits(entry)) entries.push(entry);
    if (entries.length > limit || slice.length < sliceRows) return cut(entries, limit);
    after = slice.at(-1)?.id ?? after;
  }
  return { entries, next: after };
}

/** Opens the lists and their tables, and removes expired entries. @param most entries up to which `hasRoom` */
export async function openSuppressionStore(database: Database, clock: Clock, most = suppressionsPerAccount) {
  await database.migrate(suppressionMigrations);
  await database.run(sql.pruneAll, [clock.now()]);
  const empty = new EmptyAccounts({ database, clock });
  /** How many entries accounts may add before they are counted again, and from when on they may be. */
  const room = new Map<string, { left: number; readonly countedFrom: number }>();

  /** Finds the entry of an address in any spelling, unless it has expired. */
  async function find(account: string, address: string): Promise<Suppression | undefined> {
    const [row] = await database.query(sql.find, [account, comparableMailbox(address), clock.now()]);
    return row && suppressionOf(row);
  }

  async function ask(account: string, recipient: string): Promise<boolean> {
    return !(await empty.ask(account)) && (await find(account, recipient)) !== undefined;
  }

  return {
    /** Whether an account's list has a recipient, mostly without a promise; others' changes count within a second (D94). */
    isSuppressed: (account: string, recipient: string): MaybePromise<boolean> =>
      !empty.has(account) && ask(account, recipient),
    /** Whether an account may put one more address on its list, which takes a place; more or less, where several processes add at once. */
    async hasRoom(account: string): Promise<boolean> {
      const now = clock.monotonic();
      const known = room.get(account);
      if (known && known.left > 0) {
        known.left -= 1;
        return true;
      }
      if (known && now < known.countedFrom) return false;
      await database.run(sql.prune, [clock.now()]);
      const [row] = await database.query(sql.count, [account]);
      const free = most - Number(row?.['count'] ?? 0);
      // Half of it: others add too.
      room.set(account, {
        left: free > 0 ? Math.floor(free / 2) : free,
        countedFrom: free > 0 ? now : now + fullForMs,
      });
      return free > 0;
    },
    /** Puts an address on the list. One that is there keeps its id and date, and gets the new reason, note and expiry. */
    async add(entry: NewSuppression): Promise<Suppression> {
      const now = clock.now();
      const values = valuesOf(entry, now);
      const [account, , key] = values;
      const [row] = await database.transaction(async (transaction) => {
        // An expired entry counts as removed: the new entry gets an id and date of its own.
        await transaction.run(sql.forget, [account, key, now]);
        await transaction.run(sql.prune, [now]);
        return await transaction.query(sql.add, values);
      });
      empty.forget(account);
      return suppressionOf(row ?? {});
    },
    /** Puts addresses on lists where they are not yet, in one statement. @returns whether each was added, in their order */
    async addNew(entries: readonly NewSuppression[]): Promise<readonly boolean[]> {
      const now = clock.now();
      const rows = entries.map((entry) => valuesOf(entry, now));
      const ids = new Set<unknown>();
      for (let at = 0; at < rows.length; at += addedAtOnce) {
        const some = rows.slice(at, at + addedAtOnce);
        const statements = manyRows(some.length);
        await database.run(statements.forget, [now, ...some.flatMap(([account, , key]) => [account, key])]);
        for (const row of await database.query(statements.add, some.flat())) ids.add(row['id']);
      }
      const added = rows.map(([, id]) => ids.has(id));
      for (const { account } of entries) empty.forget(account);
      return added;
    },
    /** Removes an entry from the list. @returns the entry as it was; undefined where there is none */
    async remove(account: string, id: string): Promise<Suppression | undefined> {
      const [row] = await database.query(sql.remove, [account, id, clock.now()]);
      const known = room.get(account);
      if (row && known) known.left += 1;
      return row && suppressionOf(row);
    },
    find,
    /** Lists entries that have not expired, page by page. A search reads a bounded number of rows, and may find none of them. */
    async list(account: string, query: SuppressionQuery): Promise<SuppressionPage> {
      const { limit, after = behindAll } = query;
      const page: ReadPage = async (from, most) =>
        (await database.query(sql.page, [account, from, clock.now(), most])).map(suppressionOf);
      return (query.search ?? '') === '' ? cut(await page(after, limit + 1), limit) : await search(page, query);
    },
  };
}
