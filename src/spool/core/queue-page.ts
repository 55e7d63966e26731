// What the engines have in common where they list the queue for its commands.

import type { Row } from '../../base/database/database.ts';
import type { Holds } from '../hold.ts';
import type { QueueItem } from '../spool.ts';
import { entryOf, integer, recipientOf, text, type WallTimes } from '../stored-rows.ts';

/** Messages that are examined for one page of a list. */
export const examinedAtOnce = 2000;
/** A page of a list is full once its messages have more recipients than this. */
export const shownRecipientsAtOnce = 5000;

/** The pattern of LIKE for a search; '%' where there is none. */
export function patternOf(search: string | undefined): string {
  return search === undefined ? '%' : `%${search.replace(/[\\%_]/g, '\\$&')}%`;
}

/** Makes a message of its row and those of its recipients. */
export function queueItem(
  row: Row,
  rows: readonly Row[],
  { holds, clock }: { readonly holds: Holds; readonly clock: WallTimes },
): QueueItem {
  const { recipients: _, ...entry } = entryOf(row, rows, clock);
  const recipients = rows.map((one) => {
    const recipient = recipientOf(one, clock);
    if (recipient.state !== 'queued' || holds.isEmpty) return recipient;
    const line = { transport: text(one, 'waits_for'), account: entry.account };
    const hold = holds.ofLine(line) ?? holds.ofRecipient({ id: entry.id, address: recipient.address });
    return { ...recipient, hold };
  });
  return { entry, size: integer(row, 'size'), recipients };
}
