// The journal in a SQLite file, on a connection of its own, so that no search keeps waiting what is asked for each message.

import type { Database } from '../../base/database/database.ts';
import type { Journal, JournalLimits, Removed } from '../journal.ts';
import { findRows } from './find-rows.ts';
import { contentOf, entryOf, itemColumns, itemOf } from './item-of.ts';
import { SqliteTender } from './tend-journal.ts';

const stateOf = `SELECT octets + (SELECT coalesce(sum(octets), 0) FROM journal WHERE seq > indexed) AS octets,
  max((SELECT coalesce(max(seq), 0) FROM journal) - indexed, 0) AS waiting FROM journal_state`;

/**
 * Opens the journal whose tables the spool has made.
 * @param database closed with the journal
 * @param parts.caughtUp resolves when outcomes are noted that were written before
 * @param parts.onRemoved told of what was removed
 */
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
  const tender = new SqliteTender(database, limits, onRemoved);
  return {
    async list(query) {
      await caughtUp();
      return await findRows(database, query);
    },
    async find(id, account) {
      await caughtUp();
      const [row] = await database.query(`SELECT ${itemColumns}, j.more FROM journal j WHERE j.id = $1`, [id]);
      const entry = row && entryOf(row);
      return entry && (account === undefined || entry.account === account) ? entry : undefined;
    },
    async rows(ids) {
      await caughtUp();
      const rows = await database.query(
        `SELECT ${itemColumns} FROM json_each($1) asked JOIN journal j ON j.id = asked.value ORDER BY j.seq`,
        [JSON.stringify(ids)],
      );
      return rows.map(itemOf);
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
    close: () => database.close(),
  };
}
