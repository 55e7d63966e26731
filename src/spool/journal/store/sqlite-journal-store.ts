// The journal in a SQLite file, on a connection of its own, so that no search keeps waiting what is asked for each message.

import type { Database } from '../../../base/database/database.ts';
import type { Journal, JournalLimits, Removed } from '../journal.ts';
import { findRows } from './find-rows.ts';
import { contentOf, readersOf } from './item-of.ts';
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
    ...readersOf(database, caughtUp, {
      sql: 'j.id IN (SELECT value FROM json_each($1))',
      value: (ids) => JSON.stringify(ids),
    }),
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
