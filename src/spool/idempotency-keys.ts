// Idempotency-Keys and the messages they made (D48). A key is written by the spool in the very commit of its message, so
// that no crash can part them: a key that is there has its message, and one that is not has sent nothing.

import { type DatabaseSync, type Migrations, migrate, type StatementSync } from '../base/database/database.ts';
import type { SpoolEntry } from './spool.ts';

/** How long a key answers for its message. */
export const idempotencyMilliseconds = 24 * 60 * 60 * 1000;

/** The table of the keys. Times are milliseconds since 1970; `answer` is null until one beside the default is told. */
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

/** What a key was used for. */
export interface UsedKey {
  /** SHA-256 of the endpoint and the body, hex. */
  readonly digest: string;
  /** With brackets. */
  readonly messageId: string;
  readonly recipients: readonly string[];
  /** The answer that was told, where it was another than that all recipients are queued. */
  readonly answer?: string;
}

/** Looks keys up. */
export interface IdempotencyKeys {
  /** What the account has used a key for within the last 24 hours. */
  find(account: string, key: string): UsedKey | undefined;
  /** Keeps what the first request was answered, to be told again. */
  answered(account: string, key: string, answer: string): void;
}

/** Prepares the statement by which the spool adds a key; the table is brought up to date. */
export function prepareAddKey(database: DatabaseSync): StatementSync {
  migrate(database, idempotencyMigrations);
  return database.prepare(`INSERT INTO idempotency_keys VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6)
    ON CONFLICT (account, key) DO UPDATE SET digest = ?3, message_id = ?4, recipients = ?5, answer = NULL, created_at = ?6
    WHERE created_at <= ?6 - ${idempotencyMilliseconds}`);
}

/**
 * Adds the key of a message, in the message's transaction.
 * @throws Error where the account has used it already: the transaction is then undone, and nothing is sent twice
 */
export function addKey(statement: StatementSync, entry: Omit<SpoolEntry, 'head' | 'body'>): void {
  if (!entry.idempotency) return;
  const { key, digest } = entry.idempotency;
  const recipients = JSON.stringify(entry.recipients);
  const { changes } = statement.run(entry.account, key, digest, entry.messageId, recipients, entry.acceptedAt);
  if (Number(changes) === 0) throw new Error(`Account ${entry.account} has used this Idempotency-Key already`);
}

/** Opens the keys on a connection of the caller's. Old ones are removed at most once an hour. */
export function openIdempotencyKeys(database: DatabaseSync, clock: { now(): number }): IdempotencyKeys {
  migrate(database, idempotencyMigrations);
  const find = database.prepare('SELECT * FROM idempotency_keys WHERE account = ? AND key = ? AND created_at > ?');
  const answered = database.prepare('UPDATE idempotency_keys SET answer = ? WHERE account = ? AND key = ?');
  const prune = database.prepare('DELETE FROM idempotency_keys WHERE created_at <= ?');
  const pruneEveryMilliseconds = 60 * 60 * 1000;
  let prunedAt = Number.NEGATIVE_INFINITY;
  return {
    find(account, key) {
      const oldest = clock.now() - idempotencyMilliseconds;
      if (clock.now() - prunedAt > pruneEveryMilliseconds) {
        prunedAt = clock.now();
        prune.run(oldest);
      }
      const row = find.get(account, key, oldest);
      if (!row) return undefined;
      const recipients: unknown = JSON.parse(String(row['recipients']));
      return {
        digest: String(row['digest']),
        messageId: String(row['message_id']),
        recipients: Array.isArray(recipients) ? recipients.map(String) : [],
        ...(typeof row['answer'] === 'string' ? { answer: row['answer'] } : {}),
      };
    },
    answered(account, key, answer) {
      answered.run(answer, account, key);
    },
  };
}
