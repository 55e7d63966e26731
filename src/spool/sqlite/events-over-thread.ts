// The events of a spool, asked of its thread.

import { decodePage, encodeEvent } from '../encoded-event.ts';
import type { EventFeed } from '../events/event-feed.ts';
import type { ContentGauge } from '../journal/content-gauge.ts';
import { refusedRow, type WrittenJournal } from '../journal/writer/journal-of-event.ts';
import type { SpoolFault } from './file/sqlite-health.ts';
import type { SpoolThread } from './sqlite-thread.ts';

/** The row of a refusal for another thread: of a view, that would get the whole memory behind it. */
function apart(refusal: WrittenJournal): WrittenJournal {
  const { receivedHead: head, receivedBody: body } = refusal;
  return { ...refusal, receivedHead: head && new Uint8Array(head), receivedBody: body && new Uint8Array(body) };
}

/**
 * Makes the store of a feed.
 * @param parts.fault why the spool takes no mail; then refusals are not kept either
 * @param parts.contentGauge knows how much content the journal keeps; undefined: it may be any amount
 */
export function eventsOver(
  thread: SpoolThread,
  {
    fault,
    contentGauge,
  }: { readonly fault: () => SpoolFault | undefined; readonly contentGauge: ContentGauge | undefined },
): ConstructorParameters<typeof EventFeed>[0] {
  return {
    read: async (query) => decodePage(await thread.ask('events', query)),
    search: async (query) => decodePage(await thread.ask('searchEvents', query)),
    newest: () => thread.ask('newestEvent'),
    catchUp: () => thread.ask('catchUp'),
    news: (after) => thread.ask('eventNews', after),
    refused: async (refusals) => {
      const why = fault();
      if (why) throw new Error(why.text);
      const rows = refusals.flatMap((refusal) => refusedRow(refusal, contentGauge) ?? []);
      await thread.run(
        'refusals',
        refusals.map(({ event }) => encodeEvent(event)),
        rows.map(apart),
      );
      contentGauge?.wrote('refused', rows.length);
    },
    write: (events) => thread.run('writeEvents', events.map(encodeEvent)),
  };
}
