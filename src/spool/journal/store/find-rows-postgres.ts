// Finds rows of the journal in PostgreSQL, which needs no extension for it: the server reads window after window of the rows'
// numbers, from the newest on, and compares keys and words itself. A page ends where it is full or has taken long enough.

import type { Database, SqlValue } from '../../../base/database/database.ts';
import { errorCode, Unavailable } from '../../../base/errors.ts';
import type { JournalItem, JournalPage, JournalQuery } from '../journal.ts';
import { outcomeNumbers } from '../journal-row.ts';
import { itemColumns, itemOf } from './item-of.ts';
import { forgetParts, seqSource } from './seq-parts.ts';
import { rangeOf } from './time-bounds.ts';
import { isWanted, keysWanted, searchedWords, wordsWanted } from './words.ts';

/** Numbers of the first window; each further one is larger, up to a bound, and as large as can be read in its time by the last one. */
const firstWindow = 2000;
const growth = 4;
const largestWindow = 128_000;
const windowMs = 40;
/** How long one page is looked for before its last window, in milliseconds of this process's own clock. */
const pageMs = 80;

/** The conditions of a query, with its values from $4 on. */
function conditionsOf(
  query: JournalQuery,
  words: readonly string[] | undefined,
): { readonly sql: string; readonly values: readonly SqlValue[] } {
  const values: SqlValue[] = [];
  const conditions: string[] = [];
  const add = (sql: string, value: SqlValue): void => {
    values.push(value);
    conditions.push(sql.replace('?', `$${values.length + 3}`));
  };
  if (query.account !== undefined) add('j.account = ?::text', query.account);
  if (query.since !== undefined) add('j.at >= ?::bigint', query.since);
  if (query.until !== undefined) add('j.at < ?::bigint', query.until);
  if (query.outcome !== undefined) add('j.outcome = ?::smallint', outcomeNumbers[query.outcome]);
  for (const key of keysWanted(query)) add('strpos(j.keys, ?::text) > 0', key);
  for (const word of wordsWanted(words ?? [])) add('strpos(j.words, ?::text) > 0', word);
  return { sql: conditions.map((condition) => ` AND ${condition}`).join(''), values };
}

/** SQLSTATE undefined_table: a partition was dropped since it was looked for. */
const undefinedTable = '42P01';

/** Finds a page of rows. */
export async function findRowsPostgres(database: Database, query: JournalQuery): Promise<JournalPage> {
  const words = query.text === undefined ? undefined : searchedWords(query.text);
  if (words?.length === 0) return { items: [] };
  try {
    return await findPage(database, query, words);
  } catch (thrown) {
    if (!(thrown instanceof Unavailable) || errorCode(thrown.cause) !== undefinedTable) throw thrown;
    forgetParts(database);
    return await findPage(database, query, words);
  }
}

async function findPage(
  database: Database,
  query: JournalQuery,
  words: readonly string[] | undefined,
): Promise<JournalPage> {
  // Every number that was given, though the row of some may be gone.
  const [row] = await database.query('SELECT last_value AS newest FROM journal_seq_seq');
  const newest = Number(row?.['newest'] ?? 0);
  const source = (from: number, to: number): Promise<string> => seqSource(database, from, to);
  const { limit } = query;
  const range = await rangeOf(database, query, { newest, source });
  const [low] = range;
  let [, high] = range;
  const { sql, values } = conditionsOf(query, words);
  const items: JournalItem[] = [];
  const began = performance.now();
  for (let window = firstWindow; high >= low; ) {
    const asked = performance.now();
    const from = Math.max(low, high - window + 1);
    const wanted = limit - items.length;
    const rows = await database.query(
      `SELECT ${itemColumns} FROM ${await source(from, high)} j WHERE j.seq BETWEEN $1::bigint AND $2::bigint${sql}
       ORDER BY j.seq DESC LIMIT $3::integer`,
      [from, high, wanted, ...values],
    );
    for (const found of rows.map(itemOf)) if (isWanted(found, query, words)) items.push(found);
    // A window with more rows than were asked for is gone on with.
    const isCut = rows.length === wanted;
    high = (isCut ? Number(rows.at(-1)?.['seq']) : from) - 1;
    const now = performance.now();
    if (high >= low && (items.length >= limit || now - began > pageMs)) return { items, next: high + 1 };
    const factor = Math.min(growth, windowMs / Math.max(now - asked, 1));
    window = Math.min(Math.max(Math.floor(window * factor), firstWindow), largestWindow);
  }
  return { items };
}
