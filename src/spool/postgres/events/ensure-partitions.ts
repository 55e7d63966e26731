// The partitions of what is kept by age, for whoever writes rows of a time that is not now.

import { type AskServer, isPartitioned, partitionsOf } from '../../../base/database/postgres-partitions.ts';
import { missingJournalDays } from '../../journal/journal-partitions.ts';
import { makeEventPartition } from './event-partitions.ts';

/** What is going to be written. */
export interface WrittenSpan {
  /** The times of the journal's rows, milliseconds since 1970. */
  readonly since: number;
  readonly until: number;
  /** The greatest id of the events. */
  readonly lastEvent: number;
}

/** Days that get partitions of their own at most; older rows go into DEFAULT, from where they are removed one by one. */
const mostDays = 100;
const dayMs = 86_400_000;

/**
 * Makes the partitions that are missing for rows of the journal, its content and the events. Where there are none, because the server has
 * none or rows come first, everything works as well: DEFAULT takes them.
 * @param ask asks inside a transaction, which is to be undone where this fails
 * @throws what `ask` throws, such as Unavailable where others hold the tables
 */
export async function ensurePartitions(ask: AskServer, { since, until, lastEvent }: WrittenSpan): Promise<void> {
  if (await isPartitioned(ask, 'journal')) {
    const first = Math.max(since, until - mostDays * dayMs);
    for (const statements of await missingJournalDays(ask, { since: first, until }))
      for (const sql of statements) await ask(sql);
  }
  const events = await partitionsOf(ask, 'mail_events');
  const end = events.reduce((most, { to }) => Math.max(most, Number(to ?? 0)), 1);
  if (events.length === 0 || end > lastEvent) return;
  for (const sql of makeEventPartition(end, lastEvent + 1)) await ask(sql);
}
