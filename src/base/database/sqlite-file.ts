// Opens a SQLite file and brings its tables up to date (D89, D90), for worker threads. Everybody else asks a Database.

import { accessSync, closeSync, constants, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { errorCode } from '../errors.ts';
import type { Migrations } from './database.ts';
import { isDamaged, sqliteMessage } from './sqlite-errors.ts';

export type { DatabaseSync, StatementSync } from 'node:sqlite';

/**
 * Makes the file of a database, empty and readable by its owner alone, unless it exists. SQLite would let others read it,
 * and it gives the files beside it the same mode. An existing file is not opened here, because closing it would release the
 * locks that this process holds on it (POSIX).
 */
export function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
}

/** What a user must be allowed to do to a database, whose folder gets and loses the log and its index. */
const rights = [
  ['read', constants.R_OK],
  ['write', constants.W_OK],
] as const;

/** A clause that names the right to a database that this user lacks, of which SQLite's messages say nothing; empty where none is. */
export function missingRight(file: string): string {
  for (const path of [dirname(file), file, `${file}-wal`, `${file}-shm`]) {
    for (const [right, mode] of rights) {
      try {
        accessSync(path, mode);
      } catch (error) {
        const code = errorCode(error) ?? '';
        if (code !== 'ENOENT') return `; this user (uid ${process.getuid?.()}) may not ${right} "${path}" (${code})`;
      }
    }
  }
  return '';
}

/** Says that a file cannot be opened or used, with what SQLite threw and, unless it is damaged, the right to it that is missing. */
export function cannotOpen(file: string, cause: unknown): Error {
  const why = `${sqliteMessage(cause)}${isDamaged(cause) ? '' : missingRight(file)}`;
  return new Error(`Cannot open "${file}": ${why}`, { cause });
}

/** Opens a SQLite file with settings of the caller's own. @throws Error naming the file, and the right to it that is missing */
export function openNamed(
  file: string,
  options: { readonly readOnly?: boolean; readonly timeout: number },
): DatabaseSync {
  try {
    return new DatabaseSync(file, options);
  } catch (cause) {
    throw cannotOpen(file, cause);
  }
}

/**
 * Opens a SQLite file: WAL, synchronous FULL (a commit is on disk when it returns, D90), 5 s busy timeout so that the
 * commands beside a running server wait for one another (D94).
 * @param file a path, or `:memory:`
 * @throws Error of the system or of SQLite, or that the file was moved to PostgreSQL, with the path in its message
 */
export function openSqliteFile(file: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    if (file !== ':memory:') {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
      makePrivate(file);
    }
    database = new DatabaseSync(file, { timeout: 5000 });
    // It works only in a file without tables (`compactDatabase` converts others) and before WAL mode, which writes the first page.
    database.exec('PRAGMA auto_vacuum = INCREMENTAL');
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;');
    refuseMoved(database);
    return database;
  } catch (cause) {
    database?.close();
    throw new Error(`Cannot open database "${file}": ${sqliteMessage(cause)}${missingRight(file)}`, { cause });
  }
}

/** Prepares statements, each under its name. */
export function prepareAll<Name extends string>(
  database: DatabaseSync,
  texts: Readonly<Record<Name, string>>,
): Readonly<Record<Name, StatementSync>> {
  const prepared = Object.entries<string>(texts).map(([name, sql]) => [name, database.prepare(sql)]);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the names are those of the texts
  return Object.fromEntries(prepared) as Record<Name, StatementSync>;
}

/** Whether a database has a table. */
export function hasTable(database: DatabaseSync, name: string): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(name) !== undefined;
}

/** The version of an owner's tables; 0 where there are none. */
function versionOf(database: DatabaseSync, owner: string): number {
  if (!hasTable(database, 'migrations')) return 0;
  const row = database.prepare('SELECT version FROM migrations WHERE owner = ?').get(owner);
  return Number(row?.['version'] ?? 0);
}

/** Makes changes in a transaction, which is on disk when this returns. @throws what `work` throws: then nothing is changed */
export function inTransaction<Result>(database: DatabaseSync, work: () => Result): Result {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (thrown) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw thrown;
  }
}

/** The names of the tables of a database, but for those of SQLite itself; those below a virtual one (`shadow`) are its own business. */
export function tablesOf(database: DatabaseSync): readonly string[] {
  const names = `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name`;
  return database
    .prepare(names)
    .all()
    .map((row) => String(row['name']));
}

/** @throws Error where there is no such file */
export function requireDatabase(file: string): void {
  // Throws the system's error where the folder may not be read, which must not be told as if there were nothing.
  if (!statSync(file, { throwIfNoEntry: false }))
    throw new Error(`There is no database "${file}"; has a server run with this configuration?`);
}

/** Applies the migrations that are missing, in one transaction. @throws Error where the tables are newer, or what SQLite throws */
export function migrateSqlite(database: DatabaseSync, { owner, steps }: Migrations): void {
  if (versionOf(database, owner) === steps.length) return;
  inTransaction(database, () => {
    database.exec('CREATE TABLE IF NOT EXISTS migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT');
    const version = versionOf(database, owner);
    if (version > steps.length) {
      throw new Error(
        `The database's "${owner}" tables are of version ${version}, this program knows ${steps.length}: it is older than its data`,
      );
    }
    for (const step of steps.slice(version)) database.exec(step);
    database
      .prepare('INSERT INTO migrations VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET version = excluded.version')
      .run(owner, steps.length);
  });
}

/** Where a file's contents were moved to. */
export interface MovedMark {
  /** The move, which its target knows by the same id. */
  readonly id: string;
  /** Host, port and name of the target, for people. */
  readonly target: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Whether it is known that the target has kept everything; else the end of the move was not heard of. */
  readonly isDone: boolean;
}

/** Added to the version of the spool's tables in a marked file, so that a release that knows of no marks refuses them as too new. */
const raised = 1_000_000;

const make = `CREATE TABLE moved_away (
  one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, target TEXT NOT NULL, at INTEGER NOT NULL, done INTEGER NOT NULL
) STRICT`;
const raise = `UPDATE migrations SET version = version + ${raised} WHERE owner = 'spool' AND version < ${raised}`;
const lower = `UPDATE migrations SET version = version - ${raised} WHERE owner = 'spool' AND version >= ${raised}`;

/** Reads the mark of a file; undefined where it has none. */
export function movedMark(database: DatabaseSync): MovedMark | undefined {
  const row = hasTable(database, 'moved_away') && database.prepare('SELECT * FROM moved_away').get();
  if (!row) return undefined;
  return { id: String(row['id']), target: String(row['target']), at: Number(row['at']), isDone: row['done'] === 1 };
}

/** Writes the mark, or what is new of it; on disk when this returns. */
export function writeMovedMark(database: DatabaseSync, { id, target, at, isDone }: MovedMark): void {
  inTransaction(database, () => {
    if (!movedMark(database)) database.exec(`DROP TABLE IF EXISTS moved_away; ${make}`);
    database.prepare('INSERT OR REPLACE INTO moved_away VALUES (1, ?, ?, ?, ?)').run(id, target, at, isDone ? 1 : 0);
    database.exec(raise);
  });
}

/** Takes the mark off; on disk when this returns. */
export function removeMovedMark(database: DatabaseSync): void {
  inTransaction(database, () => database.exec(`DROP TABLE IF EXISTS moved_away; ${lower}`));
}

/** @throws Error that says what to do, where a file is marked */
export function refuseMoved(database: DatabaseSync): void {
  const mark = movedMark(database);
  if (!mark) return;
  const { target, at, isDone } = mark;
  const day = new Date(at).toISOString();
  throw new Error(
    isDone
      ? `it was moved to ${target} at ${day}: name that in database.url; postern migrate --undo takes this one back`
      : `a move to ${target} began at ${day} and its end is not known: run the same postern migrate again, which finds out`,
  );
}
