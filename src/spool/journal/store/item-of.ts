// Reads rows of the journal as its values, and finds where a time lies among them: they are in the order of the commits.

import { type Database, placeholders, type Queryable, type Row } from '../../../base/database/database.ts';
import type { Journal, JournalEntry, JournalItem, JournalQuery } from '../journal.ts';
import { readFacts, readMore } from '../journal-faults.ts';
import { type JournalContent, type JournalFacts, type JournalMore, leastIdOf, outcomeOf } from '../journal-row.ts';

/** The columns of a row in lists. */
export const itemColumns = 'j.seq, j.id, j.at, j.account, j.outcome, j.facts';

/** What stands for facts that cannot be read: one damaged row must not keep its reader from the others. */
const noFacts: JournalFacts = { recipients: [], count: 0 };
const noMore: JournalMore = { session: '', lacking: 'the row of this message in the database is damaged' };

/** Times that can be written (ECMA-262 §21.4.1.1). */
const latestMs = 8.64e15;

/** Makes a row of a list; one that is damaged has `isDamaged` and no facts. */
export function itemOf(row: Row): JournalItem {
  const { value: facts } = readFacts(String(row['facts']));
  const at = Number(row['at']);
  return {
    seq: Number(row['seq']),
    id: String(row['id']),
    at: Math.abs(at) <= latestMs ? at : 0,
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

/** What both engines read alike. @param caughtUp resolves when what was committed before can be read */
export function readersOf(database: Database, caughtUp: () => Promise<void>): Pick<Journal, 'find' | 'rows' | 'close'> {
  return {
    async find(id, account) {
      await caughtUp();
      const [row] = await database.query(`SELECT ${itemColumns}, j.more FROM journal j WHERE j.id = $1`, [id]);
      const entry = row && entryOf(row);
      return entry && (account === undefined || entry.account === account) ? entry : undefined;
    },
    async rows(ids) {
      if (ids.length === 0) return [];
      await caughtUp();
      const asked = `SELECT ${itemColumns} FROM journal j WHERE j.id IN ${placeholders(1, ids.length)} ORDER BY j.seq`;
      return (await database.query(asked, ids)).map(itemOf);
    },
    close: () => database.close(),
  };
}

/** How much later than its time a row may be written, in milliseconds. */
const lateMs = 60_000;

/** The numbers of the rows next to a time, whose ids begin with their own: the last one before it, and the first one from it on. */
async function besides(database: Queryable, at: number | undefined) {
  if (at === undefined) return [];
  const each = ['< $1 ORDER BY id DESC', '>= $1 ORDER BY id'].map(async (where) => {
    const [row] = await database.query(`SELECT seq FROM journal WHERE id ${where} LIMIT 1`, [leastIdOf(at)]);
    return row && Number(row['seq']);
  });
  return await Promise.all(each);
}

/** The first and last number that a query looks at, if any; rows of a clock that was wrong hide no others. @param newest the newest row's */
export async function rangeOf(
  database: Queryable,
  { since, until, cursor }: JournalQuery,
  newest: number,
): Promise<readonly [low: number, high: number]> {
  const [before, first = before] = await besides(database, since && Math.max(0, since - lateMs));
  const [last, behind] = await besides(database, until && until + lateMs);
  const low = before === undefined || first === undefined ? 1 : Math.min(before, first);
  const high = behind === undefined ? newest : Math.max(behind, last ?? behind);
  return [low, Math.min(newest, high, (cursor ?? Number.MAX_SAFE_INTEGER) - 1)];
}
