// The table of events behind a spool's feed, in PostgreSQL.

import type { Unavailable } from '../../base/errors.ts';
import { decodePage, encodeEvent } from '../encoded-event.ts';
import type { EventTable } from '../events/event-feed.ts';
import type { EventFacts } from '../events/mail-event.ts';
import type { ContentGauge } from '../journal/content-gauge.ts';
import { refusedRow, type WrittenJournal } from '../journal/writer/journal-of-event.ts';
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
  const { events, writer, filer, clock, contentGauge } = parts;
  // A reader finds what this process has told before; what others tell is filed some 100 ms later.
  const once = async <T>(read: () => Promise<T>): Promise<T> => {
    await filer.caughtUp();
    return await read();
  };
  const write = (facts: readonly EventFacts[], rows: readonly WrittenJournal[] = []): Promise<void> =>
    writer.write({
      run: ({ events: kept, journal }) => {
        for (const event of facts) kept.push(encodeEvent(event));
        for (const row of rows) journal.push(row);
      },
    });
  return {
    read: (query) => once(async () => decodePage(await events.read(query))),
    search: (query) => {
      clock.observe();
      return once(async () => decodePage(await events.search(query)));
    },
    newest: () => once(() => events.newest()),
    news: (after) => once(() => events.news(after)),
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
