// The journal in SQLite, on a connection of its own, so that no search keeps messages waiting. The newest rows, not in the index yet, are
// read one by one; others are found by the index, by outcome or, where every row fits, by number. What one page reads is bounded.

import type { Database, Queryable } from '../../../base/database/database.ts';
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

async function findRows(database: Queryable, query: JournalQuery): Promise<JournalPage> {
  const words = query.text === undefined ? undefined : searchedWords(query.text);
  if (words?.length === 0) return { items: [] };
  const [state] = await database.query(`SELECT indexed,
    coalesce((SELECT seq FROM journal ORDER BY seq DESC LIMIT 1), 0) AS newest FROM journal_state`);
  const [indexed, newest] = [Number(state?.['indexed'] ?? 0), Number(state?.['newest'] ?? 0)];
  const [low, high] = await rangeOf(database, query, newest);
  const items: JournalItem[] = [];
  const parts = [
    { sql: plain, values: [], from: Math.max(low, indexed + 1), next: high },
    { ...sourceOf(query, words), from: low, next: Math.min(high, indexed) },
  ];
  for (const { sql, values, from, ...part } of parts) {
    let { next } = part;
    // Most often the first rows are the page.
    let most = query.limit - items.length;
    for (let examined = 0; next >= from; examined += most, most = readAtOnce) {
      if (examined >= readForPage) return { items, next: next + 1 };
      const rows = await database.query(sql, [from, next, most, ...values]);
      for (const item of rows.map(itemOf)) {
        next = item.seq - 1;
        if (isWanted(item, query, words)) items.push(item);
        if (items.length === query.limit) return { items, ...(next < low ? {} : { next: item.seq }) };
      }
      if (rows.length < most) break;
    }
  }
  return { items };
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
