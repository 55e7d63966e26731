// What a search of events means, whatever engine keeps them: what events are found by, which fit, and between which ids a page lies.

import { hash } from 'node:crypto';
import type { Row } from '../../base/database/database.ts';
import { comparableMailbox } from '../../mail/address/comparable-mailbox.ts';
import { bareId } from '../../mail/message-ids.ts';
import { readFacts } from '../encoded-event.ts';
import type { EventSearch } from '../events/event-store.ts';
import type { EventFacts } from '../events/mail-event.ts';

const recipientKey = (address: string): string => `r ${comparableMailbox(address)}`;
const senderKey = (address: string): string => `s ${comparableMailbox(address)}`;
// With brackets or without, it is one message.
const clientKey = (messageId: string): string => `c ${bareId(messageId)}`;

/** The keys of an event, each once. The sender is a key of events that name several recipients alone, so that outcomes stay cheap. */
export function eventKeys(event: EventFacts): readonly string[] {
  const keys: string[] = [];
  if ('recipients' in event) {
    for (const address of event.recipients) keys.push(recipientKey(address));
    if (event.senderPath !== undefined) keys.push(senderKey(event.senderPath));
  }
  if ('recipient' in event && event.recipient !== undefined) keys.push(recipientKey(event.recipient));
  if ('clientMessageId' in event && event.clientMessageId !== undefined) keys.push(clientKey(event.clientMessageId));
  return keys.length < 2 ? keys : [...new Set(keys)];
}

/** The keys that an event must all have to be found; the one that is likely to be rarest comes first. */
export function searchedKeys({ clientMessageId, recipient, sender }: EventSearch): readonly string[] {
  return [
    ...(clientMessageId === undefined ? [] : [clientKey(clientMessageId)]),
    ...(recipient === undefined ? [] : [recipientKey(recipient)]),
    ...(sender === undefined ? [] : [senderKey(sender)]),
  ];
}

/**
 * How much later than its time an event may be written, in milliseconds: a commit waits 5 s for a lock, an outcome somewhat
 * longer. Ids are given in the order of the commits, so times are in order but for this.
 */
export const lateMs = 60_000;

/** Events of one page at most. */
export const mostAtOnce = 1000;

/** Numbers of keys that are kept at hand: accounts and senders come again and again, and a recipient with each attempt. */
const mostKept = 10_000;
const kept = new Map<string, bigint>();

/** The number under which a key of an account's events is kept: 64 bits of SHA-256. */
export function keyNumber(account: string, key: string): bigint {
  const text = `${account}\0${key}`;
  let number = kept.get(text);
  if (number === undefined) {
    number = BigInt.asIntN(64, BigInt(`0x${hash('sha256', text).slice(0, 16)}`));
    if (kept.size >= mostKept) kept.clear();
    kept.set(text, number);
  }
  return number;
}

/** The numbers of the keys of a kept event; none where it is damaged. @param json as `encodeEvent` made it */
export function keyNumbersOf(account: string, json: string): readonly bigint[] {
  return keyNumbersOfFacts(account, readFacts(json));
}

/** The numbers of the keys of an event that was read. */
export function keyNumbersOfFacts(account: string, facts: EventFacts | undefined): readonly bigint[] {
  return keysOf(facts).map((key) => keyNumber(account, key));
}

function keysOf(facts: EventFacts | undefined): readonly string[] {
  if (!facts) return [];
  try {
    return eventKeys(facts);
  } catch {
    // It is damaged. Keys are asked for in commits, too, which remove old events: nothing may stop them.
    return [];
  }
}

/** Whether the event of a row is one of those searched for. @param query its times as they are stored */
export function isSearched(row: Row, query: EventSearch): boolean {
  const at = Number(row['at']);
  if (row['account'] !== query.account) return false;
  if (query.kinds && !query.kinds.some((kind) => kind === row['kind'])) return false;
  if (query.message !== undefined && row['queue_id'] !== query.message) return false;
  if (at < (query.since ?? Number.NEGATIVE_INFINITY) || at >= (query.until ?? Number.POSITIVE_INFINITY)) return false;
  const wanted = searchedKeys(query);
  if (wanted.length === 0) return true;
  const keys = keysOf(readFacts(String(row['event'])));
  return wanted.every((key) => keys.includes(key));
}

/**
 * Finds the ids between which a page lies; `low` above `high` where there are none.
 * @param found the first id that the query's `since` leaves, the last one that `until` leaves, and the newest id of all
 * @returns them with how many events it has at most, and in `end` the `next` of a page without a row
 */
export function searchBounds(
  { order, cursor, limit }: EventSearch,
  found: { readonly low: number; readonly high: number; readonly newest: number },
) {
  const isOldest = order === 'oldest';
  const low = cursor !== undefined && isOldest ? Math.max(found.low, cursor + 1) : found.low;
  const high = cursor !== undefined && !isOldest ? Math.min(found.high, cursor - 1) : found.high;
  // Who reads on from the oldest waits behind the newest event; who reads from the newest is at the end.
  const end = isOldest ? Math.max(cursor ?? 0, high) : Math.min(cursor ?? found.newest + 1, low);
  return { low, high, limit: Math.min(Math.max(1, limit), mostAtOnce), end };
}
