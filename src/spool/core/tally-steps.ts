// The numbers of accounts as either engine keeps them, a row for each account that has a message.

import type { Row } from '../../base/database/database.ts';
import { idempotencyMilliseconds, KeyUsed, type UsedKey } from '../idempotency-keys.ts';
import { type EntryMeta, integer, text } from '../stored-rows.ts';
import { type AccountTally, tallyColumns, tallyWith } from '../tally.ts';
import { ask, type StoreSteps } from './steps.ts';

const columns = ['account', ...tallyColumns].join(', ');
const sums = tallyColumns.map((name) => `${name} = kept.${name} + excluded.${name}`).join(', ');
const all = `SELECT ${columns} FROM spool_counts ORDER BY account`;

/** SQL that adds to the numbers of accounts. @param rows gives each account, and its numbers in the order of their columns */
export function addTallies(rows: string): string {
  return `INSERT INTO spool_counts AS kept (${columns}) ${rows} ON CONFLICT (account) DO UPDATE SET ${sums}`;
}

/** SQL that counts the numbers of every account into the empty table. @param key the column by which recipients name a message */
export function countTallies(key: 'id' | 'seq'): string {
  return `INSERT INTO spool_counts (${columns})
  SELECT account, count(*) FILTER (WHERE queued > 0), count(*) FILTER (WHERE queued = 0),
    coalesce(sum(size) FILTER (WHERE queued > 0), 0), coalesce(sum(size) FILTER (WHERE queued = 0), 0),
    sum(queued), sum(delivered), sum(failed)
  FROM (SELECT m.account, m.size, count(*) FILTER (WHERE r.state = 0) AS queued,
      count(*) FILTER (WHERE r.state = 1) AS delivered, count(*) FILTER (WHERE r.state = 2) AS failed
    FROM spool_messages m JOIN spool_recipients r ON r.message = m.${key} GROUP BY m.${key}) AS counted
  GROUP BY account`;
}

/** The numbers in a row. */
export function tallyOfRow(row: Row): AccountTally {
  return { account: text(row, 'account'), ...tallyWith((column) => integer(row, column)) };
}

/** The numbers of every account that has a message, by name. It reads one row for each account, however many messages. */
export function* readTallies(): StoreSteps<readonly AccountTally[]> {
  return (yield* ask(all)).map(tallyOfRow);
}

const add = `INSERT INTO idempotency_keys AS kept (account, key, digest, message_id, recipients, answer, created_at)
  VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6)
  ON CONFLICT (account, key) DO UPDATE SET digest = ?3, message_id = ?4, recipients = ?5, answer = NULL, created_at = ?6
  WHERE kept.created_at <= ?6 - ${idempotencyMilliseconds} RETURNING 1 AS kept`;
const find = `SELECT digest, message_id, recipients, answer FROM idempotency_keys
  WHERE account = ?1 AND key = ?2 AND created_at > ?3`;
const answer = 'UPDATE idempotency_keys SET answer = ?3 WHERE account = ?1 AND key = ?2';
const prune = `DELETE FROM idempotency_keys WHERE (account, key) IN
  (SELECT account, key FROM idempotency_keys WHERE created_at <= ?1 ORDER BY created_at LIMIT ?2) RETURNING 1 AS gone`;

/** Adds the key of a message, if any, in its transaction. @throws KeyUsed where it is used already, so that nothing is sent twice */
export function* addKey(entry: EntryMeta): StoreSteps<void> {
  if (!entry.idempotency) return;
  const { account, messageId, acceptedAt, idempotency } = entry;
  const { key, digest } = idempotency;
  const kept = yield* ask(add, account, key, digest, messageId, JSON.stringify(entry.recipients), acceptedAt);
  if (kept.length === 0) throw new KeyUsed(account);
}

/** Finds the use of a key by the account within the last 24 hours. @param now milliseconds since 1970 */
export function* findKey(account: string, key: string, now: number): StoreSteps<UsedKey | undefined> {
  const [row] = yield* ask(find, account, key, now - idempotencyMilliseconds);
  if (!row) return undefined;
  const recipients: unknown = JSON.parse(String(row['recipients']));
  return {
    digest: String(row['digest']),
    messageId: String(row['message_id']),
    recipients: Array.isArray(recipients) ? recipients.map(String) : [],
    ...(typeof row['answer'] === 'string' ? { answer: row['answer'] } : {}),
  };
}

/** Keeps the answer to the first request with a key, so that it can be repeated. */
export function* keepAnswer(account: string, key: string, text: string): StoreSteps<void> {
  yield* ask(answer, account, key, text);
}

/** Removes up to `limit` keys older than 24 hours. @returns whether there may be more of them */
export function* pruneKeys(now: number, limit: number): StoreSteps<boolean> {
  return (yield* ask(prune, now - idempotencyMilliseconds, limit)).length === limit;
}
