// Which events a replay is about, as a range of their ids.

import type { EventSearch, EventStore } from '../../spool/events/event-store.ts';
import type { Replay } from './webhook.ts';

/** What is to be replayed: one event, or those of a time (milliseconds since 1970). */
export interface ReplayWish {
  readonly event?: number | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** The first id in an order of an account's events of a time. */
async function firstId(
  events: Pick<EventStore, 'search'>,
  query: Pick<EventSearch, 'account' | 'order' | 'since' | 'until'>,
): Promise<number | undefined> {
  for (let cursor: number | undefined; ; ) {
    const page = await events.search({ ...query, limit: 1, cursor });
    const [found] = page.events;
    if (found) return found.id;
    if (!page.hasMore) return undefined;
    cursor = page.next;
  }
}

/**
 * Finds the range of a replay.
 * @param account name of the account
 * @returns the events behind `after`, up to `until`; undefined where the account has none of them
 */
export async function replayRange(
  events: Pick<EventStore, 'search'>,
  account: string,
  { event, since, until }: ReplayWish,
): Promise<Replay | undefined> {
  if (event !== undefined) {
    const page = await events.search({ account, order: 'oldest', limit: 1, cursor: event - 1 });
    return page.events[0]?.id === event ? { after: event - 1, until: event } : undefined;
  }
  const first = await firstId(events, { account, order: 'oldest', since, until });
  const last = await firstId(events, { account, order: 'newest', since, until });
  return first === undefined || last === undefined ? undefined : { after: first - 1, until: last };
}
