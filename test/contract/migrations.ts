// The tables of every owner come to the same form from every version that they ever had, on every engine.

import { describe, expect, test } from 'vitest';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import type { Database, Migrations } from '../../src/base/database/database.ts';
import type { Engine } from '../support/engines.ts';

/** The migrations as they were when an owner's tables had a version. */
function upTo({ owner, steps, postgres }: Migrations, version: number): Migrations {
  return { owner, steps: steps.slice(0, version), ...(postgres ? { postgres: postgres.slice(0, version) } : {}) };
}

/**
 * The contract of migrations.
 * @param engine.formOf tells the tables, columns and indexes of a database, in some order that is always the same
 */
export function migrationsContract(
  engine: Engine & { readonly formOf: (database: Database) => Promise<unknown> },
): void {
  const isPostgres = engine.name.startsWith('PostgreSQL');
  const all = isPostgres ? tableMigrations.postgres : tableMigrations.sqlite;

  describe(`migrations in ${engine.name}`, () => {
    // A file of SQLite is as its memory, and slower.
    const ofVersions = engine.name === 'SQLite in a file' ? [] : all;
    test.each(ofVersions.map((migrations) => [migrations.owner, migrations] as const))(
      '%s: from every earlier version to the tables of a new database',
      async (_, migrations) => {
        const versions = (isPostgres && migrations.postgres ? migrations.postgres : migrations.steps).length;
        // What gateways file refers to their processes.
        const others = all.filter(({ owner }) => migrations.owner === 'filing' && owner === 'spool');
        const made = async (): Promise<Database> => {
          const database = await engine.make()();
          for (const other of others) await database.migrate(other);
          return database;
        };
        const fresh = await made();
        await fresh.migrate(migrations);
        const form = await engine.formOf(fresh);
        for (let version = 0; version < versions; version += 1) {
          const database = await made();
          await database.migrate(upTo(migrations, version));
          await database.migrate(migrations);
          expect(await engine.formOf(database)).toEqual(form);
          await expect(database.migrate(upTo(migrations, versions - 1))).rejects.toThrow('are of version');
        }
      },
    );

    if (!engine.isShared) return;
    test('processes that start together on an empty database all find their tables', async () => {
      const connect = engine.make();
      const databases = await Promise.all(Array.from({ length: 4 }, () => connect()));
      await Promise.all(
        databases.map(async (database) => {
          for (const migrations of all) await database.migrate(migrations);
        }),
      );
      const fresh = await engine.make()();
      for (const migrations of all) await fresh.migrate(migrations);
      for (const database of databases) expect(await engine.formOf(database)).toEqual(await engine.formOf(fresh));
    });
  });
}
