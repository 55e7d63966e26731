// The journal in PostgreSQL, on a connection of its own.

import type { Database } from '../../base/database/database.ts';
import type { Journal, JournalLimits, Removed } from '../journal.ts';
import { contentOctets } from './content-removal-postgres.ts';
import { rowsFiled } from './filed-rows.ts';
import { findRowsPostgres } from './find-rows-postgres.ts';
import { contentOf, entryOf, itemColumns, itemOf } from './item-of.ts';
import { removeFromJournal } from './journal-removal-postgres.ts';

/** How often it is looked for what is to be removed, in milliseconds: it costs more here than in SQLite. */
const tendEveryMs = 60_000;

/**
 * Opens the journal whose tables the spool has made.
 * @param database closed with the journal
 * @param onRemoved told of what was removed
 */
export function openPostgresJournal(
  database: Database,
  limits: JournalLimits,
  { onRemoved = () => undefined }: { readonly onRemoved?: (removed: Removed, count: number) => void } = {},
): Journal {
  let tendedAt = Number.NEGATIVE_INFINITY;
  return {
    async list(query) {
      if (query.cursor === undefined) await rowsFiled(database);
      return await findRowsPostgres(database, query);
    },
    async find(id, account) {
      await rowsFiled(database);
      const [row] = await database.query(`SELECT ${itemColumns}, j.more FROM journal j WHERE j.id = $1::text`, [id]);
      const entry = row && entryOf(row);
      return entry && (account === undefined || entry.account === account) ? entry : undefined;
    },
    async rows(ids) {
      await rowsFiled(database);
      const rows = await database.query(
        `SELECT ${itemColumns} FROM journal j WHERE j.id = ANY (string_to_array($1::text, ',')) ORDER BY j.seq`,
        [ids.join(',')],
      );
      return rows.map(itemOf);
    },
    async content(seq) {
      const [own] = await database.query('SELECT id FROM journal WHERE seq = $1::bigint', [seq]);
      if (!own) return undefined;
      // What was written before content had an id is found by the row's number.
      const [row] = await database.query(
        "SELECT * FROM journal_content WHERE id = $1::text OR (id = '' AND seq = $2::bigint)",
        [String(own['id']), seq],
      );
      return row && contentOf(row);
    },
    async tend(now, isPressed = false) {
      if (!isPressed && Math.abs(now - tendedAt) < tendEveryMs) return false;
      const isMore = await removeFromJournal(database, { ...limits, onRemoved }, now);
      tendedAt = isMore ? Number.NEGATIVE_INFINITY : now;
      return isMore;
    },
    async state() {
      // There is no index of the search here.
      return { octets: await contentOctets(database), waiting: 0 };
    },
    close: () => database.close(),
  };
}
