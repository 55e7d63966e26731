// Events in memory, for tests and trials: they behave like those of the durable stores, but end with the process.

import { type EncodedEvent, type EncodedPage, readFacts } from '../../../src/spool/encoded-event.ts';
import {
  defaultEventLimits,
  type EventLimits,
  type EventNews,
  type EventQuery,
  type EventSearch,
} from '../../../src/spool/events/event-store.ts';
import { type EventFacts, eventKinds, type MailEvent } from '../../../src/spool/events/mail-event.ts';
import type { EventTable } from '../../../src/spool/search/event-feed.ts';
import { eventKeys, searchedKeys } from '../../../src/spool/search/find-events.ts';

function encoded({ id, ...facts }: MailEvent): EncodedPage['events'][number] {
  return { id, json: JSON.stringify(facts) };
}

/** Events of one process. */
export class MemoryEvents implements EventTable {
  readonly #limits: EventLimits;
  #events: MailEvent[] = [];
  #newest = 0;

  constructor(limits: EventLimits = defaultEventLimits) {
    this.#limits = limits;
  }

  add(event: EventFacts): void {
    this.#newest += 1;
    this.#events.push({ ...event, id: this.#newest });
  }

  async write(events: readonly EncodedEvent[]): Promise<void> {
    for (const { json } of events) {
      const facts = readFacts(json);
      if (facts) this.add(facts);
    }
    this.#pruneShares();
  }

  async newest(): Promise<number> {
    return this.#newest;
  }

  async news(after: number): Promise<EventNews> {
    const told = new Map(
      this.#events
        .filter(({ id }) => id > after)
        .map(({ account, kind }) => [`${kind} ${account}`, { account, kind }] as const),
    );
    return { newest: this.#newest, told: [...told.values()] };
  }

  async read({ after, limit, kinds, account, message }: EventQuery): Promise<EncodedPage> {
    const found = this.#events.filter(
      (event) =>
        event.id > after &&
        (kinds === undefined || kinds.includes(event.kind)) &&
        (account === undefined || event.account === account) &&
        (message === undefined || ('queueId' in event && event.queueId === message)),
    );
    const events = found.slice(0, limit);
    const hasMore = found.length > events.length;
    return {
      events: events.map(encoded),
      next: hasMore ? (events.at(-1)?.id ?? after) : Math.max(after, this.#newest),
      hasMore,
    };
  }

  async search(query: EventSearch): Promise<EncodedPage> {
    const { account, order, cursor, limit, kinds, message, since, until } = query;
    const keys = searchedKeys(query);
    const isBehind = (id: number): boolean => cursor === undefined || (order === 'oldest' ? id > cursor : id < cursor);
    const found = this.#events.filter(
      (event) =>
        isBehind(event.id) &&
        event.account === account &&
        (kinds === undefined || kinds.includes(event.kind)) &&
        (message === undefined || ('queueId' in event && event.queueId === message)) &&
        event.at >= (since ?? Number.NEGATIVE_INFINITY) &&
        event.at < (until ?? Number.POSITIVE_INFINITY) &&
        keys.every((key) => eventKeys(event).includes(key)),
    );
    if (order === 'newest') found.reverse();
    const events = found.slice(0, limit);
    const hasMore = found.length > events.length;
    const end = order === 'oldest' ? Math.max(cursor ?? 0, this.#newest) : 1;
    return { events: events.map(encoded), next: hasMore ? (events.at(-1)?.id ?? end) : end, hasMore };
  }

  /** Removes events that are too old or too many. @param now milliseconds since 1970 */
  prune(now: number): void {
    const oldest = now - this.#limits.ageMilliseconds;
    this.#events = this.#events.filter(({ at }) => at >= oldest);
    this.#pruneShares();
  }

  #pruneShares(): void {
    const counts = new Map<string, number>();
    const kept = this.#events.toReversed().filter(({ account, kind }) => {
      const { share } = eventKinds[kind];
      const count = (counts.get(`${share} ${account}`) ?? 0) + 1;
      counts.set(`${share} ${account}`, count);
      return count <= this.#limits[share];
    });
    this.#events = kept.toReversed();
  }
}
