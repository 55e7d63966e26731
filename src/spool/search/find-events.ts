// Reads and searches events in either engine: by what they are found, and which fit. Each page reads a bounded part of one index or of
// several; what the other conditions leave out is skipped row by row, so that a page may have few events or none while more follow.

import { hash } from 'node:crypto';
import type { Row, SqlValue } from '../../base/database/database.ts';
import { comparableMailbox } from '../../mail/address/path.ts';
import { bareId } from '../../mail/message-ids.ts';
import { ask, askAnew, type StoreSteps, together } from '../core/steps.ts';
import { type EncodedPage, readFacts, toldOf } from '../encoded-event.ts';
import { type EventNews, type EventQuery, type EventSearch, newsAtMost } from '../events/event-store.ts';
import { type EventFacts, isEventKind } from '../events/mail-event.ts';
import { integer, text } from '../stored-rows.ts';

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

/** What is looked for: of one account or, where it only reads on, of all. */
type Asked = Omit<EventSearch, 'account'> & Pick<EventQuery, 'account'>;

/** The keys that an event must all have to be found; the one that is likely to be rarest comes first. */
export function searchedKeys({ clientMessageId, recipient, sender }: Asked): readonly string[] {
  return [
    ...(clientMessageId === undefined ? [] : [clientKey(clientMessageId)]),
    ...(recipient === undefined ? [] : [recipientKey(recipient)]),
    ...(sender === undefined ? [] : [senderKey(sender)]),
  ];
}

/** Milliseconds that an event may be written behind its time: but for that, times are in the order of the ids, as commits are. */
export const lateMs = 60_000;

/** Events of one page at most. */
const mostAtOnce = 1000;

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

/** Makes what tells whether the event of a row is one of those looked for. @param asked its times as they are stored */
function fitting(asked: Asked): (row: Row) => boolean {
  const { account, message, since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = asked;
  const kinds = asked.kinds && new Set<unknown>(asked.kinds);
  const wanted = searchedKeys(asked);
  return (row) => {
    if (account !== undefined && row['account'] !== account) return false;
    if (kinds?.has(row['kind']) === false) return false;
    if (message !== undefined && row['queue_id'] !== message) return false;
    const at = Number(row['at']);
    if (at < since || at >= until) return false;
    if (wanted.length === 0) return true;
    const keys = keysOf(readFacts(String(row['event'])));
    return wanted.every((key) => keys.includes(key));
  };
}

/** Rows that are examined for one page, in each part. */
export const examinedAtOnce = 2000;
/** Characters of JSON after which a page is full. */
const pageCharacters = 2_097_152;
/** Rows that are read at a time for a part of a page. */
const readAtOnce = 250;
const columns = 'e.id, e.at, e.account, e.kind, e.queue_id, e.event';
const news = 'SELECT DISTINCT account, kind FROM mail_events WHERE id BETWEEN ?1 AND ?2';
const firstFrom = 'SELECT id, at FROM mail_events WHERE id >= ?1 AND id <= ?2 ORDER BY id LIMIT 1';

/** A range of ids, both included. */
export interface IdSpan {
  readonly low: number;
  readonly high: number;
}

/** An index that a part of a page is read from. */
export interface EventSource extends Partial<IdSpan> {
  /** What stands behind FROM: the tables and the conditions, with the bounds of the ids as ?1 and ?2. */
  readonly from: string;
  /** The column with the event's id. */
  readonly id: 'e.id' | 'k.event';
  /** Those of the conditions, from ?4 on. */
  readonly values: readonly SqlValue[];
  /** It has no event behind this id, though there are some; absent: it tells of all. */
  readonly until?: number;
}

/** The events that belong to one message, or to an account, of some kinds or of all. */
export type Filed = Pick<EventQuery, 'account' | 'message' | 'kinds'>;

/** What differs between the engines. */
export interface EventTables {
  /** The question for the id of the newest event, as `newest`. */
  readonly newest: string;
  /** The sources of all events of a question, of which each event is in one. */
  readonly filed: (filed: Filed, span: IdSpan) => StoreSteps<readonly EventSource[]>;
  /** Those of the events under a search key. */
  readonly keyed: (key: bigint) => StoreSteps<readonly EventSource[]>;
  /** The ranges in which a page looks for its events, one after another. */
  readonly spans: (span: IdSpan, isOldest: boolean) => Iterable<IdSpan>;
}

/** Some events of a page: all rows up to `until` were examined. */
type PagePart = Pick<EncodedPage, 'events'> & { readonly until: number };

/** Between which ids events are looked for, which come first, and which of them fit. */
interface Look extends IdSpan {
  readonly order: EventSearch['order'];
  readonly most: number;
  readonly fits: (row: Row) => boolean;
}

/** The id of the newest event. */
export function* newestEvent({ newest }: EventTables): StoreSteps<number> {
  const [row] = yield* ask(newest);
  return integer(row ?? {}, 'newest');
}

/** The id of the first event from a stored time on, by halving: times are in the order of the ids but for `lateMs`. */
export function* firstEventFrom(at: number, last: number): StoreSteps<number> {
  const [first] = yield* askAnew(firstFrom, 1, last);
  let low = first ? integer(first, 'id') : 1;
  let high = last + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = yield* askAnew(firstFrom, middle, high - 1);
    if (row === undefined || integer(row, 'at') >= at) high = middle;
    else low = integer(row, 'id') + 1;
  }
  return low;
}

/** Tells which accounts have events behind a cursor. */
export function* eventNews(tables: EventTables, after: number): StoreSteps<EventNews> {
  const newest = yield* newestEvent(tables);
  if (newest <= after) return { newest, told: [] };
  if (newest - after > newsAtMost) return { newest, told: undefined };
  return { newest, told: toldOf(yield* askAnew(news, after + 1, newest)) };
}

/** Finds events, the oldest first. Those newer than the newest one at the start are left to the next page. */
export function readEvents(tables: EventTables, { after, ...query }: EventQuery): StoreSteps<EncodedPage> {
  return searchEvents(tables, { ...query, order: 'oldest', cursor: after }, (time) => time);
}

/** Searches events. @param stored turns a wall time into the time that is kept */
export function* searchEvents(
  tables: EventTables,
  told: Asked,
  stored: (wallTime: number) => number,
): StoreSteps<EncodedPage> {
  const [since, until] = [told.since, told.until].map((time) => (time === undefined ? undefined : stored(time)));
  const query = { ...told, since, until };
  const { order, cursor, message, account = '' } = query;
  const isOldest = order === 'oldest';
  const newest = yield* newestEvent(tables);
  let low = since === undefined ? 1 : yield* firstEventFrom(since - lateMs, newest);
  let high = until === undefined ? newest : Math.min(newest, yield* firstEventFrom(until + lateMs, newest));
  if (cursor !== undefined && isOldest) low = Math.max(low, cursor + 1);
  if (cursor !== undefined && !isOldest) high = Math.min(high, cursor - 1);
  // Who reads on from the oldest waits behind the newest event; who reads from the newest is at the end.
  const end = cursor ?? (isOldest ? Math.max(0, high) : Math.min(newest + 1, low));
  if (low > high) return { events: [], next: end, hasMore: false };
  const [key] = message === undefined ? searchedKeys(query) : [];
  const sources =
    key === undefined ? yield* tables.filed(query, { low, high }) : yield* tables.keyed(keyNumber(account, key));
  const most = Math.min(Math.max(1, query.limit), mostAtOnce);
  const look: Look = { low, high, order, most, fits: fitting(query) };
  const parts = yield* together(sources.map((source) => part(tables, source, look)));
  const { events, next } = joinParts(parts, look);
  return { events, next, hasMore: isOldest ? next < high : next > low };
}

/** Reads a part of a page, some rows at a time, until it has enough or has cost enough. */
function* part({ spans }: EventTables, source: EventSource, look: Look): StoreSteps<PagePart> {
  const { from, id, values, until } = source;
  const isOldest = look.order === 'oldest';
  const sql = `SELECT ${columns} FROM ${from} ORDER BY ${id} ${isOldest ? 'ASC' : 'DESC'} LIMIT ?3`;
  const events: { readonly id: number; readonly json: string }[] = [];
  let [examined, characters, last] = [0, 0, 0];
  const isFull = (): boolean =>
    events.length >= look.most || examined >= examinedAtOnce || characters >= pageCharacters;
  const whole = { low: Math.max(look.low, source.low ?? 0), high: Math.min(look.high, source.high ?? look.high) };
  // Most often the first rows are the page.
  let most = Math.min(look.most, readAtOnce);
  for (const span of spans(whole, isOldest)) {
    let { low, high } = span;
    for (let isMore = true; isMore && low <= high; most = readAtOnce) {
      const rows = yield* askAnew(sql, low, high, most, ...values);
      for (const row of rows) {
        if (isFull()) break;
        examined += 1;
        last = integer(row, 'id');
        // A newer release may have written kinds that this one does not know; they are skipped.
        if (!isEventKind(text(row, 'kind')) || !look.fits(row)) continue;
        events.push({ id: last, json: text(row, 'event') });
        characters += text(row, 'event').length;
      }
      if (isOldest) low = last + 1;
      else high = last - 1;
      isMore = !isFull() && rows.length === most;
    }
    if (isFull()) break;
  }
  return { events, until: isFull() ? last : (until ?? (isOldest ? look.high : look.low)) };
}

/** Joins the parts of a page up to the nearest id that all have examined. @returns the events, and that id */
function joinParts(parts: readonly PagePart[], { order, most, low, high }: Look): Pick<EncodedPage, 'events' | 'next'> {
  const isOldest = order === 'oldest';
  const isBefore = (left: number, right: number): boolean => (isOldest ? left < right : left > right);
  // Where no part is full, everything was examined.
  const end = isOldest ? high : low;
  const reached = parts.reduce((near, { until }) => (isBefore(until, near) ? until : near), end);
  const events = parts
    .flatMap((part) => part.events)
    .filter(({ id }) => !isBefore(reached, id))
    .toSorted((left, right) => (isOldest ? left.id - right.id : right.id - left.id))
    .slice(0, most);
  return { events, next: events.length === most ? (events.at(-1)?.id ?? reached) : reached };
}
