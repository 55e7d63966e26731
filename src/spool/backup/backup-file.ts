// A backup: a copy of the gateway's database with facts about the copy, and the bodies that are files beside it (D94).

import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { rowReader } from '../../base/database/row-reader.ts';
import { hasTable, inTransaction, tablesOf } from '../../base/database/sqlite-file.ts';
import { syncPath } from '../../base/database/sync-folder.ts';
import { errorMessage } from '../../base/errors.ts';
import { compactDatabase } from '../sqlite/file/compact.ts';
import { SpoolLock } from '../sqlite/file/sqlite-lock.ts';
import { rebuildLedger } from '../sqlite/sqlite-ledger.ts';
import { integer, text } from '../stored-rows.ts';

/** The version of the format. Files of other versions are refused. */
const form = 1;
/** Octets of a body in one row. No more are in memory at a time. */
export const partOctets = 1024 * 1024;

/** SQL that makes the three tables in a copy. */
export const createTables = `
  CREATE TABLE backup_about (
    one INTEGER PRIMARY KEY CHECK (one = 1), form INTEGER NOT NULL, made_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE backup_bodies (id TEXT PRIMARY KEY, octets INTEGER NOT NULL, sha256 BLOB NOT NULL) STRICT;
  CREATE TABLE backup_parts (
    id TEXT NOT NULL, part INTEGER NOT NULL, octets BLOB NOT NULL, PRIMARY KEY (id, part)
  ) STRICT;`;

/** SQL that removes the three tables again. */
const dropTables = 'DROP TABLE backup_about; DROP TABLE backup_bodies; DROP TABLE backup_parts;';

/** The change that writes the last row, which marks the backup as complete. Its value is the time, milliseconds since 1970. */
export const markAsComplete = `INSERT INTO backup_about VALUES (1, ${form}, ?)`;

/** Is called with the present step of the work and the fraction of it that is done, 0 to 1. */
export type Progress = (step: string, fraction: number) => void;

/** Opens a backup to read it. @throws Error naming the file and what is wrong with it */
function openBackup(file: string): DatabaseSync {
  const wrong = (why: string): Error => new Error(`"${file}" ${why}`);
  // Opening a pipe would wait for whoever writes to it.
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found) throw wrong('does not exist');
  if (!found.isFile()) throw wrong('is no file');
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const whole = database.prepare('SELECT page_count * page_size AS octets FROM pragma_page_count, pragma_page_size');
    const told = integer(whole.get() ?? {}, 'octets');
    if (found.size < told) throw wrong(`is cut short: it has ${found.size} octets of ${told}`);
    const about = hasTable(database, 'backup_about') && database.prepare('SELECT form FROM backup_about').get();
    if (!about) throw wrong('is a database, but no backup of Postern');
    if (about['form'] !== form)
      throw wrong(`is a backup of form ${String(about['form'])}, this program reads form ${form}`);
    return database;
  } catch (error) {
    database.close();
    throw error instanceof Error && error.message.startsWith(`"${file}"`)
      ? error
      : wrong(`is no backup of Postern, or not whole: ${errorMessage(error)}`);
  }
}

/** The octets of a body, a part at a time. */
function* bodyParts(database: DatabaseSync, id: string): Generator<Uint8Array> {
  for (const row of database.prepare('SELECT octets FROM backup_parts WHERE id = ? ORDER BY part').iterate(id)) {
    if (row['octets'] instanceof Uint8Array) yield row['octets'];
  }
}

const bodyOf = rowReader({ id: String, octets: Number });
/** A message whose body is a file, with the size of the body in octets. */
export type BodyRow = ReturnType<typeof bodyOf>;

/** The messages of a database whose bodies are files; none where it has no spool yet. */
export function bodyRows(database: DatabaseSync): BodyRow[] {
  if (!hasTable(database, 'spool_messages')) return [];
  return database
    .prepare('SELECT id, size - length(head) AS octets FROM spool_messages WHERE body_in_file = 1 ORDER BY id')
    .all()
    .map(bodyOf);
}

/** How many messages the spool of a database has. */
export function countMessages(database: DatabaseSync): number {
  if (!hasTable(database, 'spool_messages')) return 0;
  return integer(database.prepare('SELECT count(*) AS messages FROM spool_messages').get() ?? {}, 'messages');
}

/** Removes messages from a database that nobody else has open, and counts the accounts' totals again. */
export function forgetMessages(database: DatabaseSync, ids: readonly string[]): void {
  if (ids.length === 0) return;
  inTransaction(database, () => {
    const seq = '(SELECT seq FROM spool_messages WHERE id = ?)';
    const others = ['spool_recipients', 'spool_failures'].filter((name) => hasTable(database, name));
    for (const rows of [...others.map((name) => `${name} WHERE message = ${seq}`), 'spool_messages WHERE id = ?']) {
      const forget = database.prepare(`DELETE FROM ${rows}`);
      for (const id of ids) forget.run(id);
    }
    // A database of an older release lacks this table. It is migrated, and counted, when a server opens it.
    if (hasTable(database, 'spool_counts')) database.exec(rebuildLedger);
  });
}

/** A backup that is read. */
interface CheckedBackup {
  /** Its path. */
  readonly file: string;
  /** The version of each owner's tables that this program knows. */
  readonly versions: ReadonlyMap<string, number>;
  readonly progress: Progress;
}

/** The data folder that a backup is taken of, or restored into. */
export interface BackedUp {
  /** Path of the database. */
  readonly database: string;
  /** Folder of the bodies that are files. */
  readonly bodiesFolder: string;
  /** Whether to replace what is there where it is written. */
  readonly force: boolean;
  readonly progress: Progress;
}

/** Checks that a backup's tables are consistent and each body is there, unchanged. @throws Error naming what is wrong */
function checkBackup(database: DatabaseSync, { file, versions, progress }: CheckedBackup): void {
  const wrong = (why: string): Error => new Error(`"${file}" is damaged: ${why}`);
  progress('Checking the database', 0);
  try {
    const answer = database.prepare('PRAGMA integrity_check(1)').get()?.['integrity_check'];
    if (answer !== 'ok') throw new Error(String(answer));
  } catch (error) {
    throw wrong(errorMessage(error));
  }
  const tables = 'SELECT owner, version FROM migrations ORDER BY owner';
  for (const row of hasTable(database, 'migrations') ? database.prepare(tables).iterate() : []) {
    const owner = text(row, 'owner');
    if (integer(row, 'version') > (versions.get(owner) ?? 0))
      throw new Error(`"${file}" is of a release after this program's: its "${owner}" tables are newer`);
  }
  const wanted = database.prepare('SELECT octets, sha256 FROM backup_bodies WHERE id = ?');
  const rows = bodyRows(database);
  for (const [at, { id, octets }] of rows.entries()) {
    progress('Checking bodies', at / rows.length);
    const hash = createHash('sha256');
    let read = 0;
    for (const part of bodyParts(database, id)) {
      hash.update(part);
      read += part.length;
    }
    const told = wanted.get(id)?.['sha256'];
    const isWhole = read === octets && told instanceof Uint8Array && hash.digest().equals(told);
    if (!isWhole) throw wrong(`the body of message ${id} is not as it was written`);
  }
}

/** What is restored, and where. */
export type RestoreRequest = CheckedBackup & BackedUp;

/** Tables that have rows even in a new database, because they are about the database itself. */
const ownTables = new Set([
  ...['migrations', 'spool_clock', 'spool_probe', 'proxy_revision', 'journal_state', 'mail_event_state'],
  'spool_in_flight',
]);

/** Tells what a restore would remove from a database; undefined where it has nothing. */
function contentsOf(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  using database = new DatabaseSync(file, { timeout: 5000 });
  try {
    const messages = countMessages(database);
    if (messages > 0) return `${messages} message${messages === 1 ? '' : 's'}`;
    const tables = tablesOf(database)
      .filter((name) => !ownTables.has(name))
      .filter((name) => database.prepare(`SELECT 1 FROM "${name.replaceAll('"', '""')}" LIMIT 1`).get());
    return tables.length === 0 ? undefined : `no mail, but rows in ${tables.join(', ')}`;
  } catch (error) {
    return `a database that cannot be read (${errorMessage(error)})`;
  }
}

/** Writes the bodies, each whole or not at all. */
function writeBodies(backup: DatabaseSync, { bodiesFolder, progress }: RestoreRequest): number {
  const ids = backup.prepare('SELECT id FROM backup_bodies ORDER BY id').all();
  if (ids.length === 0) return 0;
  mkdirSync(bodiesFolder, { recursive: true, mode: 0o700 });
  for (const [at, row] of ids.entries()) {
    const id = String(row['id']);
    progress('Writing bodies', at / ids.length);
    // The id becomes a file name: one from a forged backup must not lead out of the folder.
    if (!/^[\w-]+$/.test(id)) throw new Error(`"${id}" is no message id`);
    const temporary = join(bodiesFolder, `.${id}.tmp`);
    const descriptor = openSync(temporary, 'w', 0o600);
    try {
      for (const part of bodyParts(backup, id)) writeFileSync(descriptor, part);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, join(bodiesFolder, id));
  }
  syncPath(bodiesFolder);
  syncPath(dirname(bodiesFolder));
  return ids.length;
}

/** Makes the database from a backup: a copy without the backup's own tables. */
function prepareDatabase(file: string, temporary: string): number {
  copyFileSync(file, temporary, constants.COPYFILE_EXCL);
  // The copy has the mode of the backup, which may be a file that others may read.
  chmodSync(temporary, 0o600);
  using database = new DatabaseSync(temporary);
  database.exec('PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF');
  database.exec(dropTables);
  compactDatabase(database);
  return countMessages(database);
}

function replaceDatabase(temporary: string, database: string): void {
  syncPath(temporary);
  // The log of the earlier database must never be applied to this one.
  for (const ending of ['-wal', '-shm']) rmSync(`${database}${ending}`, { force: true });
  renameSync(temporary, database);
  syncPath(dirname(database));
}

/** Writes the whole log of a database into it and closes it, so that nothing is lost with the log. */
function settle(database: string): void {
  if (!existsSync(database)) return;
  using connection = new DatabaseSync(database, { timeout: 5000 });
  try {
    connection.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // The old database is damaged, and --force allows it to be replaced.
  }
}

function restoreAlone(backup: DatabaseSync, request: RestoreRequest) {
  const { file, database, force } = request;
  const contents = force ? undefined : contentsOf(database);
  if (contents !== undefined)
    throw new Error(`"${database}" has ${contents}; --force replaces it, and what it has is lost`);
  const temporary = join(dirname(database), `.${basename(database)}.restore.tmp`);
  try {
    rmSync(temporary, { force: true });
    request.progress('Writing the database', 0);
    const messages = prepareDatabase(file, temporary);
    const bodies = writeBodies(backup, request);
    settle(database);
    replaceDatabase(temporary, database);
    return { messages, bodies };
  } finally {
    for (const ending of ['', '-journal']) rmSync(`${temporary}${ending}`, { force: true });
  }
}

/**
 * Restores a backup. Until it is done the data folder keeps the database that it had.
 * @returns how many messages and bodies it has
 * @throws Error where the file is no backup or is damaged, a server uses the data folder, the folder is not empty and
 *   `force` is not set, or it cannot be written
 */
export function restoreBackup(request: RestoreRequest) {
  using backup = openBackup(request.file);
  checkBackup(backup, request);
  mkdirSync(dirname(request.database), { recursive: true, mode: 0o700 });
  using lock = new SpoolLock(request.database);
  let restored: ReturnType<typeof restoreAlone> | undefined;
  const isAlone = lock.whileAlone(() => {
    restored = restoreAlone(backup, request);
  });
  if (!isAlone || !restored) throw new Error(`A server works on "${dirname(request.database)}": stop it first`);
  return restored;
}
