// Which tables of a PostgreSQL are Postern's, and which are of another program.

import type { Migrations, Row } from '../base/database/database.ts';

/** The tables that migrations make, by name. */
function madeBy(migrations: readonly Migrations[]): ReadonlySet<string> {
  const steps = migrations.flatMap(({ steps: own, postgres = own }) => postgres);
  const names = steps.flatMap((step) =>
    [...step.matchAll(/\bCREATE TABLE (?:IF NOT EXISTS )?"?(\w+)/g)].map(([, name]) => name ?? ''),
  );
  return new Set(['migrations', ...names]);
}

// Partitions stand behind their table, and tables of extensions behind their extension.
const tables = `SELECT relname AS name, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid
      AND a.attname IN ('owner', 'version') AND NOT a.attisdropped) AS own_columns
  FROM pg_class c WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p') AND NOT relispartition
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
  ORDER BY relname`;

/**
 * Finds the tables of the schema that no migration makes. A table `migrations` of another form is another program's as well:
 * it is a name that many give.
 */
export async function foreignTables(
  query: (sql: string) => Promise<readonly Row[]>,
  migrations: readonly Migrations[],
): Promise<readonly string[]> {
  const made = madeBy(migrations);
  return (await query(tables))
    .filter(
      (row) => !made.has(String(row['name'])) || (row['name'] === 'migrations' && Number(row['own_columns']) !== 2),
    )
    .map((row) => String(row['name']));
}
