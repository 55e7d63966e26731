// Opens the embedded database and brings its tables up to date (D89, D90). Each room owns its tables and migrations.

import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { errorCode } from './errors.ts';

export type { DatabaseSync, StatementSync } from 'node:sqlite';

/** One room's migrations: statement texts applied in order, each once, never changed after release. */
export interface Migrations {
  /** The room that owns the tables: `spool`, `accounts` ... */
  readonly owner: string;
  /** SQL texts; index + 1 is the version. */
  readonly steps: readonly string[];
}

/**
 * Makes the file of a database, empty and readable by its owner alone, unless it is there: SQLite would let others read
 * it, and gives the files beside it the mode of this one. One that is there is never opened: closing it again would take
 * away the locks that this process holds on it (POSIX).
 */
export function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
}

/**
 * Opens a SQLite file: WAL, synchronous FULL (a commit is on disk when it returns, D90), 5 s busy timeout so that the
 * commands beside a running server wait for one another (D94).
 * @param file a path, or `:memory:`
 * @throws Error of the system or of SQLite, with the path in its message
 */
export function openDatabase(file: string): DatabaseSync {
  try {
    if (file !== ':memory:') {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
      makePrivate(file);
    }
    const database = new DatabaseSync(file, { timeout: 5000 });
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;');
    return database;
  } catch (cause) {
    throw new Error(`Cannot open database "${file}": ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

/** Applies the steps that this database has not seen yet, all in one transaction. Safe beside other processes. */
export function migrate(database: DatabaseSync, migrations: Migrations): void {
  database.exec('BEGIN IMMEDIATE');
  try {
    database.exec('CREATE TABLE IF NOT EXISTS migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT');
    const row = database.prepare('SELECT version FROM migrations WHERE owner = ?').get(migrations.owner);
    const version = Number(row?.['version'] ?? 0);
    if (version > migrations.steps.length) {
      throw new Error(
        `The database's "${migrations.owner}" tables are of version ${version}, this program knows ${migrations.steps.length}: it is older than its data`,
      );
    }
    for (const step of migrations.steps.slice(version)) database.exec(step);
    database
      .prepare('INSERT INTO migrations VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET version = excluded.version')
      .run(migrations.owner, migrations.steps.length);
    database.exec('COMMIT');
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}
