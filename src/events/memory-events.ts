// Events in memory, for tests and trials: they behave like those of the durable stores, but end with the process.

import type { EventTable } from './event-feed.ts';
import { defaultEventLimits, type EventLimits, type EventPage, type EventQuery } from './event-store.ts';
import { type EventFacts, eventKinds, type MailEvent, type RefusedEvent } from './mail-event.ts';

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

  async write(refusals: readonly RefusedEvent[]): Promise<void> {
    for (const refusal of refusals) this.add(refusal);
    this.#pruneShares();
  }

  async newest(): Promise<number> {
    return this.#newest;
  }

  async read({ after, limit, kinds, account }: EventQuery): Promise<EventPage> {
    const found = this.#events.filter(
      (event) =>
        event.id > after &&
        (kinds === undefined || kinds.includes(event.kind)) &&
        (account === undefined || event.account === account),
    );
    const events = found.slice(0, limit);
    const hasMore = found.length > events.length;
    return { events, next: hasMore ? (events.at(-1)?.id ?? after) : Math.max(after, this.#newest), hasMore };
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
