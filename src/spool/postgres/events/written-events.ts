// Writes events, with what they are found by and how many there are. Their ids follow on the newest event's, in a row that whoever
// files them holds until the commit (`takeTurn`); so they are given in the order of the commits and without gaps.

import { tellOthers } from '../../../base/database/postgres-changes.ts';
import { addTallies } from '../../core/tally-steps.ts';
import { type EncodedEvent, shareNumbers } from '../../encoded-event.ts';
import { eventKinds, isEventKind } from '../../events/mail-event.ts';
import { keyNumbersOf } from '../../search/find-events.ts';
import { type AccountTally, emptyTally, numbersOf, TallyChanges, tallyColumns } from '../../tally.ts';
import { columnsOf, listsOf, type Send } from '../server/postgres-session.ts';

/** Tells other processes that there are events, or that mail may be due or under another hold. */
export const tellEvents = tellOthers('mail_events');
export const tellDue = tellOthers('mail_due');

/** Waits for the turn to file or remove events, and draws so many of their ids. No transaction of a message takes it. */
export const takeTurn = 'UPDATE spool_state SET last_event = last_event + $1::bigint WHERE one = 1';

// The number of the first event is what the row says now, less how many there are.
const addEvents = `INSERT INTO mail_events (id, at, account, share, kind, queue_id, event)
  SELECT (SELECT last_event FROM spool_state) - $1::bigint + new.number, new.at, new.account, new.share, new.kind,
    new.queue_id, new.event
  FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::smallint[], $6::text[], $7::text[], $8::text[])
    AS new (number, at, account, share, kind, queue_id, event)`;

const addKeys = `INSERT INTO mail_event_keys (key, event)
  SELECT new.key, (SELECT last_event FROM spool_state) - $1::bigint + new.number
  FROM unnest($2::bigint[], $3::bigint[]) AS new (key, number)`;

const countEvents = `INSERT INTO mail_event_counts AS kept (account, share, events)
  SELECT * FROM unnest($1::text[], $2::smallint[], $3::bigint[])
  ON CONFLICT (account, share) DO UPDATE SET events = kept.events + excluded.events`;

/** How many events more the accounts have, in each share. */
export class EventCounts {
  readonly #counts = new Map<string, { readonly account: string; readonly share: number; events: number }>();

  /** @param events less where it is negative */
  add(account: string, share: number, events: number): void {
    const counted = this.#counts.get(`${share} ${account}`);
    if (counted) counted.events += events;
    else this.#counts.set(`${share} ${account}`, { account, share, events });
  }

  /** Sends the statement that adds them to what is kept. */
  send(send: Send): void {
    if (this.#counts.size > 0)
      void send(countEvents, columnsOf([...this.#counts.values()], 'account', 'share', 'events'));
  }
}

/** Sends the statements that write events, in their order; `takeTurn` with their number must have been sent before. */
export function sendEvents(send: Send, events: readonly EncodedEvent[]): void {
  if (events.length === 0) return;
  // A newer release may have told of kinds that this one does not know.
  const shares = events.map(({ kind }) => shareNumbers[isEventKind(kind) ? eventKinds[kind].share : 'mail']);
  void send(addEvents, [
    events.length,
    events.map((_, index) => index + 1),
    ...columnsOf(events, 'at', 'account'),
    shares,
    ...columnsOf(events, 'kind', 'message', 'json'),
  ]);
  const keys = events
    .flatMap(({ account, json }, index) =>
      [...new Set(keyNumbersOf(account, json))].map((key) => ({ key, number: index + 1 })),
    )
    .toSorted((left, right) => (left.key < right.key ? -1 : left.key > right.key ? 1 : left.number - right.number));
  if (keys.length > 0) void send(addKeys, [events.length, ...columnsOf(keys, 'key', 'number')]);
  const counts = new EventCounts();
  for (const [index, { account }] of events.entries()) counts.add(account, shares[index] ?? 0, 1);
  counts.send(send);
}

const change = addTallies(
  `SELECT * FROM unnest($1::text[], ${tallyColumns.map((_, index) => `$${index + 2}::bigint[]`).join(', ')})`,
);
const clear =
  'DELETE FROM spool_counts WHERE account = ANY ($1::text[]) AND queued_messages = 0 AND failed_messages = 0';

/** Sends the statements that add to the kept numbers what transactions tell that accounts have more. */
export function sendTallies(send: Send, more: readonly AccountTally[]): void {
  const sum = new TallyChanges();
  for (const tally of more) sum.add(tally.account, tally);
  if (sum.size === 0) return;
  // Accounts in one order: two transactions never wait for each other's.
  const accounts = [...sum.keys()].toSorted();
  void send(change, [accounts, ...listsOf(accounts.map((account) => numbersOf(sum.get(account) ?? emptyTally)))]);
  // An account without messages has no row, so that accounts that come and go leave nothing behind.
  void send(clear, [accounts]);
}
