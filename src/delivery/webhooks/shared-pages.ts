// Reads events once for all webhooks that ask for the same at the same time, as those of one account do that an event has woken.

import type { EventPage, EventQuery, EventStore } from '../../spool/events/event-store.ts';

/** Pages of events under way. */
export class SharedPages {
  readonly #events: Pick<EventStore, 'read'>;
  readonly #underWay = new Map<string, Promise<EventPage>>();
  #heard = 0;

  constructor(events: Pick<EventStore, 'read'>) {
    this.#events = events;
  }

  /** There may be more events: whoever asks from now on gets a page that is read from now on. */
  heard(): void {
    this.#heard += 1;
  }

  /** Reads a page, or waits for one that is being read for somebody else. */
  read(query: EventQuery): Promise<EventPage> {
    const key = JSON.stringify([this.#heard, query]);
    const known = this.#underWay.get(key);
    if (known) return known;
    const page = this.#events.read(query);
    this.#underWay.set(key, page);
    const forget = (): void => void this.#underWay.delete(key);
    page.then(forget, forget);
    return page;
  }
}
