// Puts addresses on suppression lists because of what happened: bounces and failures that say that nobody is there, and
// complaints (D51). It follows the events by a cursor that is kept, so a restart goes on where it ended.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from '../../accounts/account.ts';
import type { Clock } from '../../base/clock.ts';
import type { Database, Migrations } from '../../base/database/database.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { EventSearch, EventStore } from '../../spool/events/event-store.ts';
import type {
  BouncedEvent,
  ComplainedEvent,
  FailedEvent,
  MailEvent,
  SuppressedEvent,
} from '../../spool/events/mail-event.ts';
import { classify, needsSecond } from './classify/classify.ts';
import { messageFacts } from './known-messages.ts';
import type { SuppressionStore } from './suppression-store.ts';

// Whether a failure is the second answer, a day later, that a recipient's domain is not there (D51). What was answered before
// stands in the events, which outlive restarts, so nothing else is kept for it.

const dayMs = 86_400_000;
/** Pages of one search: a page may be empty while more follow. */
const mostPages = 20;

async function newest(
  events: Pick<EventStore, 'search'>,
  query: Omit<EventSearch, 'limit' | 'order'>,
): Promise<MailEvent | undefined> {
  let cursor: number | undefined;
  for (let page = 0; page < mostPages; page += 1) {
    const found = await events.search({ ...query, limit: 1, order: 'newest', cursor });
    if (found.events[0] || !found.hasMore) return found.events[0];
    cursor = found.next;
  }
  return undefined;
}

/** Tells whether an answer a day old or older said the same, and no delivery since says otherwise. @param isSame compares them */
async function isSecondAnswer(
  { kind, account, recipient, at }: BouncedEvent | FailedEvent,
  events: Pick<EventStore, 'search'>,
  isSame: (event: MailEvent) => boolean,
): Promise<boolean> {
  // What reports come back about was delivered before, to a next hop that passes it on: that says nothing of the recipient.
  const successes = kind === 'failed' ? (['delivered'] as const) : [];
  const about = { account, recipient };
  const before = await newest(events, { ...about, kinds: ['failed', 'bounced', ...successes], until: at - dayMs + 1 });
  if (!before || !isSame(before)) return false;
  return successes.length === 0 || !(await newest(events, { ...about, kinds: successes, since: before.at, until: at }));
}

/** The table that keeps how far the events have been followed. */
export const feedbackMigrations: Migrations = {
  owner: 'feedback',
  steps: [
    `CREATE TABLE feedback_cursor (
       one INTEGER PRIMARY KEY CHECK (one = 1),
       after_event INTEGER NOT NULL
     ) STRICT;`,
  ],
};

/** What the follower needs. */
export interface SuppressParts {
  readonly database: Database;
  readonly events: Pick<EventStore, 'read' | 'newest' | 'write' | 'search'>;
  readonly suppressions: Pick<SuppressionStore, 'addNew'>;
  /** The account of a name, as it is now. */
  readonly account: (name: string) => Account | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Cause {
  readonly event: (BouncedEvent | ComplainedEvent | FailedEvent) & { readonly id: number };
  readonly recipient: string;
  readonly reason: SuppressedEvent['reason'];
  readonly setting: 'hardBounces' | 'complaints' | 'failures';
  readonly rule?: string;
  /** For the people who look at the entry. */
  readonly words: string;
}

const kinds = ['bounced', 'complained', 'failed'] as const;
/** Events that are dealt with at once, in one transaction, so that a flood of bounces costs few of them. */
const eventsAtOnce = 200;
/** How often new events are looked for, in milliseconds. */
const pollMs = 250;
/** Events of any kind after which the cursor is written though nobody was suppressed, so that a start reads few again. */
const cursorEvery = 10_000;
/** How long the follower waits after an error, in milliseconds. */
const restMs = 2000;
const noteCharacters = 300;

/** What suppresses the recipient of an event; undefined where nothing does. */
function causeOf(event: MailEvent): Cause | undefined {
  if (event.kind === 'bounced') {
    const { recipient, rule, status = '', diagnostic = '' } = event;
    if (event.bounceClass !== 'hard') return undefined;
    const words = `reported: ${[status, diagnostic].join(' ').trim() || rule}`;
    return { event, recipient, reason: 'hard_bounce', setting: 'hardBounces', rule, words };
  }
  if (event.kind === 'complained') {
    const { recipient, feedbackType } = event;
    if (recipient === undefined) return undefined;
    return { event, recipient, reason: 'complaint', setting: 'complaints', words: `complaint: ${feedbackType}` };
  }
  if (event.kind !== 'failed') return undefined;
  const { recipient, reply } = event;
  const decided = classify({ status: reply.enhanced, words: `${reply.code} ${reply.text}` });
  if (decided.class !== 'hard' || reply.code < 500) return undefined;
  const words = `refused: ${[reply.code, reply.enhanced ?? '', reply.text].join(' ')}`;
  return { event, recipient, reason: 'hard_bounce', setting: 'failures', rule: decided.rule, words };
}

function suppressedEvent({ event, recipient, reason, rule }: Cause, at: number): SuppressedEvent {
  const { kind: source, id: cause } = event;
  return { ...messageFacts(event), kind: 'suppressed', at, recipient, reason, source, cause, rule };
}

/** Follows the events from its very first start on, until the signal is aborted. @throws Error where its table cannot be made */
export async function suppressByEvents(parts: SuppressParts, signal: AbortSignal): Promise<void> {
  await parts.database.migrate(feedbackMigrations);
  while (!signal.aborted) {
    try {
      await follow(parts, signal);
    } catch (error) {
      if (signal.aborted) return;
      // The store or the database cannot be used now: nothing is lost, since the cursor stays where it is.
      parts.log.warn({ error: errorMessage(error) }, 'suppressing waits');
      await sleep(restMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

async function follow(parts: SuppressParts, signal: AbortSignal): Promise<void> {
  const { database, events } = parts;
  const save = async (after: number): Promise<void> => {
    const sql = `INSERT INTO feedback_cursor VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET after_event = excluded.after_event`;
    await database.run(sql, [after]);
  };
  const [row] = await database.query('SELECT after_event FROM feedback_cursor WHERE one = 1');
  const after = row ? Number(row['after_event']) : await events.newest();
  if (!row) await save(after);
  let saved = after;
  for (let cursor = after; !signal.aborted; ) {
    const page = await events.read({ after: cursor, limit: eventsAtOnce, kinds });
    cursor = page.next;
    if ((await suppress(parts, page.events)) || cursor - saved >= cursorEvery) {
      await save(cursor);
      saved = cursor;
    }
    if (!page.hasMore) await sleep(pollMs, undefined, { signal }).catch(() => undefined);
  }
}

async function isConfirmed({ event, rule }: Cause, { events }: SuppressParts): Promise<boolean> {
  if (rule === undefined || event.kind === 'complained' || !needsSecond(rule)) return true;
  return await isSecondAnswer(event, events, (before) => needsSecond(causeOf(before)?.rule ?? ''));
}

/** Deals with some events. Doing so twice changes nothing. @returns whether an address was put on a list */
async function suppress(parts: SuppressParts, happened: readonly MailEvent[]): Promise<boolean> {
  const { suppressions, events, account, clock } = parts;
  const wanted = [];
  for (const event of happened) {
    const cause = causeOf(event);
    const owner = cause && account(event.account);
    if (!owner || owner.suppress?.[cause.setting] === false || !(await isConfirmed(cause, parts))) continue;
    const note = `${cause.words.slice(0, noteCharacters)} (message ${cause.event.queueId})`.toWellFormed();
    wanted.push({ cause, entry: { account: owner.id, address: cause.recipient, reason: cause.reason, note } });
  }
  if (wanted.length === 0) return false;
  // An entry that is there already, made by a person perhaps, keeps its reason and its note.
  const added = await suppressions.addNew(wanted.map(({ entry }) => entry));
  const suppressed = wanted.filter((_, index) => added[index] === true);
  await events.write(suppressed.map(({ cause }) => suppressedEvent(cause, clock.now())));
  return suppressed.length > 0;
}
