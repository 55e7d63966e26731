// Which store the gateways of a run of tests keep their mail in, for the few tests to whom it matters.

import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Database } from '../../src/base/database/database.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import type { RunningPostern } from './postern-process.ts';

/** The gateways keep their mail in PostgreSQL: POSTERN_TEST_DATABASE=postgres; otherwise in SQLite. */
export const isOnPostgres = process.env['POSTERN_TEST_DATABASE'] === 'postgres';

/**
 * Keys of a configuration for a gateway that soon takes over what another one, which was killed, had in hand. In PostgreSQL
 * that takes as long as others may be silent; SQLite's file has one owner, and knows no such setting.
 */
export const soonTakenOver: Readonly<Record<string, object>> = isOnPostgres
  ? { database: { url: 'postgres://the-environment-names-another@127.0.0.1:1/none', takeOverSeconds: 5 } }
  : {};

/** Opens the database of a gateway beside it, until the test ends. */
export async function openStoreOf({ dataDir, env }: Pick<RunningPostern, 'dataDir' | 'env'>): Promise<Database> {
  const url = env['POSTERN_DATABASE_URL'];
  const database =
    url === undefined ? await openDatabase(join(dataDir, 'postern.db')) : await openPostgres({ url, connections: 1 });
  onTestFinished(() => database.close());
  return database;
}

/** Asks how many recipients wait, those of messages in flight included, whichever engine it is; the column is `queued`. */
export function queuedQuestion({ env }: Pick<RunningPostern, 'env'>): string {
  const rows = '(SELECT count(*) FROM spool_recipients WHERE state = 0)';
  // SQLite keeps the recipients of a message in flight in its own row.
  const inFlight = "(SELECT coalesce(sum(json_array_length(envelope, '$.to')), 0) FROM spool_messages)";
  return `${env['POSTERN_DATABASE_URL'] === undefined ? `${rows} + ${inFlight}` : rows} AS queued`;
}
