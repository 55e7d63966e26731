// Gives the free pages of the spool's database back by hand: in small steps, or, for a database of an earlier release, by
// writing it anew while nobody works on it.

import { setTimeout } from 'node:timers/promises';
import { compactDatabase, databaseBytes, giveBackSomePages, givesPagesBack } from '../../base/database/free-pages.ts';
import { openSqliteFile } from '../../base/database/sqlite-file.ts';
import { SpoolLock } from './sqlite-lock.ts';

/** Between two steps the lock is others'. */
const pauseMs = 20;

/** What became of it: octets of the database before and after; undefined where a server works on it, which must not be. */
export type Compacted = { readonly beforeBytes: number; readonly afterBytes: number } | undefined;

/**
 * Gives free pages back.
 * @param file path of the database
 * @throws what SQLite throws: there must be room for a second copy where it is written anew
 */
export async function compactSpool(file: string): Promise<Compacted> {
  const database = openSqliteFile(file);
  const lock = new SpoolLock(`${file}-spool.lock`);
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
