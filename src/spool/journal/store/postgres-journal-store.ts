// The journal in PostgreSQL, on a connection of its own. Rows are filed some 100 ms behind the commits of their messages, by whichever
// gateway does it first.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../../base/database/database.ts';
import type { Journal, JournalLimits, Removed } from '../journal.ts';
import { findRowsPostgres } from './find-rows-postgres.ts';
import { contentOf, readersOf } from './item-of.ts';
import { contentOctets, removeFromJournal } from './journal-removal-postgres.ts';

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
    ...readersOf(database, () => rowsFiled(database), {
      sql: "j.id = ANY (string_to_array($1::text, ','))",
      value: (ids) => ids.join(','),
    }),
    async list(query) {
      if (query.cursor === undefined) await rowsFiled(database);
      return await findRowsPostgres(database, query);
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
  };
}
