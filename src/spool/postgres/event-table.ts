// The table of events behind a spool's feed, in PostgreSQL.

import type { Unavailable } from '../../base/errors.ts';
import type { EventTable } from '../../events/event-feed.ts';
import type { EventFacts } from '../../events/mail-event.ts';
import type { ContentGauge } from '../journal/content-gauge.ts';
import { refusedRow } from '../journal/pack-journal.ts';
import { packEvent, unpackEvents } from '../packed-event.ts';
import type { EventFiler } from './events/event-filer.ts';
import type { PostgresEvents } from './events/postgres-events.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import type { SpoolWriter } from './spool-writer.ts';

/** Makes the table. @param parts.fault why the spool takes no mail, and so no refusals; undefined while it does */
export function eventTable(parts: {
  readonly events: PostgresEvents;
  readonly writer: SpoolWriter;
  readonly filer: EventFiler;
  readonly clock: DatabaseClock;
  readonly fault: () => Unavailable | undefined;
  /** Knows how much content the journal keeps; undefined: it may be any amount. */
  readonly contentGauge: ContentGauge | undefined;
}): EventTable {
  const { events, writer, filer, clock } = parts;
  const write = async (facts: readonly EventFacts[]): Promise<void> => {
    await writer.write({
      run: ({ events: kept }) => {
        for (const event of facts) kept.push(packEvent(event));
      },
    });
  };
  return {
    // A reader finds what this process has told before; what others tell is filed some 100 ms later.
    read: async (query) => {
      await filer.caughtUp();
      const { events: found, ...page } = await events.read(query);
      return { ...page, events: unpackEvents(found) };
    },
    search: async (query) => {
      clock.observe();
      await filer.caughtUp();
      const { events: found, ...page } = await events.search(query);
      return { ...page, events: unpackEvents(found) };
    },
    newest: async () => {
      await filer.caughtUp();
      return await events.newest();
    },
    news: async (after) => {
      await filer.caughtUp();
      return await events.news(after);
    },
    refused: async (refusals) => {
      const fault = parts.fault();
      if (fault) throw fault;
      const rows = refusals.flatMap((refusal) => refusedRow(refusal, parts.contentGauge) ?? []);
      await writer.write({
        run: ({ events: kept, journal }) => {
          for (const { event } of refusals) kept.push(packEvent(event));
          for (const row of rows) journal.push(row);
        },
      });
      parts.contentGauge?.wrote('refused', rows.length);
    },
    write,
  };
}
