// Every table of SQLite has a way to PostgreSQL, or a reason why it has none.

import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { tableMigrations } from '../../../src/app/wiring/table-versions.ts';
import { migrateSqlite } from '../../../src/base/database/sqlite-file.ts';
import { leftTables, movedTables } from '../../../src/spool/move/moved-tables.ts';
import { defineFunctions, noDamage } from '../../../src/spool/move/source-file.ts';

test('no table is forgotten, and none is named that is not there', () => {
  const database = new DatabaseSync(':memory:');
  for (const one of tableMigrations.sqlite) migrateSqlite(database, one);
  const names = database
    .prepare(
      "SELECT name FROM pragma_table_list WHERE type IN ('table', 'virtual') AND schema = 'main' AND name NOT LIKE 'sqlite%'",
    )
    .all()
    .map((row) => String(row['name']));
  const moved = movedTables.map(({ name }) => name);
  expect(names.filter((name) => !moved.includes(name) && !(name in leftTables))).toEqual([]);
  expect(moved.filter((name) => !names.includes(name) || name in leftTables)).toEqual([]);
  database.close();
});

test('every question is one that SQLite understands', () => {
  const database = new DatabaseSync(':memory:');
  for (const one of tableMigrations.sqlite) migrateSqlite(database, one);
  defineFunctions(database, noDamage);
  for (const { select } of movedTables) {
    if (select !== undefined) expect(() => database.prepare(select)).not.toThrow();
  }
  database.close();
});
