// Shrinks the spool's database on command by giving back its free pages: in small steps, or, for a database of an earlier
// release, by writing the file anew while no process works on it.

import { setTimeout } from 'node:timers/promises';
import {
  compactDatabase,
  databaseBytes,
  giveBackSomePages,
  givesPagesBack,
} from '../../../base/database/free-pages.ts';
import { openSqliteFile } from '../../../base/database/sqlite-file.ts';
import { SpoolLock } from './sqlite-lock.ts';

/** How long other processes can take the lock between two steps, in milliseconds. */
const pauseMs = 20;

/** Octets of the database before and after; undefined where a server works on a database that must be written anew. */
export type Compacted = { readonly beforeBytes: number; readonly afterBytes: number } | undefined;

/**
 * Gives free pages back.
 * @param file path of the database
 * @throws what SQLite throws; where the file is written anew, the disk must have room for a second copy
 */
export async function compactSpool(file: string): Promise<Compacted> {
  const database = openSqliteFile(file);
  const lock = new SpoolLock(file);
  try {
    const beforeBytes = databaseBytes(database);
    if (givesPagesBack(database)) {
      while (giveBackSomePages(database)) await setTimeout(pauseMs);
    } else if (!lock.whileAlone(() => compactDatabase(database))) return undefined;
    database.exec('PRAGMA wal_checkpoint(PASSIVE)');
    return { beforeBytes, afterBytes: databaseBytes(database) };
  } finally {
    lock.close();
    database.close();
  }
}
