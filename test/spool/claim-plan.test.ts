// What a claim costs: SQLite looks rows up in the index of one transport, and reads nothing of the others. Plans are looked
// at, no times taken; bench/claims.ts has the times.

import { expect, test } from 'vitest';
import { type DatabaseSync, migrateSqlite, openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { spoolMigrations } from '../../src/spool/sqlite/sqlite-schema.ts';
import { prepareStatements } from '../../src/spool/sqlite/sqlite-statements.ts';

function planOf(database: DatabaseSync, sql: string): string[] {
  return database
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .all()
    .map((row) => String(row['detail']));
}

test('a claim goes by the transport’s index, sorts nothing and scans nothing', () => {
  const database = openSqliteFile(':memory:');
  migrateSqlite(database, spoolMigrations);
  const { due, dueOf, claim, nextTransport, dueInTransport } = prepareStatements(database);
  const plans = Object.fromEntries(
    Object.entries({ due, dueOf, claim, nextTransport, dueInTransport }).map(([name, { sourceSQL }]) => [
      name,
      planOf(database, sourceSQL),
    ]),
  );
  const byTransport = /^SEARCH (?:r|spool_recipients) USING (?:COVERING )?INDEX spool_due \(lane=\? AND <expr><\?\)$/;
  const byMessage = /^SEARCH spool_recipients USING PRIMARY KEY \(message=\?\)$/;
  expect(plans).toEqual({
    due: [expect.stringMatching(byTransport)],
    dueOf: [expect.stringMatching(byMessage)],
    claim: [expect.stringMatching(byMessage)],
    nextTransport: [expect.stringMatching(/^SEARCH spool_recipients USING COVERING INDEX spool_due \(lane>\?\)$/)],
    dueInTransport: [expect.stringMatching(byTransport), expect.stringMatching(/^SEARCH m USING INTEGER PRIMARY KEY/)],
  });
  database.close();
});

test('a database of before there were transports keeps its mail, which has no transport yet', () => {
  const database = openSqliteFile(':memory:');
  migrateSqlite(database, { owner: 'spool', steps: spoolMigrations.steps.slice(0, 1) });
  database.exec(`INSERT INTO spool_messages VALUES (1, 'id', 'dev', 'default', 's', 'm', NULL, '', '', 0, 0, 1, 9, NULL,
    NULL, 0, 0, x'', x'');
    INSERT INTO spool_recipients VALUES (1, 0, 'a@example.org', 0, 0, 5, 0, NULL, NULL, NULL, NULL, NULL)`);
  migrateSqlite(database, spoolMigrations);
  const { due, dueInTransport } = prepareStatements(database);
  expect(due.all('', 5)).toEqual([{ message: 1 }]);
  expect(dueInTransport.all('', 5, 10)).toEqual([
    { message: 1, position: 0, address: 'a@example.org', account: 'dev' },
  ]);
  database.close();
});
