// The numbers of accounts as either engine keeps them, a row for each account that has a message.

import type { Row } from '../../base/database/database.ts';
import { integer, text } from '../stored-rows.ts';
import { type AccountTally, tallyColumns, tallyWith } from '../tally.ts';
import { ask, type StoreSteps } from './steps.ts';

const columns = ['account', ...tallyColumns].join(', ');
const sums = tallyColumns.map((name) => `${name} = kept.${name} + excluded.${name}`).join(', ');
const all = `SELECT ${columns} FROM spool_counts ORDER BY account`;

/** SQL that adds to the numbers of accounts. @param rows gives each account, and its numbers in the order of their columns */
export function addTallies(rows: string): string {
  return `INSERT INTO spool_counts AS kept (${columns}) ${rows} ON CONFLICT (account) DO UPDATE SET ${sums}`;
}

/** SQL that counts the numbers of every account into the empty table. @param key the column by which recipients name a message */
export function countTallies(key: 'id' | 'seq'): string {
  return `INSERT INTO spool_counts (${columns})
  SELECT account, count(*) FILTER (WHERE queued > 0), count(*) FILTER (WHERE queued = 0),
    coalesce(sum(size) FILTER (WHERE queued > 0), 0), coalesce(sum(size) FILTER (WHERE queued = 0), 0),
    sum(queued), sum(delivered), sum(failed)
  FROM (SELECT m.account, m.size, count(*) FILTER (WHERE r.state = 0) AS queued,
      count(*) FILTER (WHERE r.state = 1) AS delivered, count(*) FILTER (WHERE r.state = 2) AS failed
    FROM spool_messages m JOIN spool_recipients r ON r.message = m.${key} GROUP BY m.${key}) AS counted
  GROUP BY account`;
}

/** The numbers in a row. */
export function tallyOfRow(row: Row): AccountTally {
  return { account: text(row, 'account'), ...tallyWith((column) => integer(row, column)) };
}

/** The numbers of every account that has a message, by name. It reads one row for each account, however many messages. */
export function* readTallies(): StoreSteps<readonly AccountTally[]> {
  return (yield* ask(all)).map(tallyOfRow);
}
