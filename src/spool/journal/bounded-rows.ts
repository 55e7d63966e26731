// Makes rows of the journal with no more content than there is room for.

import type { AcceptedEvent, RefusedEvent } from '../../events/mail-event.ts';
import { type JournalDetails, withoutContent } from '../../journal/journal-details.ts';
import { type ContentGauge, noRoom } from './content-gauge.ts';
import { acceptedRow, type PackedJournal, refusedRow } from './pack-journal.ts';

function receivedOctets({ receivedHead, receivedBody }: PackedJournal): number {
  return (receivedHead?.length ?? 0) + (receivedBody?.length ?? 0);
}

/**
 * Makes the row of an accepted message.
 * @param sent the head and the body that leave
 * @param gauge absent: there is room for everything
 */
export function boundedAccepted(
  event: AcceptedEvent,
  {
    details,
    sent,
  }: { readonly details: JournalDetails; readonly sent: { readonly head: Buffer; readonly body: Buffer } },
  gauge: ContentGauge | undefined,
): PackedJournal {
  const row = acceptedRow(event, details, sent.body);
  if (!gauge) return row;
  const ofSent = (row.keepsSentHead ? sent.head.length : 0) + (row.keepsSentBody ? sent.body.length : 0);
  return gauge.take(receivedOctets(row) + ofSent)
    ? row
    : acceptedRow(event, withoutContent(details, noRoom), sent.body);
}

/** Makes the row of a refusal, as `refusedRow` does. @param gauge absent: there is room for everything */
export function boundedRefused(
  { event, journal }: { readonly event: RefusedEvent; readonly journal: JournalDetails | undefined },
  gauge: ContentGauge | undefined,
): PackedJournal | undefined {
  const row = refusedRow(event, journal);
  if (!row || !journal || !gauge || gauge.take(receivedOctets(row))) return row;
  return refusedRow(event, withoutContent(journal, noRoom));
}
