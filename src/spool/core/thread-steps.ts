// Which Message-ID a message left with in place of the client's own (D23), for thread repair: what is kept and how long, in either engine.

import { createHash } from 'node:crypto';
import type { SqlValue } from '../../base/database/database.ts';
import { integer, optional, text } from '../stored-rows.ts';
import { ask, type StoreSteps, step } from './steps.ts';

/** How long an id is kept, in milliseconds: 180 days. */
export const threadMilliseconds = 180 * 24 * 60 * 60 * 1000;
/** Ids that one account may have; the oldest go first. Each takes some 150 octets. */
export const threadsOfAccount = 1_000_000;

/** What is kept of the client's id: 16 octets, whatever its length. */
export function threadKey(clientId: string): Buffer {
  return createHash('sha256').update(clientId).digest().subarray(0, 16);
}

const find = 'SELECT message_id FROM spool_threads WHERE account = ?1 AND client_id = ?2 AND created_at > ?3';
// Steps from account to account in the index; `surplus` is the time of the newest id of an account that is too many.
const accounts = (most: number): string => `WITH RECURSIVE known (account) AS (
    SELECT min(account) FROM spool_threads UNION ALL
    SELECT (SELECT min(t.account) FROM spool_threads t WHERE t.account > known.account) FROM known WHERE known.account IS NOT NULL
  )
  SELECT account, (SELECT t.created_at FROM spool_threads t WHERE t.account = known.account
    ORDER BY t.created_at DESC LIMIT 1 OFFSET ${most}) AS surplus
  FROM known WHERE account IS NOT NULL`;
const remove = `DELETE FROM spool_threads WHERE account = ?1 AND client_id IN (SELECT client_id FROM spool_threads
  WHERE account = ?1 AND created_at <= ?2 ORDER BY created_at LIMIT ?3) RETURNING 1 AS gone`;

/** Finds the Message-IDs that stand for clients' ids; see `Spool.replacedIds`. @param keyOf `threadKey` as the engine keeps it */
export function* findThreads(
  keyOf: (clientId: string) => SqlValue,
  account: string,
  clientIds: readonly string[],
  storedNow: number,
): StoreSteps<ReadonlyMap<string, string>> {
  const rows = yield clientIds.map((id) => step(find, account, keyOf(id), storedNow - threadMilliseconds));
  return new Map(
    clientIds.flatMap((id, at) => {
      const messageId = optional(rows[at]?.[0] ?? {}, 'message_id');
      return messageId === undefined ? [] : [[id, messageId] as const];
    }),
  );
}

/** Removes ids that are too old, or too many for their account. */
export class ThreadRemoval {
  readonly #accounts: string;
  /** The accounts that were found, each with the stored time up to which its ids go. */
  #left: { readonly account: string; readonly until: number }[] = [];

  /** @param most ids that one account may have */
  constructor(most = threadsOfAccount) {
    this.#accounts = accounts(most);
  }

  /** Removes `limit` ids at most. @returns whether there may be more; the accounts are looked at again once there are not */
  *prune(storedNow: number, limit: number): StoreSteps<boolean> {
    const aged = storedNow - threadMilliseconds;
    if (this.#left.length === 0)
      this.#left = (yield* ask(this.#accounts)).map((row) => ({
        account: text(row, 'account'),
        until: row['surplus'] === null ? aged : Math.max(aged, integer(row, 'surplus')),
      }));
    let room = limit;
    for (let [next] = this.#left; next && room > 0; [next] = this.#left) {
      room -= (yield* ask(remove, next.account, next.until, room)).length;
      if (room > 0) this.#left.shift();
    }
    return this.#left.length > 0;
  }
}
