// What is done behind the rows in SQLite, in short transactions, so that an accept that needs the file's lock does not wait:
// the index of the search is filled, and what is too old or too much is removed.

import type { Database, Queryable } from '../../base/database/database.ts';
import type { JournalLimits } from '../journal.ts';
import { outcomeNumbers } from '../journal-row.ts';
import { fillWords, matchOf } from './words.ts';

/** Rows of one transaction at most. */
const rowsAtOnce = 256;
/** Rows whose content is removed in one transaction at most, and such transactions at a time: a client may cause refusals faster. */
const contentsAtOnce = 256;
const contentRounds = 4;
const dayMs = 86_400_000;

const fill = `SELECT max(seq) AS last, sum(octets) AS octets FROM (SELECT seq, octets FROM journal
  WHERE seq > (SELECT indexed FROM journal_state) ORDER BY seq LIMIT ${rowsAtOnce})`;
const countRefusals = `INSERT INTO journal_refusals SELECT account, count(*) FROM journal
  WHERE seq > $1 AND seq <= $2 AND outcome = ${outcomeNumbers.refused} GROUP BY account
  ON CONFLICT (account) DO UPDATE SET rows = rows + excluded.rows`;

/** Fills the index of some rows. @returns whether there are more */
async function fillSome(database: Database): Promise<boolean> {
  const [waiting] = await database.query(fill);
  if (waiting?.['last'] === null || waiting?.['last'] === undefined) return false;
  return await database.transaction(async (transaction) => {
    // Asked again under the lock: another process may have been here.
    const [state] = await transaction.query('UPDATE journal_state SET one = 1 RETURNING indexed');
    const [found] = await transaction.query(fill);
    if (found?.['last'] === null || found?.['last'] === undefined) return false;
    const [from, last] = [Number(state?.['indexed'] ?? 0), Number(found['last'])];
    await transaction.run(fillWords, [from, last]);
    await transaction.run(countRefusals, [from, last]);
    await transaction.run('UPDATE journal_state SET indexed = $1, octets = octets + $2', [
      last,
      Number(found['octets'] ?? 0),
    ]);
    return last - from >= rowsAtOnce;
  });
}

/** Removes rows with everything that belongs to them. */
async function removeRows(transaction: Queryable, seqs: readonly number[]): Promise<void> {
  const chosen = JSON.stringify(seqs);
  const those = '(SELECT value FROM json_each($1))';
  await transaction.run(`DELETE FROM journal_words WHERE rowid IN ${those}`, [chosen]);
  await transaction.run(`DELETE FROM journal_content WHERE seq IN ${those}`, [chosen]);
  await transaction.run(
    `UPDATE journal_refusals SET rows = rows - (SELECT count(*) FROM journal
       WHERE seq IN ${those} AND journal.account = journal_refusals.account AND outcome = ${outcomeNumbers.refused})
     WHERE account IN (SELECT account FROM journal WHERE seq IN ${those} AND outcome = ${outcomeNumbers.refused})`,
    [chosen],
  );
  await transaction.run(
    `UPDATE journal_state SET octets = octets - (SELECT coalesce(sum(octets), 0) FROM journal WHERE seq IN ${those})`,
    [chosen],
  );
  await transaction.run(`DELETE FROM journal WHERE seq IN ${those}`, [chosen]);
}

/** Removes some of the rows that are too old. @returns whether there may be more */
async function removeAged(database: Database, oldest: number): Promise<boolean> {
  const [first] = await database.query('SELECT at FROM journal ORDER BY seq LIMIT 1');
  if (!first || Number(first['at']) >= oldest) return false;
  return await database.transaction(async (transaction) => {
    const rows = await transaction.query(
      `SELECT seq, at FROM journal WHERE seq <= (SELECT indexed FROM journal_state)
       AND seq < (SELECT max(seq) FROM journal) ORDER BY seq LIMIT ${rowsAtOnce}`,
    );
    // Rows are in the order of the commits, so that one that is young stands behind all that are old, or nearly.
    const end = rows.findIndex(({ at }) => Number(at) >= oldest);
    const aged = end < 0 ? rows : rows.slice(0, end);
    await removeRows(
      transaction,
      aged.map(({ seq }) => Number(seq)),
    );
    return aged.length === rowsAtOnce;
  });
}

/** Removes some refusals of an account that has too many. @returns whether there may be more */
async function removeRefusals(database: Database, most: number): Promise<boolean> {
  const [over] = await database.query('SELECT account, rows FROM journal_refusals WHERE rows > $1 LIMIT 1', [most]);
  if (!over) return false;
  const [account, surplus] = [String(over['account']), Number(over['rows']) - most];
  const match = matchOf({ account, outcome: 'refused', limit: 1 }, undefined) ?? '';
  return await database.transaction(async (transaction) => {
    const rows = await transaction.query(
      `SELECT rowid AS seq FROM journal_words WHERE journal_words MATCH $1
       AND rowid < (SELECT max(seq) FROM journal) ORDER BY rowid LIMIT $2`,
      [match, Math.min(surplus, rowsAtOnce)],
    );
    await removeRows(
      transaction,
      rows.map(({ seq }) => Number(seq)),
    );
    return rows.length > 0;
  });
}

/** Removes the oldest content where there is too much. @returns whether there may be more */
async function removeContent(database: Database, most: number): Promise<boolean> {
  const [state] = await database.query('SELECT octets, indexed FROM journal_state');
  let surplus = Number(state?.['octets'] ?? 0) - most;
  if (surplus <= 0) return false;
  return await database.transaction(async (transaction) => {
    const rows = await transaction.query(
      `SELECT c.seq, j.octets FROM journal_content c JOIN journal j ON j.seq = c.seq WHERE c.seq <= $1
       ORDER BY c.seq LIMIT ${contentsAtOnce}`,
      [Number(state?.['indexed'] ?? 0)],
    );
    const gone: number[] = [];
    let freed = 0;
    for (const row of rows) {
      if (surplus <= 0) break;
      gone.push(Number(row['seq']));
      freed += Number(row['octets']);
      surplus -= Number(row['octets']);
    }
    const chosen = JSON.stringify(gone);
    await transaction.run('DELETE FROM journal_content WHERE seq IN (SELECT value FROM json_each($1))', [chosen]);
    await transaction.run('UPDATE journal SET octets = 0 WHERE seq IN (SELECT value FROM json_each($1))', [chosen]);
    await transaction.run('UPDATE journal_state SET octets = octets - $1', [freed]);
    return surplus > 0 && gone.length > 0;
  });
}

/** Does some of it. @returns whether there is more to do */
export async function tendJournal(database: Database, limits: JournalLimits, now: number): Promise<boolean> {
  const isFilling = await fillSome(database);
  // Content is the largest part, and must not grow for as long as rows come faster than the index is filled.
  let hasSurplus = true;
  for (let round = 0; hasSurplus && round < contentRounds; round += 1)
    hasSurplus = await removeContent(database, limits.maxOctets);
  if (isFilling) return true;
  const isMore = [
    await removeAged(database, now - limits.keepDays * dayMs),
    await removeRefusals(database, limits.refusals),
  ];
  return hasSurplus || isMore.includes(true);
}
