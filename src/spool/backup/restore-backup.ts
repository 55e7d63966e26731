// Replaces a data folder's database and bodies with those of a backup. No process may use the folder meanwhile. The bodies are
// written first and the database last, in one step. Until then the folder keeps its state: bodies without a message are
// removed by the next start.

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
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tablesOf } from '../../base/database/sqlite-file.ts';
import { syncPath } from '../../base/database/sync-folder.ts';
import { errorMessage } from '../../base/errors.ts';
import { compactDatabase } from '../sqlite/file/compact.ts';
import { SpoolLock } from '../sqlite/file/sqlite-lock.ts';
import {
  type BackedUp,
  bodyParts,
  type CheckedBackup,
  checkBackup,
  countMessages,
  dropTables,
  openBackup,
} from './backup-file.ts';

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
