// Whether a failure is the second answer, a day later, that a recipient's domain is not there (D51). What was answered before
// stands in the events, which outlive restarts, so nothing else is kept for it.

import type { EventSearch, EventStore } from '../events/event-store.ts';
import type { BouncedEvent, FailedEvent, MailEvent } from '../events/mail-event.ts';

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

/**
 * Tells whether the last answer about the recipient that is a day old or older said the same, and no delivery since then says
 * otherwise.
 * @param isSame whether an event says the same
 */
export async function isSecondAnswer(
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
