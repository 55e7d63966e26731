// Databases of PostgreSQL that have the tables of a spool already: making them is most of what a short test takes.

import { onTestFinished } from 'vitest';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { journalMigrations } from '../../src/spool/journal/writer/journal-tables.ts';
import { filingMigrations, postgresSpoolMigrations } from '../../src/spool/postgres/postgres-schema.ts';
import type { PostgresServer } from './postgres.ts';

async function makeTables(url: string): Promise<void> {
  const database = await openPostgres({ url, connections: 1 });
  for (const one of [postgresSpoolMigrations, filingMigrations, journalMigrations]) await database.migrate(one);
  await database.close();
}

const unpartitioned = `&options=${encodeURIComponent('-c postern.partitions=off')}`;
const makeWholeTables = (url: string): Promise<void> => makeTables(`${url}${unpartitioned}`);

/** Makes such a database for one test. @param isWhole its tables have no partitions. @returns its URL */
export async function createSpoolTables(server: PostgresServer, isWhole = false): Promise<string> {
  const url = await server.createCopy(isWhole ? makeWholeTables : makeTables);
  onTestFinished(() => server.drop(url));
  return isWhole ? `${url}${unpartitioned}` : url;
}
