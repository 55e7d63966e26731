// The journal in SQLite, on a connection of its own, so that no search keeps messages waiting. The newest rows, not in the index yet, are
// read one by one; others are found by the index, by outcome or, where every row fits, by number. What one page reads is bounded.

import type { Database, Queryable, Row } from '../../../base/database/database.ts';
import type { Journal, JournalItem, JournalLimits, JournalPage, JournalQuery, Removed } from '../journal.ts';
import { outcomeNumbers } from '../journal-row.ts';
import { contentOf, itemColumns, itemOf, rangeOf, readersOf } from './item-of.ts';
import { SqliteTender } from './tend-journal.ts';
import { isWanted, matchOf, searchedWords } from './words.ts';

/** Rows that are read at once, and for one page in each of its two parts. */
const readAtOnce = 250;
const readForPage = 2000;

const bounds = 'j.seq BETWEEN $1 AND $2 ORDER BY j.seq DESC LIMIT $3';
const plain = `SELECT ${itemColumns} FROM journal j WHERE ${bounds}`;
const byOutcome = `SELECT ${itemColumns} FROM journal j WHERE j.outcome = $4 AND j.outcome > 2 AND ${bounds}`;
const byWords = `SELECT ${itemColumns} FROM journal_words w JOIN journal j ON j.seq = w.rowid
  WHERE journal_words MATCH $4 AND w.rowid BETWEEN $1 AND $2 ORDER BY w.rowid DESC LIMIT $3`;

/** Where rows come from: a statement with the bounds as its first three parameters, and the values of the others. */
function sourceOf(query: JournalQuery, words: readonly string[] | undefined) {
  const { outcome } = query;
  const { account: _, ...others } = query;
  const isByOutcome = outcome !== undefined && outcomeNumbers[outcome] > 2 && outcome !== 'refused';
  // Rows of these outcomes are few, so that what else is asked is looked for among them.
  if (isByOutcome && matchOf({ ...others, outcome: undefined }, words) === undefined)
    return { sql: byOutcome, values: [outcomeNumbers[outcome]] };
  const match = matchOf(query, words);
  return match === undefined ? { sql: plain, values: [] } : { sql: byWords, values: [match] };
}

/** The rows that one query finds. @param last the number of the row that was examined last */
function pageOf(query: JournalQuery, words: readonly string[] | undefined, last: number) {
  const items: JournalItem[] = [];
  const page = {
    ...{ items, last, isFull: false },
    /** Rows that it still takes. */
    wanted: (): number => query.limit - items.length,
    look(rows: readonly Row[]): void {
      for (const row of rows) {
        const item = itemOf(row);
        page.last = item.seq;
        if (isWanted(item, query, words)) items.push(item);
        page.isFull = items.length === query.limit;
        if (page.isFull) return;
      }
    },
  };
  return page;
}

/** What rows are read for, and between which numbers. */
interface Reading {
  readonly page: ReturnType<typeof pageOf>;
  readonly low: number;
  readonly high: number;
}

/** Reads rows of a source from high to low. @returns whether all were examined */
async function readDown(
  database: Queryable,
  { sql, values }: ReturnType<typeof sourceOf>,
  { page, low, high }: Reading,
): Promise<boolean> {
  let next = high;
  // Most often the first rows are the page.
  let most = page.wanted();
  for (let examined = 0; examined < readForPage && next >= low; examined += most, most = readAtOnce) {
    const rows = await database.query(sql, [low, next, most, ...values]);
    page.look(rows);
    if (page.isFull) return page.last <= low;
    if (rows.length < most) return true;
    next = page.last - 1;
  }
  return next < low;
}

async function findRows(database: Queryable, query: JournalQuery): Promise<JournalPage> {
  const words = query.text === undefined ? undefined : searchedWords(query.text);
  if (words?.length === 0) return { items: [] };
  const [state] = await database.query(`SELECT indexed,
    coalesce((SELECT seq FROM journal ORDER BY seq DESC LIMIT 1), 0) AS newest FROM journal_state`);
  const [indexed, newest] = [Number(state?.['indexed'] ?? 0), Number(state?.['newest'] ?? 0)];
  const [low, high] = await rangeOf(database, query, newest);
  const page = pageOf(query, words, high + 1);
  const behind = Math.max(low, indexed + 1);
  const isTailRead =
    high < behind || (await readDown(database, { sql: plain, values: [] }, { page, low: behind, high }));
  const rest = Math.min(high, indexed);
  if (!isTailRead || page.isFull) return { items: page.items, next: page.last };
  if (rest < low) return { items: page.items };
  const isWhole = await readDown(database, sourceOf(query, words), { page, low, high: rest });
  return { items: page.items, ...(isWhole ? {} : { next: page.last }) };
}

const stateOf = `SELECT octets + (SELECT coalesce(sum(octets), 0) FROM journal WHERE seq > indexed) AS octets,
  max((SELECT coalesce(max(seq), 0) FROM journal) - indexed, 0) AS waiting FROM journal_state`;

/** Opens the journal of the spool's tables, closed with `database`. @param parts.caughtUp outcomes of before are noted */
export function openSqliteJournal(
  database: Database,
  limits: JournalLimits,
  {
    caughtUp = async () => undefined,
    onRemoved = () => undefined,
  }: {
    readonly caughtUp?: () => Promise<void>;
    readonly onRemoved?: (removed: Removed, count: number) => void;
  } = {},
): Journal {
  const tender = new SqliteTender({ database, limits, onRemoved });
  return {
    ...readersOf(database, caughtUp),
    async list(query) {
      await caughtUp();
      return await findRows(database, query);
    },
    async content(seq) {
      const [row] = await database.query('SELECT * FROM journal_content WHERE seq = $1', [seq]);
      return row && contentOf(row);
    },
    tend: (now) => tender.tend(now),
    async state() {
      const [row] = await database.query(stateOf);
      return { octets: Number(row?.['octets'] ?? 0), waiting: Number(row?.['waiting'] ?? 0) };
    },
  };
}
