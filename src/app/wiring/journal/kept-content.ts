// What the configuration says of the journal, for the parts that make its rows.

import type { Clock } from '../../../base/clock.ts';
import { uuidv7 } from '../../../base/ids.ts';
import { type EntryLink, entryLinkBelow } from '../../../spool/journal/entry-link.ts';
import type { ContentKept } from '../../../spool/journal/journal-row.ts';
import type { Config } from '../../config/config.ts';

/** How much of each message is kept beside its row; undefined where the journal is off and there are no rows. */
export function keptContent({ enabled, ...kept }: Config['journal']): ContentKept | undefined {
  return enabled ? kept : undefined;
}

/** Makes the links of refusals to their rows; undefined where there are no rows, or nobody has said where they are looked at. */
export function entryLinkFor({ console: pages, journal }: Config, clock: Clock): EntryLink | undefined {
  return journal.enabled ? entryLinkBelow(pages.publicUrl, () => uuidv7(clock.now())) : undefined;
}
