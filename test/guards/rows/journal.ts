// What the journal and the figures tell of an account.

import { of } from '../guard.ts';

const sqliteJournal = ['test/spool/sqlite/sqlite-spool.test.ts > journal of'];
const postgresJournal = ['test/system/postgres-spool.test.ts > journal of'];
const figures = ['test/spool/figures/figures.test.ts'];

/** What the journal and the figures tell of an account. */
export const journal = [
  ...of('spool/journal/store/words.ts', sqliteJournal, [
    ['if (account !== undefined && item.account !== account) return false', ''],
    ['if (!asked(query).every(({ of, value }) => of(facts).includes(value))) return false', ''],
    ["if (account !== undefined) key(keyOf('a', account))", ''],
  ]),
  ...of(
    'spool/journal/store/item-of.ts',
    [...sqliteJournal, ...postgresJournal],
    [['entry && (account === undefined || entry.account === account) ?', 'entry ?']],
  ),
  ...of('spool/journal/store/tend-journal.ts', sqliteJournal, [
    ['WHERE gone.account = ${table}.account', 'WHERE gone.account IS NOT NULL'],
  ]),
  ...of('spool/journal/store/journal-removal-postgres.ts', postgresJournal, [
    ['WHERE ${are} AND account = $1::text', 'WHERE ${are} AND $1::text IS NOT NULL'],
  ]),
  ...of('spool/figures/figure-store.ts', figures, [
    ['WHERE account = $5 AND minute', 'WHERE $5 IS NOT NULL AND minute'],
  ]),
];
