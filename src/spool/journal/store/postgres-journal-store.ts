// The journal in PostgreSQL, on a connection of its own. Rows are filed some 100 ms behind the commits of their messages, by whichever
// gateway does it first. No extension is needed for the search: the server reads window after window of the rows' numbers, from the newest
// on, and compares keys and words itself.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, SqlValue } from '../../../base/database/database.ts';
import type { Journal, JournalItem, JournalLimits, JournalPage, JournalQuery, Removed } from '../journal.ts';
import { outcomeNumbers } from '../journal-row.ts';
import { contentOf, itemColumns, itemOf, rangeOf, readersOf } from './item-of.ts';
import { JournalRemoval } from './journal-removal-postgres.ts';
import { isWanted, keysWanted, searchedWords, wordsWanted } from './words.ts';

/** Numbers of the first window; each further one is larger, up to a bound, and as large as can be read in its time by the last one. */
const firstWindow = 2000;
const growth = 4;
const largestWindow = 128_000;
const windowMs = 40;
/** How long one page is looked for before its last window, in milliseconds of this process's own clock. */
const pageMs = 80;

/** The conditions of a query, with its values from $4 on. */
function conditionsOf(query: JournalQuery, words: readonly string[] | undefined) {
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

async function findRowsPostgres(database: Database, query: JournalQuery): Promise<JournalPage> {
  const words = query.text === undefined ? undefined : searchedWords(query.text);
  if (words?.length === 0) return { items: [] };
  // Every number that was given, though the row of some may be gone.
  const [row] = await database.query('SELECT last_value AS newest FROM journal_seq_seq');
  const newest = Number(row?.['newest'] ?? 0);
  const { limit } = query;
  const [low, last] = await rangeOf(database, query, newest);
  let high = last;
  const { sql, values } = conditionsOf(query, words);
  const items: JournalItem[] = [];
  const began = performance.now();
  for (let window = firstWindow; high >= low; ) {
    const asked = performance.now();
    const from = Math.max(low, high - window + 1);
    const wanted = limit - items.length;
    const rows = await database.query(
      `SELECT ${itemColumns} FROM journal j WHERE j.seq BETWEEN $1::bigint AND $2::bigint${sql}
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

/** How often it is looked for what is to be removed, in milliseconds: it costs more here than in SQLite. */
const tendEveryMs = 60_000;

/** Numbers before the newest one that are looked at: what was filed may stand there for long before the server clears it away. */
const lookedAt = 10_000;
/** How long a reader waits for them at most, and how often it looks, in milliseconds. */
const patienceMs = 2000;
const lookMs = 25;

const left = 'SELECT 1 AS one FROM spool_unfiled WHERE seq > $1::bigint AND seq <= $2::bigint LIMIT 1';

/** Resolves once what had been committed is filed; where nobody files, such as without a gateway, after a while. */
async function rowsFiled(database: Database): Promise<void> {
  const until = performance.now() + patienceMs;
  const [newest] = await database.query('SELECT max(seq) AS seq FROM spool_unfiled');
  const seq = Number(newest?.['seq']);
  for (;;) {
    const waiting = await database.query(left, [seq - lookedAt, seq]);
    if (waiting.length === 0 || performance.now() > until) return;
    await sleep(lookMs);
  }
}

/** Opens the journal of the spool's tables. @param database closed with it @param onRemoved told of what was removed */
export function openPostgresJournal(
  database: Database,
  limits: JournalLimits,
  { onRemoved = () => undefined }: { readonly onRemoved?: (removed: Removed, count: number) => void } = {},
): Journal {
  const removal = new JournalRemoval({ database, limits, onRemoved });
  let tendedAt = Number.NEGATIVE_INFINITY;
  return {
    ...readersOf(database, () => rowsFiled(database)),
    async list(query) {
      if (query.cursor === undefined) await rowsFiled(database);
      return await findRowsPostgres(database, query);
    },
    async content(seq) {
      const own = 'SELECT id FROM journal WHERE seq = $1::bigint';
      const [row] = await database.query(`SELECT * FROM journal_content WHERE id = (${own})`, [seq]);
      return row && contentOf(row);
    },
    async tend(now, isPressed = false) {
      if (!isPressed && Math.abs(now - tendedAt) < tendEveryMs) return false;
      const isMore = await removal.remove(now, isPressed);
      tendedAt = isMore ? Number.NEGATIVE_INFINITY : now;
      return isMore;
    },
    async state() {
      // There is no index of the search here.
      return { octets: await removal.contentOctets(), waiting: 0 };
    },
  };
}
