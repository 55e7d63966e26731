// Rows of the journal in PostgreSQL are filed some 100 ms behind the commits of their messages, by whichever gateway does it first.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../base/database/database.ts';

/** Numbers before the newest one that are looked at: what was filed may stand there for long before the server clears it away. */
const lookedAt = 10_000;
/** How long a reader waits for them at most, and how often it looks, in milliseconds. */
const patienceMs = 2000;
const lookMs = 25;

const left = 'SELECT 1 AS one FROM spool_unfiled WHERE seq > $1::bigint AND seq <= $2::bigint LIMIT 1';

/** Resolves once what had been committed is filed; where nobody files, such as without a gateway, after a while. */
export async function rowsFiled(database: Database): Promise<void> {
  const until = performance.now() + patienceMs;
  const [newest] = await database.query('SELECT max(seq) AS seq FROM spool_unfiled');
  const seq = Number(newest?.['seq']);
  for (;;) {
    const waiting = await database.query(left, [seq - lookedAt, seq]);
    if (waiting.length === 0 || performance.now() > until) return;
    await sleep(lookMs);
  }
}
