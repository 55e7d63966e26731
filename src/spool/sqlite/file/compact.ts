// Gives free pages of the spool's database back to the file system: a few at a time while it is used
// (https://www.sqlite.org/pragma.html#pragma_incremental_vacuum), or, of a file of the first release, by writing it anew.

import { setTimeout } from 'node:timers/promises';
import { type DatabaseSync, openSqliteFile } from '../../../base/database/sqlite-file.ts';
import { SpoolLock } from './sqlite-lock.ts';

/** Pages given back in one transaction: 1 MiB, some milliseconds. */
const pagesAtOnce = 256;
/** Free pages that are kept for the next writes. Without them each message would make the file grow again. */
const keptPages = 256;

function pragma(database: DatabaseSync, name: 'auto_vacuum' | 'freelist_count' | 'page_count' | 'page_size'): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name] ?? 0);
}

/** Whether the file can give pages back. A file made by the first release cannot until `compactDatabase` has converted it. */
function givesPagesBack(database: DatabaseSync): boolean {
  return pragma(database, 'auto_vacuum') === 2;
}

/** Gives some free pages back in a transaction. @returns whether there are more @throws what SQLite throws, such as SQLITE_BUSY */
export function giveBackSomePages(database: DatabaseSync): boolean {
  const free = pragma(database, 'freelist_count') - keptPages;
  if (free <= 0 || !givesPagesBack(database)) return false;
  database.exec(`PRAGMA incremental_vacuum(${Math.min(free, pagesAtOnce)})`);
  return free > pagesAtOnce;
}

/** Octets of the database, including those in its log that are not written back yet. */
function databaseBytes(database: DatabaseSync): number {
  return pragma(database, 'page_count') * pragma(database, 'page_size');
}

/** Rewrites the whole database without free pages, so that it can give pages back later. It holds the lock all the while. */
export function compactDatabase(database: DatabaseSync): void {
  database.exec('PRAGMA auto_vacuum = INCREMENTAL; VACUUM');
}

/** How long other processes can take the lock between two steps, in milliseconds. */
const pauseMs = 20;

/** Gives free pages back. @returns octets before and after; undefined where a server runs and it must be written anew @throws as SQLite */
export async function compactSpool(file: string) {
  using database = openSqliteFile(file);
  using lock = new SpoolLock(file);
  const beforeBytes = databaseBytes(database);
  if (givesPagesBack(database)) {
    while (giveBackSomePages(database)) await setTimeout(pauseMs);
  } else if (!lock.whileAlone(() => compactDatabase(database))) return undefined;
  database.exec('PRAGMA wal_checkpoint(PASSIVE)');
  return { beforeBytes, afterBytes: databaseBytes(database) };
}
