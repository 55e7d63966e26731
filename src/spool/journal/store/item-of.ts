// Reads rows of the journal as its values, and finds where a time lies among them: they are in the order of the commits.

import { type Database, placeholders, type Queryable, type Row } from '../../../base/database/database.ts';
import type { Journal, JournalEntry, JournalItem, JournalQuery } from '../journal.ts';
import { readFacts, readMore } from '../journal-faults.ts';
import { type JournalContent, type JournalFacts, type JournalMore, outcomeOf } from '../journal-row.ts';

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

/** Gives what rows of a range of numbers are read from, in place of a table's name. */
type RowSource = (low: number, high: number) => Promise<string>;

/** The number of the first row from a time on, by halving. @param last the newest row's number */
async function firstFrom(database: Queryable, at: number, last: number, source: RowSource): Promise<number> {
  let low = 1;
  let high = last + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await database.query(
      `SELECT j.seq, j.at FROM ${await source(middle, high - 1)} j WHERE j.seq BETWEEN $1 AND $2 ORDER BY j.seq LIMIT 1`,
      [middle, high - 1],
    );
    if (row === undefined || Number(row['at']) >= at) high = middle;
    else low = Number(row['seq']) + 1;
  }
  return low;
}

/** The first and last number that a query looks at, if any. @param newest the newest row's @param source absent: `journal` */
export async function rangeOf(
  database: Queryable,
  { since, until, cursor }: JournalQuery,
  newest: number,
  source: RowSource = async () => 'journal',
): Promise<readonly [low: number, high: number]> {
  const low = since === undefined ? 1 : await firstFrom(database, since - lateMs, newest, source);
  const last = until === undefined ? newest : await firstFrom(database, until + lateMs, newest, source);
  return [low, Math.min(newest, last, (cursor ?? Number.MAX_SAFE_INTEGER) - 1)];
}
