// Makes the journal's values of rows of its tables, and finds single rows.

import type { Database, Row } from '../../../base/database/database.ts';
import type { Journal, JournalEntry, JournalItem } from '../journal.ts';
import { readFacts, readMore } from '../journal-faults.ts';
import { type JournalContent, type JournalFacts, type JournalMore, outcomeOf } from '../journal-row.ts';

/** The columns of a row in lists. */
export const itemColumns = 'j.seq, j.id, j.at, j.account, j.outcome, j.facts';

/** What stands for facts that cannot be read: one damaged row must not keep its reader from the others. */
const noFacts: JournalFacts = { recipients: [], count: 0 };
const noMore: JournalMore = { session: '', lacking: 'the row of this message in the database is damaged' };

/** Times that can be written (ECMA-262 §21.4.1.1). */
const latestMs = 8.64e15;

function timeOf(value: unknown): number {
  const at = Number(value);
  return Math.abs(at) <= latestMs ? at : 0;
}

/** Makes a row of a list; one that is damaged has `isDamaged` and no facts. */
export function itemOf(row: Row): JournalItem {
  const { value: facts } = readFacts(String(row['facts']));
  return {
    seq: Number(row['seq']),
    id: String(row['id']),
    at: timeOf(row['at']),
    account: String(row['account']),
    outcome: outcomeOf(row['outcome']),
    facts: facts ?? noFacts,
    ...(facts ? {} : { isDamaged: true }),
  };
}

/** Makes an entry of a row that has `more`, too. */
function entryOf(row: Row): JournalEntry {
  const item = itemOf(row);
  const { value: more } = readMore(String(row['more']));
  if (more && !item.isDamaged) return { ...item, more };
  return { ...item, isDamaged: true, more: { ...noMore, ...more, lacking: noMore.lacking } };
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

/**
 * What both engines read alike.
 * @param caughtUp resolves when what was committed before can be read
 * @param byIds a condition with all ids as one value
 */
export function readersOf(
  database: Database,
  caughtUp: () => Promise<void>,
  byIds: { readonly sql: string; readonly value: (ids: readonly string[]) => string },
): Pick<Journal, 'find' | 'rows' | 'close'> {
  return {
    async find(id, account) {
      await caughtUp();
      const [row] = await database.query(`SELECT ${itemColumns}, j.more FROM journal j WHERE j.id = $1`, [id]);
      const entry = row && entryOf(row);
      return entry && (account === undefined || entry.account === account) ? entry : undefined;
    },
    async rows(ids) {
      await caughtUp();
      const asked = `SELECT ${itemColumns} FROM journal j WHERE ${byIds.sql} ORDER BY j.seq`;
      return (await database.query(asked, [byIds.value(ids)])).map(itemOf);
    },
    close: () => database.close(),
  };
}
