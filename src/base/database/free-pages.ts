// Gives free pages back to the file system, a few at a time
// (https://www.sqlite.org/pragma.html#pragma_incremental_vacuum).

import type { DatabaseSync } from 'node:sqlite';

/** Pages given back in one transaction: 1 MiB, some milliseconds. */
const pagesAtOnce = 256;
/** Free pages that are kept for the next writes. Without them each message would make the file grow again. */
const keptPages = 256;

function pragma(database: DatabaseSync, name: 'auto_vacuum' | 'freelist_count' | 'page_count' | 'page_size'): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name] ?? 0);
}

/** Whether the file can give pages back. A file made by an earlier release cannot until `compactDatabase` has converted it. */
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

/** Octets of the database, including those in its log that are not written back yet. */
export function databaseBytes(database: DatabaseSync): number {
  return pragma(database, 'page_count') * pragma(database, 'page_size');
}

/** Rewrites the whole database without free pages, so that it can give pages back later. It holds the lock all the while. */
export function compactDatabase(database: DatabaseSync): void {
  database.exec('PRAGMA auto_vacuum = INCREMENTAL; VACUUM');
}
