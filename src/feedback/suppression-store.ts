// The suppression list: addresses that an account does not send to, on the embedded database (D51, D52, D94).

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import type { Migrations } from '../base/database/database.ts';
import { type DatabaseSync, migrateSqlite } from '../base/database/sqlite-file.ts';
import { uuidv7 } from '../base/ids.ts';
import { comparableMailbox } from '../mail/address/comparable-mailbox.ts';
import { asciiDomain, splitMailbox } from '../mail/address/domain.ts';

/** The table of the list. */
const suppressionMigrations: Migrations = {
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

/** Why an address is on the list. */
export const suppressionReasons = ['manual', 'hard_bounce', 'complaint', 'unsubscribe'] as const;

/** Why an address is on the list. */
export type SuppressionReason = (typeof suppressionReasons)[number];

/** One entry. Times are milliseconds since 1970. */
export interface Suppression {
  /** 32 hex; a later entry has a greater one. */
  readonly id: string;
  /** Id of the account. */
  readonly account: string;
  /** In the spelling of `comparableMailbox`. */
  readonly address: string;
  readonly reason: SuppressionReason;
  readonly note?: string;
  readonly createdAt: number;
  readonly expiresAt?: number;
}

/** What is put on the list. */
export interface NewSuppression {
  readonly account: string;
  /** In any spelling; the caller has seen to it that it is an address. */
  readonly address: string;
  readonly reason: SuppressionReason;
  readonly note?: string;
  /** Milliseconds since 1970; absent: until it is removed. */
  readonly expiresAt?: number;
}

/** Which entries of an account are wanted, the newest first. */
export interface SuppressionQuery {
  readonly limit: number;
  /** Id of the last entry of the page before. */
  readonly after?: string;
  /** Part of the address or the note, in any case. */
  readonly search?: string;
}

/** A part of the list. */
export interface SuppressionPage {
  readonly entries: readonly Suppression[];
  /** `after` for the next page; absent: there is none. */
  readonly next?: string;
}

/** The suppression lists of all accounts. `account` is always an account's id. */
export interface SuppressionStore {
  /**
   * Tells whether an account's list holds a recipient now. An account without entries costs no look at the database;
   * what another process changes counts within a second (D94).
   */
  isSuppressed(account: string, recipient: string): boolean;
  /**
   * Puts an address on the list. One that is there already keeps its id and its date and takes reason, note and expiry
   * of the new one.
   */
  add(entry: NewSuppression): Suppression;
  /** Takes an entry off the list. @returns the entry as it was; undefined where there is none */
  remove(account: string, id: string): Suppression | undefined;
  /** The live entry of an address in any spelling. */
  find(account: string, address: string): Suppression | undefined;
  /** Live entries, page by page. A search that goes through many rows gives way to other work in between. */
  list(account: string, query: SuppressionQuery): Promise<SuppressionPage>;
}

/** How long it is believed that an account has no entries: well within the second of D94. */
const emptyForMs = 500;
/** Rows that a search reads before other work has its turn. */
const sliceRows = 1000;
/** Expired rows that one `add` clears away. */
const prunedAtOnce = 1000;
/** Greater than every id. */
const behindAll = 'g';

type Row = Readonly<Record<string, unknown>>;

function reasonOf(text: unknown): SuppressionReason {
  // A reason of a newer program is shown as the most general one, rather than not at all.
  return suppressionReasons.find((reason) => reason === text) ?? 'manual';
}

function suppressionOf(row: Row): Suppression {
  const { note, expires_at: expiresAt } = row;
  return {
    id: String(row['id']),
    account: String(row['account']),
    address: String(row['address']),
    reason: reasonOf(row['reason']),
    ...(typeof note === 'string' ? { note } : {}),
    createdAt: Number(row['created_at']),
    ...(typeof expiresAt === 'number' ? { expiresAt } : {}),
  };
}

/** Tells whether an entry has what is searched for; a domain may be given in its own script. */
function matcher(search: string): (entry: Suppression) => boolean {
  const wanted = search.toLowerCase();
  const { localPart, domain = '' } = search.includes('@') ? splitMailbox(search) : { localPart: '', domain: search };
  const ascii = asciiDomain(domain);
  const inAddress =
    ascii === undefined ? wanted : `${search.includes('@') ? `${localPart.toLowerCase()}@` : ''}${ascii}`;
  return ({ address, note }) =>
    address.includes(inAddress) || address.includes(wanted) || (note?.toLowerCase().includes(wanted) ?? false);
}

function statements(database: DatabaseSync) {
  const live = '(expires_at IS NULL OR expires_at > ?)';
  return {
    any: database.prepare('SELECT 1 FROM suppressions WHERE account = ? LIMIT 1'),
    holds: database.prepare(`SELECT 1 FROM suppressions WHERE account = ? AND address = ? AND ${live}`),
    find: database.prepare(`SELECT * FROM suppressions WHERE account = ? AND address = ? AND ${live}`),
    forget: database.prepare('DELETE FROM suppressions WHERE account = ? AND address = ? AND expires_at <= ?'),
    prune: database.prepare(
      'DELETE FROM suppressions WHERE (account, id) IN (SELECT account, id FROM suppressions WHERE expires_at <= ? LIMIT ?)',
    ),
    add: database.prepare(
      `INSERT INTO suppressions (account, id, address, reason, note, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (account, address) DO UPDATE
       SET reason = excluded.reason, note = excluded.note, expires_at = excluded.expires_at RETURNING *`,
    ),
    remove: database.prepare(`DELETE FROM suppressions WHERE account = ? AND id = ? AND ${live} RETURNING *`),
    page: database.prepare(
      `SELECT * FROM suppressions WHERE account = ? AND id < ? AND ${live} ORDER BY id DESC LIMIT ?`,
    ),
  };
}

/** Opens the lists; the database is brought up to date, and what has expired is cleared away. */
export function createSuppressionStore(database: DatabaseSync, clock: Clock): SuppressionStore {
  migrateSqlite(database, suppressionMigrations);
  const sql = statements(database);
  /** When it was seen that an account has no entries. */
  const emptySince = new Map<string, number>();
  sql.prune.run(clock.now(), -1);

  function isEmpty(account: string): boolean {
    const now = clock.monotonic();
    const since = emptySince.get(account);
    if (since !== undefined && now - since < emptyForMs) return true;
    if (sql.any.get(account) === undefined) {
      emptySince.set(account, now);
      return true;
    }
    emptySince.delete(account);
    return false;
  }

  function page(account: string, after: string, limit: number): Suppression[] {
    return sql.page.all(account, after, clock.now(), limit).map(suppressionOf);
  }

  async function search(account: string, { limit, after }: SuppressionQuery, fits: (entry: Suppression) => boolean) {
    const entries: Suppression[] = [];
    let last = after ?? behindAll;
    for (;;) {
      const slice = page(account, last, sliceRows);
      for (const entry of slice) if (fits(entry)) entries.push(entry);
      last = slice.at(-1)?.id ?? last;
      if (entries.length > limit || slice.length < sliceRows) return entries;
      await nextTurn();
    }
  }

  return {
    isSuppressed(account, recipient) {
      if (isEmpty(account)) return false;
      return sql.holds.get(account, comparableMailbox(recipient), clock.now()) !== undefined;
    },
    add({ account, address, reason, note, expiresAt }) {
      const now = clock.now();
      const key = comparableMailbox(address);
      database.exec('BEGIN IMMEDIATE');
      try {
        // An entry that has expired is gone: the new one is a new one, not its continuation.
        sql.forget.run(account, key, now);
        sql.prune.run(now, prunedAtOnce);
        const id = uuidv7(now).replaceAll('-', '');
        const row = sql.add.get(account, id, key, reason, note ?? null, now, expiresAt ?? null);
        database.exec('COMMIT');
        emptySince.delete(account);
        return suppressionOf(row ?? {});
      } catch (error) {
        database.exec('ROLLBACK');
        throw error;
      }
    },
    remove(account, id) {
      const row = sql.remove.get(account, id, clock.now());
      return row && suppressionOf(row);
    },
    find(account, address) {
      const row = sql.find.get(account, comparableMailbox(address), clock.now());
      return row && suppressionOf(row);
    },
    async list(account, query) {
      const { limit, after = behindAll, search: wanted = '' } = query;
      const found = wanted === '' ? page(account, after, limit + 1) : await search(account, query, matcher(wanted));
      const entries = found.slice(0, limit);
      const last = entries.at(-1)?.id;
      return { entries, ...(found.length > limit && last !== undefined ? { next: last } : {}) };
    },
  };
}
