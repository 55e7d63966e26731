// What a search of the queue looks at, for stores that have no query language.

import type { SpoolEntry } from '../../../src/spool/spool.ts';

/** Whether a text is part of a message's ids, sender or recipients; letter case is not compared. */
export function matchesSearch(entry: SpoolEntry, search: string): boolean {
  const { id, messageId, clientMessageId = '', senderPath, reversePath, recipients } = entry;
  const wanted = search.toLowerCase();
  return [id, messageId, clientMessageId, senderPath, reversePath, ...recipients].some((text) =>
    text.toLowerCase().includes(wanted),
  );
}
