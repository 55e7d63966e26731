// The table of events behind a spool's feed, in PostgreSQL.

import type { Unavailable } from '../../base/errors.ts';
import type { StoreSteps } from '../core/steps.ts';
import { decodePage, encodeEvent } from '../encoded-event.ts';
import type { EventTable } from '../events/event-feed.ts';
import type { EventFacts } from '../events/mail-event.ts';
import type { ContentGauge } from '../journal/content-gauge.ts';
import { refusedRow, type WrittenJournal } from '../journal/writer/journal-of-event.ts';
import { type EventTables, eventNews, newestEvent, readEvents, searchEvents } from '../search/find-events.ts';
import type { EventFiler } from './events/event-filer.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import type { PostgresSession } from './server/postgres-session.ts';
import type { SpoolWriter } from './spool-writer.ts';

/** Makes the table. @param parts.fault why the spool takes no mail, and so no refusals; undefined while it does */
export function eventTable(parts: {
  readonly session: PostgresSession;
  readonly tables: EventTables;
  readonly writer: SpoolWriter;
  readonly filer: EventFiler;
  readonly clock: DatabaseClock;
  readonly fault: () => Unavailable | undefined;
  /** Knows how much content the journal keeps; undefined: it may be any amount. */
  readonly contentGauge: ContentGauge | undefined;
}): EventTable {
  const { session, tables, writer, filer, clock, contentGauge } = parts;
  // A reader finds what this process has told before; what others tell is filed some 100 ms later.
  const once = async <T>(steps: StoreSteps<T>): Promise<T> => {
    await filer.caughtUp();
    return await session.steps(steps);
  };
  const write = (facts: readonly EventFacts[], rows: readonly WrittenJournal[] = []): Promise<void> =>
    writer.write({
      run: ({ events: kept, journal }) => {
        for (const event of facts) kept.push(encodeEvent(event));
        for (const row of rows) journal.push(row);
      },
    });
  return {
    read: async (query) => decodePage(await once(readEvents(tables, query))),
    search: async (query) => {
      clock.observe();
      return decodePage(await once(searchEvents(tables, query, (time) => clock.stored(time))));
    },
    newest: () => once(newestEvent(tables)),
    news: (after) => once(eventNews(tables, after)),
    refused: async (refusals) => {
      const fault = parts.fault();
      if (fault) throw fault;
      const rows = refusals.flatMap((refusal) => refusedRow(refusal, contentGauge) ?? []);
      await write(
        refusals.map(({ event }) => event),
        rows,
      );
      contentGauge?.wrote('refused', rows.length);
    },
    write: (facts) => write(facts),
  };
}
