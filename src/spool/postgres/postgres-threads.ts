// Keeps which Message-ID stands for the client's own (D23), for accounts that ask for thread repair.

import type { SpoolEntry } from '../spool.ts';
import { text } from '../stored-rows.ts';
import { keptClientId, threadKey, threadMilliseconds, threadsOfAccount } from '../threads/replaced-ids.ts';
import type { DatabaseClock, ServerParts } from './server/database-clock.ts';
import { columnsOf, type PostgresSession, type Send } from './server/postgres-session.ts';

/** Rows that are removed at once, at most. */
const removedAtOnce = 5000;

// Of ids that one transaction has several times the last one counts.
const add = `INSERT INTO spool_threads AS kept (account, client_id, message_id, created_at)
  SELECT DISTINCT ON (account, client_id) account, client_id, message_id, created_at
  FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bigint[]) WITH ORDINALITY
    AS new (account, client_id, message_id, created_at, place)
  ORDER BY account, client_id, place DESC
  ON CONFLICT (account, client_id) DO UPDATE SET message_id = excluded.message_id, created_at = excluded.created_at`;
const find = `SELECT client_id, message_id FROM spool_threads
  WHERE account = $1::text AND client_id = ANY ($2::uuid[]) AND created_at > $3::bigint`;
const removeOld = `DELETE FROM spool_threads WHERE (account, client_id) IN
  (SELECT account, client_id FROM spool_threads WHERE created_at <= $1::bigint ORDER BY created_at LIMIT ${removedAtOnce})`;
// The times of the newest ids that an account may have, at the first that is too many.
const surplus = `SELECT account.account, (SELECT created_at FROM spool_threads t WHERE t.account = account.account
    ORDER BY created_at DESC OFFSET ${threadsOfAccount} LIMIT 1) AS until
  FROM (SELECT account FROM spool_counts) AS account`;
const removeSurplus = `DELETE FROM spool_threads WHERE account = $1::text AND client_id IN (SELECT client_id FROM spool_threads
  WHERE account = $1::text AND created_at <= $2::bigint ORDER BY created_at LIMIT ${removedAtOnce})`;

/** A client's id as it is kept: 16 octets, in the form that PostgreSQL has for as many. */
function keyOf(clientId: string): string {
  const hex = threadKey(clientId).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** Sends the statement that keeps the clients' ids of new messages that ask for it. */
export function sendThreads(send: Send, entries: readonly SpoolEntry[], clock: DatabaseClock): void {
  const kept = entries.flatMap((entry) => {
    const clientId = keptClientId(entry);
    return clientId === undefined ? [] : [{ ...entry, key: keyOf(clientId), storedAt: clock.stored(entry.acceptedAt) }];
  });
  if (kept.length > 0) void send(add, columnsOf(kept, 'account', 'key', 'messageId', 'storedAt'));
}

/** Finds the Message-IDs that stand for clients' ids; see `Spool.replacedIds`. */
export async function readReplacedIds(
  { session, clock }: ServerParts,
  account: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const keys = new Map(ids.map((id) => [keyOf(id), id]));
  const rows = await session.query(find, [account, [...keys.keys()], clock.stored(clock.now()) - threadMilliseconds]);
  return new Map(rows.map((row) => [keys.get(text(row, 'client_id')) ?? '', text(row, 'message_id')]));
}

/** Removes some ids that are too old, or too many for their account. */
export async function pruneThreads(session: PostgresSession, storedNow: number): Promise<void> {
  await session.query(removeOld, [storedNow - threadMilliseconds]);
  for (const row of await session.query(surplus)) {
    if (row['until'] !== null) await session.query(removeSurplus, [text(row, 'account'), Number(row['until'])]);
  }
}
