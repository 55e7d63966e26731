// The Idempotency-Keys in PostgreSQL (D48). They are written with their messages (added-messages.ts).

import { type AccountKey, idempotencyMilliseconds, type UsedKey } from '../idempotency-keys.ts';
import type { PostgresSession } from './server/postgres-session.ts';

const find = `SELECT digest, message_id, recipients, answer FROM idempotency_keys
  WHERE account = $1::text AND key = $2::text AND created_at > $3::bigint`;
const answer = 'UPDATE idempotency_keys SET answer = $3::text WHERE account = $1::text AND key = $2::text';
const prune = `DELETE FROM idempotency_keys WHERE (account, key) IN
  (SELECT account, key FROM idempotency_keys WHERE created_at <= $1::bigint ORDER BY created_at LIMIT $2::integer)`;

/** Finds the use of a key by the account within the last 24 hours. @param now milliseconds since 1970 */
export async function readUsedKey(
  session: PostgresSession,
  { account, key }: AccountKey,
  now: number,
): Promise<UsedKey | undefined> {
  const [row] = await session.query(find, [account, key, now - idempotencyMilliseconds]);
  if (!row) return undefined;
  const recipients: unknown = JSON.parse(String(row['recipients']));
  return {
    digest: String(row['digest']),
    messageId: String(row['message_id']),
    recipients: Array.isArray(recipients) ? recipients.map(String) : [],
    ...(typeof row['answer'] === 'string' ? { answer: row['answer'] } : {}),
  };
}

/** Keeps the answer to the first request with a key. */
export async function keepAnswer(session: PostgresSession, { account, key }: AccountKey, text: string): Promise<void> {
  await session.query(answer, [account, key, text]);
}

/** Removes up to `limit` keys older than 24 hours. */
export async function pruneKeys(session: PostgresSession, now: number, limit: number): Promise<void> {
  await session.query(prune, [now - idempotencyMilliseconds, limit]);
}
