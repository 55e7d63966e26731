// Makes the journal's values of rows of its tables.

import type { Row } from '../../base/database/database.ts';
import type { JournalEntry, JournalItem } from '../journal.ts';
import { type JournalContent, type JournalFacts, type JournalMore, outcomeOf } from '../journal-row.ts';

/** The columns of a row in lists. */
export const itemColumns = 'j.seq, j.id, j.at, j.account, j.outcome, j.facts';

/** Makes a row of a list. */
export function itemOf(row: Row): JournalItem {
  return {
    seq: Number(row['seq']),
    id: String(row['id']),
    at: Number(row['at']),
    account: String(row['account']),
    outcome: outcomeOf(row['outcome']),
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only pack-journal.ts writes it
    facts: JSON.parse(String(row['facts'])) as JournalFacts,
  };
}

/** Makes an entry of a row that has `more`, too. */
export function entryOf(row: Row): JournalEntry {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only pack-journal.ts writes it
  return { ...itemOf(row), more: JSON.parse(String(row['more'])) as JournalMore };
}

function octets(value: unknown): Buffer | undefined {
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : undefined;
}

/** Makes the content of a row of journal_content. */
export function contentOf(row: Row): JournalContent {
  const sentBody = octets(row['sent_body']);
  return {
    receivedHead: octets(row['received_head']),
    receivedBody: Number(row['same_body']) === 1 ? sentBody : octets(row['received_body']),
    sentHead: octets(row['sent_head']),
    sentBody,
  };
}
