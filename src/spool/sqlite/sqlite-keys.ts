// Keeps the Idempotency-Keys in SQLite (D48), on the spool's own connection.

import type { Migrations } from '../../base/database/database.ts';
import { type DatabaseSync, migrateSqlite, type StatementSync } from '../../base/database/sqlite-file.ts';
import { type AccountKey, idempotencyMilliseconds, KeyUsed, type UsedKey } from '../idempotency-keys.ts';
import type { SpoolEntry } from '../spool.ts';

/** The table of the keys. Times are milliseconds since 1970; `answer` is null unless it is other than the default. */
export const idempotencyMigrations: Migrations = {
  owner: 'idempotency',
  steps: [
    `CREATE TABLE idempotency_keys (
       account TEXT NOT NULL,
       key TEXT NOT NULL,
       digest TEXT NOT NULL,
       message_id TEXT NOT NULL,
       recipients TEXT NOT NULL,
       answer TEXT,
       created_at INTEGER NOT NULL,
       PRIMARY KEY (account, key)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX idempotency_age ON idempotency_keys (created_at);`,
  ],
};

/** The keys on the spool's connection. A method runs in the caller's transaction, or in one of its own if there is none. */
export class SqliteKeys {
  readonly #add: StatementSync;
  readonly #find: StatementSync;
  readonly #answered: StatementSync;
  readonly #prune: StatementSync;

  /** Brings the table up to date. */
  constructor(database: DatabaseSync) {
    migrateSqlite(database, idempotencyMigrations);
    this.#add = database.prepare(`INSERT INTO idempotency_keys VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6)
      ON CONFLICT (account, key) DO UPDATE SET digest = ?3, message_id = ?4, recipients = ?5, answer = NULL, created_at = ?6
      WHERE created_at <= ?6 - ${idempotencyMilliseconds}`);
    this.#find = database.prepare('SELECT * FROM idempotency_keys WHERE account = ? AND key = ? AND created_at > ?');
    this.#answered = database.prepare('UPDATE idempotency_keys SET answer = ? WHERE account = ? AND key = ?');
    this.#prune = database.prepare(`DELETE FROM idempotency_keys WHERE (account, key) IN
      (SELECT account, key FROM idempotency_keys WHERE created_at <= ? ORDER BY created_at LIMIT ?)`);
  }

  /**
   * Adds the key of a message, in the message's transaction.
   * @throws KeyUsed where the account has used it already: the transaction is then undone, and nothing is sent twice
   */
  add(entry: Omit<SpoolEntry, 'head' | 'body'>): void {
    if (!entry.idempotency) return;
    const { key, digest } = entry.idempotency;
    const recipients = JSON.stringify(entry.recipients);
    const { changes } = this.#add.run(entry.account, key, digest, entry.messageId, recipients, entry.acceptedAt);
    if (Number(changes) === 0) throw new KeyUsed(entry.account);
  }

  /** Finds the use of a key by the account within the last 24 hours. @param now milliseconds since 1970 */
  find({ account, key }: AccountKey, now: number): UsedKey | undefined {
    const row = this.#find.get(account, key, now - idempotencyMilliseconds);
    if (!row) return undefined;
    const recipients: unknown = JSON.parse(String(row['recipients']));
    return {
      digest: String(row['digest']),
      messageId: String(row['message_id']),
      recipients: Array.isArray(recipients) ? recipients.map(String) : [],
      ...(typeof row['answer'] === 'string' ? { answer: row['answer'] } : {}),
    };
  }

  /** Keeps the answer to the first request, so that it can be repeated. */
  answered({ account, key }: AccountKey, answer: string): void {
    this.#answered.run(answer, account, key);
  }

  /** Removes up to `limit` keys older than 24 hours; true where there may be more of them. */
  prune(now: number, limit: number): boolean {
    return Number(this.#prune.run(now - idempotencyMilliseconds, limit).changes) === limit;
  }
}
