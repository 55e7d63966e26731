// The journal in PostgreSQL, on a connection of its own.

import type { Database, Queryable, SqlValue } from '../../base/database/database.ts';
import type { Journal, JournalLimits } from '../journal.ts';
import { outcomeNumbers } from '../journal-row.ts';
import { findRowsPostgres } from './find-rows-postgres.ts';
import { contentOf, entryOf, itemColumns, itemOf } from './item-of.ts';

/** Rows of one transaction at most. */
const rowsAtOnce = 500;
const dayMs = 86_400_000;
const those = "(SELECT unnest(string_to_array($1::text, ','))::bigint)";

/** Removes rows with their content. */
async function removeRows(database: Database, rows: readonly SqlValue[]): Promise<void> {
  if (rows.length === 0) return;
  const chosen = [rows.join(',')];
  await database.transaction(async (transaction: Queryable) => {
    await transaction.run(`DELETE FROM journal_content WHERE seq IN ${those}`, chosen);
    await transaction.run(`DELETE FROM journal WHERE seq IN ${those}`, chosen);
  });
}

async function seqsOf(database: Queryable, sql: string, values: readonly SqlValue[]): Promise<readonly number[]> {
  return (await database.query(sql, values)).map(({ seq }) => Number(seq));
}

/** Removes some of what is too old or too much. @returns whether there may be more */
async function tend(database: Database, limits: JournalLimits, now: number): Promise<boolean> {
  const aged = await seqsOf(
    database,
    `SELECT seq FROM (SELECT seq, at FROM journal ORDER BY seq LIMIT ${rowsAtOnce}) AS first WHERE at < $1::bigint`,
    [now - limits.keepDays * dayMs],
  );
  await removeRows(database, aged);
  const [much] = await database.query(
    `SELECT account, count(*) AS rows FROM journal WHERE outcome = ${outcomeNumbers.refused} AND outcome > 2
     GROUP BY account HAVING count(*) > $1::bigint LIMIT 1`,
    [limits.refusals],
  );
  const over =
    much === undefined
      ? []
      : await seqsOf(
          database,
          `SELECT seq FROM journal WHERE outcome = ${outcomeNumbers.refused} AND outcome > 2 AND account = $1::text
           ORDER BY seq LIMIT $2::integer`,
          [String(much['account']), Math.min(rowsAtOnce, Number(much['rows']) - limits.refusals)],
        );
  await removeRows(database, over);
  const large = await seqsOf(
    database,
    `SELECT seq FROM (SELECT seq, sum(octets) OVER (ORDER BY seq DESC) AS above FROM journal WHERE octets > 0) AS summed
     WHERE above > $1::bigint ORDER BY seq LIMIT ${rowsAtOnce}`,
    [limits.maxOctets],
  );
  if (large.length > 0) {
    const chosen = [large.join(',')];
    await database.transaction(async (transaction: Queryable) => {
      await transaction.run(`DELETE FROM journal_content WHERE seq IN ${those}`, chosen);
      await transaction.run(`UPDATE journal SET octets = 0 WHERE seq IN ${those}`, chosen);
    });
  }
  return [aged, over, large].some(({ length }) => length === rowsAtOnce);
}

/** How often it is looked for what is to be removed, in milliseconds: it costs more here than in SQLite. */
const tendEveryMs = 60_000;

/**
 * Opens the journal whose tables the spool has made.
 * @param database closed with the journal
 */
export function openPostgresJournal(database: Database, limits: JournalLimits): Journal {
  let tendedAt = Number.NEGATIVE_INFINITY;
  return {
    list: (query) => findRowsPostgres(database, query),
    async find(id, account) {
      const [row] = await database.query(`SELECT ${itemColumns}, j.more FROM journal j WHERE j.id = $1::text`, [id]);
      const entry = row && entryOf(row);
      return entry && (account === undefined || entry.account === account) ? entry : undefined;
    },
    async rows(ids) {
      const rows = await database.query(
        `SELECT ${itemColumns} FROM journal j WHERE j.id IN (SELECT unnest(string_to_array($1::text, ',')))
         ORDER BY j.seq`,
        [ids.join(',')],
      );
      return rows.map(itemOf);
    },
    async content(seq) {
      const [row] = await database.query('SELECT * FROM journal_content WHERE seq = $1::bigint', [seq]);
      return row && contentOf(row);
    },
    async tend(now) {
      if (Math.abs(now - tendedAt) < tendEveryMs) return false;
      const isMore = await tend(database, limits, now);
      tendedAt = isMore ? Number.NEGATIVE_INFINITY : now;
      return isMore;
    },
    close: () => database.close(),
  };
}
