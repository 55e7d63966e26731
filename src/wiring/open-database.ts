// Opens the database that a configuration names, for the gateway and for the commands beside it.

import type { Database } from '../base/database/database.ts';
import type { OpenDatabaseOptions } from '../base/database/sqlite-database.ts';
import type { Config } from '../config.ts';

/**
 * Opens the database of all tables but the spool's.
 * @param options of the embedded database; PostgreSQL has its own limits, and takes the log alone
 * @throws Error where it cannot be opened
 */
export async function openDatabaseOf({ database }: Config, options: OpenDatabaseOptions = {}): Promise<Database> {
  if ('file' in database) {
    const { openDatabase } = await import('../base/database/sqlite-database.ts');
    return await openDatabase(database.file, options);
  }
  const { openPostgres } = await import('../base/database/postgres-database.ts');
  return await openPostgres({ url: () => database.url, log: options.log });
}
