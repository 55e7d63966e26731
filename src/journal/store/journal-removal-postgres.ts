// Removes from the journal in PostgreSQL what is too old, a day's partition at a time, and what is too much: refusals of an account row by
// row, and the oldest content. One by one also go old rows that have no partition of a day, and all where the tables are whole.

import type { Database, Queryable, Row } from '../../base/database/database.ts';
import { partitionsOf, waitShortly } from '../../base/database/postgres-partitions.ts';
import { errorCode, Unavailable } from '../../base/errors.ts';
import type { JournalLimits, Removed } from '../journal.ts';
import { outcomeNumbers } from '../journal-row.ts';
import { removeContent } from './content-removal-postgres.ts';
import { countedRows } from './counted-rows.ts';

/** Rows of one transaction at most. */
const rowsAtOnce = 500;
const dayMs = 86_400_000;
/** SQLSTATE lock_not_available. */
const lockNotAvailable = '55P03';

const time = 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS time';
const firstAndLast = (name: string): string => `SELECT (SELECT at FROM ${name} ORDER BY seq LIMIT 1) AS first,
  (SELECT at FROM ${name} ORDER BY seq DESC LIMIT 1) AS last`;
const agedOf = (
  name: string,
): string => `SELECT id, seq FROM (SELECT id, seq, at FROM ${name} ORDER BY seq LIMIT ${rowsAtOnce})
  AS first WHERE at < $1::bigint`;
// Content that was written before it had an id, and whose rows have gone with their partition.
const removeLeft = `DELETE FROM journal_content WHERE id = '' AND seq IN (SELECT seq FROM journal_content
  WHERE id = '' AND seq < (SELECT min(seq) FROM journal) ORDER BY seq LIMIT ${rowsAtOnce})`;

/** Told of what was removed, with the number of rows. */
type OnRemoved = (removed: Removed, count: number) => void;

/** Removes rows with their content. @returns whether there may be more */
async function removeRows(database: Database, rows: readonly Row[]): Promise<boolean> {
  if (rows.length === 0) return false;
  const ids = [rows.map(({ id }) => String(id)).join(',')];
  const seqs = [rows.map(({ seq }) => String(seq)).join(',')];
  await database.transaction(async (transaction: Queryable) => {
    await transaction.run("DELETE FROM journal_content WHERE id = ANY (string_to_array($1::text, ','))", ids);
    await transaction.run(
      "DELETE FROM journal_content WHERE id = '' AND seq = ANY (string_to_array($1::text, ',')::bigint[])",
      seqs,
    );
    await transaction.run("DELETE FROM journal WHERE id = ANY (string_to_array($1::text, ','))", ids);
  });
  return rows.length === rowsAtOnce;
}

/**
 * Drops the partitions whose rows are all older than a time. Who holds a table keeps it; it is tried again at the next look.
 * @returns the tables whose rows go one by one
 */
async function dropAged(database: Database, limit: number, onRemoved: OnRemoved): Promise<readonly string[]> {
  const partitions = await partitionsOf((sql, values) => database.query(sql, values), 'journal');
  const before = 'journal_before';
  for (const { name, isDefault, to } of partitions) {
    if (isDefault || to === null || Number.parseInt(to.replace('-', ''), 16) > limit) continue;
    const [row] = await database.query(firstAndLast(name));
    if ([row?.['first'], row?.['last']].some((at) => at !== null && Number(at) >= limit)) continue;
    const content = name.replace('journal', 'journal_content');
    const gone = await countedRows(database, name);
    try {
      await database.transaction(async (transaction) => {
        await transaction.run(waitShortly);
        await transaction.run(`DROP TABLE ${name}`);
        await transaction.run(`DROP TABLE IF EXISTS ${content}`);
      });
      onRemoved('aged', gone);
    } catch (thrown) {
      if (!(thrown instanceof Unavailable) || errorCode(thrown.cause) !== lockNotAvailable) throw thrown;
      break;
    }
  }
  if (partitions.length === 0) return ['journal'];
  await database.run(removeLeft);
  return ['journal_default', ...(partitions.some(({ name }) => name === before) ? [before] : [])];
}

async function removeAged(database: Database, limit: number, onRemoved: OnRemoved): Promise<boolean> {
  let isMore = false;
  for (const name of await dropAged(database, limit, onRemoved)) {
    const rows = await database.query(agedOf(name), [limit]);
    isMore = (await removeRows(database, rows)) || isMore;
    onRemoved('aged', rows.length);
  }
  return isMore;
}

async function removeRefusals(database: Database, most: number, onRemoved: OnRemoved): Promise<boolean> {
  const [much] = await database.query(
    `SELECT account, count(*) AS rows FROM journal WHERE outcome = ${outcomeNumbers.refused} AND outcome > 2
     GROUP BY account HAVING count(*) > $1::bigint LIMIT 1`,
    [most],
  );
  if (!much) return false;
  const surplus = await database.query(
    `SELECT id, seq FROM journal WHERE outcome = ${outcomeNumbers.refused} AND outcome > 2 AND account = $1::text
     ORDER BY seq LIMIT $2::integer`,
    [String(much['account']), Math.min(rowsAtOnce, Number(much['rows']) - most)],
  );
  const isMore = await removeRows(database, surplus);
  onRemoved('refusals', surplus.length);
  return isMore;
}

/**
 * Removes some of what is too old or too much.
 * @param now the wall time of this host, milliseconds since 1970. Where the server's clock says that it is earlier, that counts: what a
 *   host with a wrong clock takes for old stays
 * @returns whether there may be more
 */
export async function removeFromJournal(
  database: Database,
  { onRemoved, ...limits }: JournalLimits & { readonly onRemoved: OnRemoved },
  now: number,
): Promise<boolean> {
  const [server] = await database.query(time);
  const limit = Math.min(now, Math.floor(Number(server?.['time']))) - limits.keepDays * dayMs;
  const isMore = [
    await removeAged(database, limit, onRemoved),
    await removeRefusals(database, limits.refusals, onRemoved),
    await removeContent(database, limits.maxOctets, (rows) => onRemoved('content', rows)),
  ];
  return isMore.includes(true);
}
