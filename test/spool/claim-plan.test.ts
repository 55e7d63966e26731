// What a claim costs: SQLite looks rows up in the index of one line, and reads nothing of the others. Plans are looked
// at, no times taken; bench/claims.ts has the times.

import { expect, test } from 'vitest';
import { type DatabaseSync, migrateSqlite, openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { Lines } from '../../src/spool/sqlite/sqlite-lines.ts';
import { prepareStatements, spoolMigrations } from '../../src/spool/sqlite/sqlite-tables.ts';

function planOf(database: DatabaseSync, sql: string): string[] {
  return database
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .all()
    .map((row) => String(row['detail']));
}

function plansOf(database: DatabaseSync, statements: Readonly<Record<string, { readonly sourceSQL: string }>>) {
  return Object.fromEntries(
    Object.entries(statements).map(([name, { sourceSQL }]) => [name, planOf(database, sourceSQL)]),
  );
}

const matching = (pattern: RegExp) => [expect.stringMatching(pattern)];

test('a claim goes by the index of one line, sorts nothing and scans nothing', () => {
  const database = openSqliteFile(':memory:');
  migrateSqlite(database, spoolMigrations);
  const { due, dueOf, claim, dueInLine, nextAside, backInLine } = prepareStatements(database);
  const byLine =
    /^SEARCH (?:r|spool_recipients) USING (?:COVERING )?INDEX spool_due \(line=\? AND <expr>=\? AND <expr><\?\)$/;
  expect(plansOf(database, { due, dueOf, claim, dueInLine, nextAside, backInLine })).toEqual({
    due: matching(byLine),
    dueOf: matching(/^SEARCH spool_recipients USING PRIMARY KEY \(message=\?\)$/),
    claim: matching(/^SEARCH spool_recipients USING PRIMARY KEY \(message=\? AND position=\?\)$/),
    dueInLine: [...matching(byLine), ...matching(/^SEARCH m USING INTEGER PRIMARY KEY/)],
    nextAside: matching(/^SEARCH spool_recipients USING COVERING INDEX spool_due \(line>\? AND line<\?\)$/),
    backInLine: [
      expect.stringMatching(/^SEARCH spool_recipients USING (?:PRIMARY KEY|INDEX spool_due) \(/),
      expect.stringMatching(/^LIST SUBQUERY/),
      expect.stringMatching(/^SEARCH spool_recipients USING COVERING INDEX spool_due \(line=\?\)$/),
    ],
  });
  database.close();
});

test('whose turn it is stands in an index of the lines', () => {
  const database = openSqliteFile(':memory:');
  migrateSqlite(database, spoolMigrations);
  const { ready, accounts, find, next, nextDue, nextParked, unpark } = new Lines({ database }).statements;
  expect(plansOf(database, { ready, find, next, nextDue, nextParked, unpark })).toEqual({
    ready: matching(
      /^SEARCH spool_lines USING INDEX spool_turns \(hold=\? AND transport=\? AND account=\? AND ready_at<\?\)$/,
    ),
    find: matching(
      /^SEARCH spool_lines USING COVERING INDEX sqlite_autoindex_spool_lines_1 \(lane=\? AND account=\?\)$/,
    ),
    next: matching(/^SEARCH spool_lines USING COVERING INDEX sqlite_autoindex_spool_lines_1 \(lane>\?\)$/),
    nextDue: matching(/^SEARCH spool_recipients USING (?:COVERING )?INDEX spool_due \(line=\? AND <expr>=\?\)$/),
    nextParked: matching(/^SEARCH spool_lines USING COVERING INDEX spool_turns \(hold>\?\)$/),
    unpark: [
      expect.stringMatching(/^SEARCH spool_lines USING INTEGER PRIMARY KEY/),
      expect.stringMatching(/^LIST SUBQUERY/),
      expect.stringMatching(/^SEARCH spool_lines USING COVERING INDEX spool_turns \(hold=\?\)$/),
    ],
  });
  const steps = planOf(database, accounts?.sourceSQL ?? '').filter((step) => step.includes('spool_lines'));
  expect(steps).toHaveLength(3);
  for (const step of steps) {
    expect(step).toMatch(
      /^SEARCH spool_lines USING COVERING INDEX spool_turns \(hold=\? AND transport=\? AND account[>=]\?/,
    );
  }
  database.close();
});

test('a database of before there were lines keeps its mail, which has no transport yet', () => {
  const database = openSqliteFile(':memory:');
  migrateSqlite(database, { owner: 'spool', steps: spoolMigrations.steps.slice(0, 1) });
  database.exec(`INSERT INTO spool_messages VALUES (1, 'id', 'dev', 'default', 's', 'm', NULL, '', '', 0, 0, 1, 9, NULL,
    NULL, 0, 0, x'', x'');
    INSERT INTO spool_recipients VALUES (1, 0, 'a@example.org', 0, 0, 5, 0, NULL, NULL, NULL, NULL, NULL)`);
  migrateSqlite(database, spoolMigrations);
  const { due, dueInLine } = prepareStatements(database);
  expect(due.all(0, 0, 5)).toEqual([{ message: 1 }]);
  expect(dueInLine.all(0, 0, 5, 10)).toEqual([
    { message: 1, position: 0, address: 'a@example.org', id: 'id', account: 'dev' },
  ]);
  database.close();
});
