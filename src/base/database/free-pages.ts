// Pages that nothing is in go back to the file system, a few at a time (https://www.sqlite.org/pragma.html#pragma_incremental_vacuum).

import type { DatabaseSync } from 'node:sqlite';

/** Pages given back in one transaction: 1 MiB, some milliseconds. */
const pagesAtOnce = 256;
/** Free pages that stay for what comes next: without them each message would make the file grow again. */
const keptPages = 256;

function pragma(database: DatabaseSync, name: 'auto_vacuum' | 'freelist_count' | 'page_count' | 'page_size'): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name] ?? 0);
}

/** Whether the file can give pages back at all: those made by earlier releases cannot, until `compactDatabase`. */
export function givesPagesBack(database: DatabaseSync): boolean {
  return pragma(database, 'auto_vacuum') === 2;
}

/**
 * Gives some free pages back, in a transaction of its own.
 * @returns whether there are more to give
 * @throws what SQLite throws, SQLITE_BUSY where another connection writes
 */
export function giveBackSomePages(database: DatabaseSync): boolean {
  const free = pragma(database, 'freelist_count') - keptPages;
  if (free <= 0 || !givesPagesBack(database)) return false;
  database.exec(`PRAGMA incremental_vacuum(${Math.min(free, pagesAtOnce)})`);
  return free > pagesAtOnce;
}

/** Octets that the database has, those not yet written back from its log too. */
export function databaseBytes(database: DatabaseSync): number {
  return pragma(database, 'page_count') * pragma(database, 'page_size');
}

/** Writes the whole database anew, without free pages, and so that it gives pages back from now on. Holds the lock all the while. */
export function compactDatabase(database: DatabaseSync): void {
  database.exec('PRAGMA auto_vacuum = INCREMENTAL; VACUUM');
}
