// The events of a spool, asked of its thread.

import type { EventFeed } from '../../events/event-feed.ts';
import { packEvent, unpackEvent } from '../packed-event.ts';
import type { SpoolFault } from './file/sqlite-health.ts';
import type { SpoolThread } from './sqlite-thread.ts';

/**
 * Makes the store of a feed.
 * @param fault why the spool takes no mail; then refusals are not kept either
 */
export function eventsOver(
  thread: SpoolThread,
  fault: () => SpoolFault | undefined,
): ConstructorParameters<typeof EventFeed>[0] {
  return {
    read: async (query) => {
      const { events, ...page } = await thread.ask({ kind: 'events', ...query });
      return { ...page, events: events.map(unpackEvent) };
    },
    search: async (query) => {
      const { events, ...page } = await thread.ask({ kind: 'searchEvents', query });
      return { ...page, events: events.map(unpackEvent) };
    },
    newest: () => thread.ask({ kind: 'newestEvent' }),
    refused: async (refusals) => {
      const why = fault();
      if (why) throw new Error(why.text);
      await thread.run({ kind: 'refusals', events: refusals.map(packEvent) });
    },
    write: async (events) => {
      await thread.run({ kind: 'writeEvents', events: events.map(packEvent) });
    },
  };
}
