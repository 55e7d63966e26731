// The file of the embedded database of a configuration.

import type { Config } from '../../src/app/config/config.ts';

/** The path of the database's file. */
export function databaseFileOf({ database }: Pick<Config, 'database'>): string {
  if ('file' in database) return database.file;
  throw new Error('The configuration names PostgreSQL');
}
