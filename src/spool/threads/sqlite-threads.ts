// Keeps in SQLite which Message-ID stands for the client's own. What writes runs in the message's own transaction.

import { type DatabaseSync, prepareAll } from '../../base/database/sqlite-file.ts';
import { keptClientId, threadKey, threadMilliseconds, threadsOfAccount } from './replaced-ids.ts';

/** The tables, a step of the spool's migrations. */
export const threadTables = `
  -- client_id: the first half of the SHA-256 of the client's Message-ID. message_id: the one it left with. created_at as the
  -- spool stores times.
  CREATE TABLE spool_threads (
    account TEXT NOT NULL,
    client_id BLOB NOT NULL,
    message_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account, client_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX spool_threads_by_age ON spool_threads (account, created_at);
  -- How many each account has.
  CREATE TABLE spool_thread_counts (account TEXT PRIMARY KEY, ids INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`;

/** Rows that one message removes at most: twice what it adds, so that a surplus becomes less. */
const removedByAdd = 2;

const oldest = 'SELECT client_id FROM spool_threads WHERE account = ?1';

function prepare(database: DatabaseSync) {
  return prepareAll(database, {
    exists: 'SELECT 1 FROM spool_threads WHERE account = ? AND client_id = ?',
    add: 'INSERT OR REPLACE INTO spool_threads VALUES (?, ?, ?, ?)',
    find: 'SELECT message_id FROM spool_threads WHERE account = ? AND client_id = ? AND created_at > ?',
    removeOld: `DELETE FROM spool_threads WHERE account = ?1 AND client_id IN
      (${oldest} AND created_at <= ?2 ORDER BY created_at LIMIT ?3)`,
    removeOldest: `DELETE FROM spool_threads WHERE account = ?1 AND client_id IN
      (${oldest} ORDER BY created_at LIMIT ?2)`,
    count: 'SELECT ids FROM spool_thread_counts WHERE account = ?',
    change: `INSERT INTO spool_thread_counts VALUES (?1, ?2)
      ON CONFLICT (account) DO UPDATE SET ids = ids + ?2`,
    accounts: 'SELECT account FROM spool_thread_counts WHERE ids > 0',
  });
}

/** The ids of one database. */
export class SqliteThreads {
  readonly #most: number;
  readonly #sql: ReturnType<typeof prepare>;

  constructor(database: DatabaseSync, most = threadsOfAccount) {
    this.#most = most;
    this.#sql = prepare(database);
  }

  /** Keeps an id; one that the client has used before stands for the newer message from now on. @param storedAt stored time */
  add(account: string, clientId: string, { messageId, storedAt }: { messageId: string; storedAt: number }): void {
    const key = threadKey(clientId);
    const isNew = this.#sql.exists.get(account, key) === undefined;
    this.#sql.add.run(account, key, messageId, storedAt);
    if (isNew) this.#sql.change.run(account, 1);
    this.#prune(account, storedAt, removedByAdd);
    const surplus = Number(this.#sql.count.get(account)?.['ids'] ?? 0) - this.#most;
    if (surplus <= 0) return;
    const removed = Number(this.#sql.removeOldest.run(account, Math.min(surplus, removedByAdd)).changes);
    this.#sql.change.run(account, -removed);
  }

  /** Keeps the id of a message's client, where its thread is to be repaired. @param storedAt stored time */
  keep(entry: Parameters<typeof keptClientId>[0] & { account: string; messageId: string }, storedAt: number): void {
    const clientId = keptClientId(entry);
    if (clientId !== undefined) this.add(entry.account, clientId, { messageId: entry.messageId, storedAt });
  }

  /** Finds the ids that stand for ids of an account. @param storedNow stored time */
  find(account: string, clientIds: readonly string[], storedNow: number): ReadonlyMap<string, string> {
    const found = new Map<string, string>();
    for (const clientId of clientIds) {
      const messageId = this.#sql.find.get(account, threadKey(clientId), storedNow - threadMilliseconds)?.[
        'message_id'
      ];
      if (typeof messageId === 'string') found.set(clientId, messageId);
    }
    return found;
  }

  /** Removes ids that are too old, at most `limit` of each account. @returns true where more may be left */
  prune(storedNow: number, limit: number): boolean {
    let isMore = false;
    for (const { account } of this.#sql.accounts.all()) {
      if (this.#prune(String(account), storedNow, limit) === limit) isMore = true;
    }
    return isMore;
  }

  #prune(account: string, storedNow: number, limit: number): number {
    const removed = Number(this.#sql.removeOld.run(account, storedNow - threadMilliseconds, limit).changes);
    if (removed > 0) this.#sql.change.run(account, -removed);
    return removed;
  }
}
