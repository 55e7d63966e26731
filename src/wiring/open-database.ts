// Opens the database that a configuration names, for the gateway and for the commands beside it.

import type { Database } from '../base/database/database.ts';
import { openPostgres } from '../base/database/postgres-database.ts';
import { type OpenDatabaseOptions, openDatabase } from '../base/database/sqlite-database.ts';
import type { Config } from '../config.ts';

/**
 * Opens the database of all tables but the spool's.
 * @param options of the embedded database; PostgreSQL has its own limits, and takes the log alone
 * @throws Error where it cannot be opened
 */
export function openDatabaseOf({ database }: Config, options: OpenDatabaseOptions = {}): Promise<Database> {
  if ('file' in database) return openDatabase(database.file, options);
  return openPostgres({ url: () => database.url, log: options.log });
}
