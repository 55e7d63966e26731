// The server of PostgreSQL for a run of tests whose gateways all keep their mail there: POSTERN_TEST_DATABASE=postgres.

import { createHash } from 'node:crypto';
import pg from 'pg';
import { nameIn, startPostgres } from './postgres.ts';

/** The environment variable that names the server's database to the tests. */
const place = 'POSTERN_TEST_POSTGRES';

/** The one that names a database with the tables of a gateway, where the databases of folders are copies of it. */
export const filledPlace = 'POSTERN_TEST_POSTGRES_FILLED';

/** Starts the server before the first test; gives what ends it after the last. */
export default async function setUp(): Promise<() => Promise<void>> {
  const server = await startPostgres();
  process.env[place] = server.url('postgres');
  return () => server.remove();
}

/** The URL of the empty database that belongs to a folder of a test; undefined where the tests run on SQLite. */
export async function databaseOfFolder(folder: string): Promise<string | undefined> {
  const url = process.env[place];
  if (url === undefined) return undefined;
  const name = `f${createHash('sha256').update(folder).digest('hex').slice(0, 32)}`;
  const client = new pg.Client(url);
  await client.connect();
  const filled = process.env[filledPlace];
  if (filled !== undefined) {
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${name} TEMPLATE ${filled} STRATEGY file_copy`);
  } else await client.query(`CREATE SCHEMA IF NOT EXISTS ${name}`);
  await client.end();
  if (filled !== undefined) return url.replace(`/${nameIn(url)}?`, `/${name}?`);
  return `${url}&options=${encodeURIComponent(`-c search_path=${name}`)}`;
}
