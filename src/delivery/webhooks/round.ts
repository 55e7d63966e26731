// One round of a webhook: reads some events, sends them, and writes in one commit what became of each. Events of one message
// are sent one after another; one that fails holds back only the later ones of its message (D54).

import { oncePer } from '../../base/once-per.ts';
import type { EventPage, EventQuery, EventStore } from '../../spool/events/event-store.ts';
import { type MailEvent, toldKinds } from '../../spool/events/mail-event.ts';
import { eventJson } from '../../spool/events/message-history.ts';
import type { Leased, LeaseStore, PendingEvent, RoundProgress } from './lease-store.ts';
import type { Poster } from './post.ts';
import { signatureOf } from './secret.ts';
import { type DeliveryRecord, failingFor, failuresToSlow, nextStepMs, retryAfterMs } from './webhook.ts';

/** Gives pages of events, read once for all webhooks that ask for the same at a time, as an account's do when an event wakes them. */
export function createSharedPages(events: Pick<EventStore, 'read'>) {
  const underWay = new Map<string, Promise<EventPage>>();
  let heard = 0;
  return {
    /** There may be more events: whoever asks from now on gets a page that is read from now on. */
    heard: (): void => void (heard += 1),
    /** Reads a page, or waits for one that is being read for somebody else. */
    read(query: EventQuery): Promise<EventPage> {
      const key = JSON.stringify([heard, query]);
      const page = underWay.get(key) ?? events.read(query).finally(() => underWay.delete(key));
      underWay.set(key, page);
      return page;
    },
  };
}

/** What rounds need. */
export interface RoundParts {
  readonly store: Pick<LeaseStore, 'due' | 'blocked' | 'waiting'>;
  readonly events: Pick<EventStore, 'read'>;
  readonly poster: Pick<Poster, 'post'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Ends requests under way; what they were about counts as not sent. */
  readonly signal: AbortSignal;
  /** Whether nothing more is begun, since the process ends. */
  readonly isEnding: () => boolean;
}

/** What a round did. */
export interface RoundResult {
  readonly progress: RoundProgress;
  readonly hasMore: boolean;
  /** The endpoint said that it is gone for good (410). */
  readonly isGone: boolean;
}

/** New events of one round, retries, and replayed events. */
const newAtOnce = 32;
const retriesAtOnce = 16;
const replayedAtOnce = 16;
/** Requests of one webhook under way at the same time. */
const inParallel = 8;
/** Pending events of one webhook above which no new ones are begun: those wait behind the cursor. */
const mostPending = 10_000;

interface Item extends PendingEvent {
  readonly content: MailEvent | undefined;
  readonly wasPending: boolean;
}

interface Sent extends Omit<DeliveryRecord, 'id' | 'event' | 'kind' | 'attempt'> {
  /** For how long the endpoint asks to be left alone, in milliseconds. */
  readonly askedMs?: number;
}

function newItem(content: MailEvent): Item {
  const { id: event } = content;
  // Events of one message are sent in order; an event without a message stands alone.
  const message = 'queueId' in content ? content.queueId : `event ${event}`;
  return { event, message, attempts: 0, readyAt: undefined, content, wasPending: false };
}

/** The bodies of events that several webhooks are told of; those of one account read the same objects. */
const bodyOf = oncePer((event: MailEvent): string => {
  const data = eventJson(event);
  return JSON.stringify({ type: event.kind, timestamp: data.at, data });
});

function requestOf(event: MailEvent, secrets: readonly string[], now: number) {
  const { at, id: number } = event;
  const body = bodyOf(event);
  // The number alone would be that of another event where a database was made anew.
  const id = `evt_${number}_${at.toString(36)}`;
  const timestamp = Math.floor(now / 1000);
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Postern-Webhooks',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signatureOf(secrets, { id, timestamp, body }),
    },
  };
}

/** Collects what became of the events of a round. */
class Outcome {
  readonly done: PendingEvent[] = [];
  readonly again: PendingEvent[] = [];
  readonly pending: PendingEvent[] = [];
  readonly log: Omit<DeliveryRecord, 'id'>[] = [];
  successes = 0;
  failures = 0;
  isGone = false;

  /** Takes what became of an attempt. @returns whether the next event of the message may be sent */
  add(item: Item, { askedMs = 0, ...sent }: Sent, now: number): boolean {
    const attempts = item.attempts + 1;
    const kind = item.content?.kind ?? '';
    if (sent.result === 'delivered') this.successes += 1;
    else this.failures += 1;
    if (sent.status === 410) this.isGone = true;
    const step = sent.result === 'delivered' ? undefined : nextStepMs(attempts);
    const result = sent.result !== 'delivered' && step === undefined ? 'given_up' : sent.result;
    this.log.push({ ...sent, result, event: item.event, kind, attempt: attempts });
    if (step === undefined) {
      if (item.wasPending) this.done.push(item);
      return true;
    }
    (item.wasPending ? this.again : this.pending).push({ ...item, attempts, readyAt: now + Math.max(step, askedMs) });
    return false;
  }

  /** Takes an event off that the store no longer has, since it grew too old. */
  lose(item: Item, at: number): void {
    const { event, attempts: attempt } = item;
    const error = 'the event is too old and gone';
    this.log.push({ ...{ event, kind: '', attempt, at, durationMs: 0 }, result: 'given_up', status: undefined, error });
    this.done.push(item);
  }

  /** Keeps events for later: the first of them is due at once where nothing of their message comes before it. */
  keep(items: readonly Item[], readyAt: number | undefined): void {
    for (const [at, item] of items.entries()) {
      if (!item.wasPending) this.pending.push({ ...item, readyAt: at === 0 ? readyAt : undefined });
    }
  }
}

async function send(parts: RoundParts, { webhook, secrets }: Leased, event: MailEvent): Promise<Sent | 'ended'> {
  const at = parts.now();
  const began = performance.now();
  const { body, headers } = requestOf(event, secrets, at);
  const { account: owner, url } = webhook;
  const answer = await parts.poster.post({ owner, url, headers, body, signal: parts.signal });
  const durationMs = Math.round(performance.now() - began);
  if (!('status' in answer)) {
    if (parts.signal.aborted) return 'ended';
    return { at, durationMs, result: 'failed', status: undefined, error: answer.error };
  }
  const { status } = answer;
  if (status >= 200 && status < 300) return { at, durationMs, result: 'delivered', status, error: undefined };
  const error = status >= 300 && status < 400 ? 'redirects are not followed' : `the answer was ${status}`;
  const askedMs = status === 429 || status === 503 ? retryAfterMs(answer.retryAfter, parts.now()) : 0;
  return { at, durationMs, result: 'failed', status, error, askedMs };
}

/** Sends the events of one message, one after another, as far as they get through. */
async function sendGroup(parts: RoundParts, leased: Leased, group: readonly Item[], outcome: Outcome): Promise<void> {
  for (const [at, item] of group.entries()) {
    const sent = parts.isEnding() ? 'ended' : item.content && (await send(parts, leased, item.content));
    if (sent === 'ended') return outcome.keep(group.slice(at), parts.now());
    if (!sent) outcome.lose(item, parts.now());
    else if (!outcome.add(item, sent, parts.now())) return outcome.keep(group.slice(at + 1), undefined);
  }
}

/** Runs work on every entry, some at the same time. */
async function forEachInParallel<T>(entries: readonly T[], work: (entry: T) => Promise<void>): Promise<void> {
  const left = entries.values();
  const run = async (): Promise<void> => {
    for (const entry of left) await work(entry);
  };
  await Promise.all(Array.from({ length: Math.min(inParallel, entries.length) }, run));
}

/** The new events behind the cursor; none while the endpoint fails and its pause lasts, or too many are pending. */
async function newEvents(parts: RoundParts, { webhook, hasPending }: Leased, account: string, mayProbe: boolean) {
  const isSlow = webhook.failures >= failuresToSlow;
  const isFull = hasPending && (await parts.store.waiting(webhook.id, mostPending)) >= mostPending;
  if (isFull || (isSlow && !mayProbe)) return { items: [], next: webhook.cursor, hasMore: false };
  const { cursor: after, kinds = toldKinds } = webhook;
  const page = await parts.events.read({ after, limit: isSlow ? 1 : newAtOnce, account, kinds });
  return { items: page.events.map(newItem), next: page.next, hasMore: page.hasMore };
}

/** The next events of a replay, and what is left of it. */
async function replayedEvents(parts: RoundParts, { webhook }: Leased, account: string) {
  const { replay, cursor, failures, kinds = toldKinds } = webhook;
  if (!replay || failures >= failuresToSlow) return { items: [], left: replay };
  // Behind the cursor nothing was sent yet.
  const until = Math.min(replay.until, cursor);
  if (replay.after >= until) return { items: [], left: undefined };
  const page = await parts.events.read({ after: replay.after, limit: replayedAtOnce, account, kinds });
  const items = page.events.filter(({ id }) => id <= until).map(newItem);
  return { items, left: page.next < until ? { after: page.next, until } : undefined };
}

async function retries(parts: RoundParts, { webhook, hasPending }: Leased, account: string): Promise<Item[]> {
  if (!hasPending) return [];
  const due = await parts.store.due(webhook.id, parts.now(), retriesAtOnce);
  return await Promise.all(
    due.map(async (pending) => {
      const page = await parts.events.read({ after: pending.event - 1, limit: 1, account });
      const content = page.events[0]?.id === pending.event ? page.events[0] : undefined;
      return { ...pending, content, wasPending: true };
    }),
  );
}

/** Runs one round. @param account its name @param mayProbe the pause of a failing endpoint is over: one new event may be tried */
export async function runRound(
  parts: RoundParts,
  leased: Leased,
  { account, mayProbe }: { readonly account: string; readonly mayProbe: boolean },
): Promise<RoundResult> {
  const { webhook } = leased;
  const again = await retries(parts, leased, account);
  const fresh = await newEvents(parts, leased, account, mayProbe);
  const replayed = await replayedEvents(parts, leased, account);
  const others = [...replayed.items, ...fresh.items];
  const outcome = new Outcome();
  const groups = Map.groupBy(others, ({ message }) => message);
  const blocked = leased.hasPending ? await parts.store.blocked(webhook.id, [...groups.keys()]) : new Set<string>();
  for (const [message, group] of groups) if (blocked.has(message)) outcome.keep(group, undefined);
  const free = [...groups].filter(([message]) => !blocked.has(message)).map(([, group]) => group);
  await forEachInParallel([...again.map((item) => [item]), ...free], (group) =>
    sendGroup(parts, leased, group, outcome),
  );
  const { done, again: later, pending, log, successes, failures, isGone } = outcome;
  const now = parts.now();
  const isFailing = successes === 0 && (failures > 0 || webhook.failures > 0);
  const failed = failures > 0;
  const progress: RoundProgress = {
    ...{ done, again: later, pending, log, cursor: fresh.next },
    replay: webhook.replay && { before: webhook.replay, left: replayed.left },
    failures: isFailing ? webhook.failures + failures : 0,
    failingMs: !isFailing ? 0 : failed ? failingFor(leased.failingMs, leased.lastFailureAt, now) : leased.failingMs,
    lastFailureAt: !isFailing ? undefined : failed ? now : leased.lastFailureAt,
    retryAll: successes > 0 && webhook.failures >= failuresToSlow,
  };
  const isSlow = progress.failures >= failuresToSlow;
  const hasMore = !isSlow && (fresh.hasMore || again.length > 0 || replayed.left !== undefined || progress.retryAll);
  return { progress, hasMore, isGone };
}
