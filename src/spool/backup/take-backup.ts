// Takes a backup beside a running server: first a copy of the database as it is at one moment, then the bodies of its
// messages. If a body is gone by then, its message was delivered or dropped in between, and is removed from the copy.

import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, existsSync, linkSync, lstatSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { isDamaged, sqliteMessage } from '../../base/database/sqlite-errors.ts';
import { makePrivate, missingRight, refuseMoved, requireDatabase } from '../../base/database/sqlite-file.ts';
import { syncPath } from '../../base/database/sync-folder.ts';
import { errorCode, errorMessage } from '../../base/errors.ts';
import {
  type BackedUp,
  type BodyRow,
  bodyRows,
  countMessages,
  createTables,
  forgetMessages,
  markAsComplete,
  type Progress,
  partOctets,
} from './backup-file.ts';

/** How many pages of the database are copied before other work gets its turn: 16 MiB at the usual page size. */
const pagesAtOnce = 4096;

/** What to back up, and where the backup is written. */
export interface BackupRequest extends BackedUp {
  /** Path of the backup. */
  readonly target: string;
  /** The present time, milliseconds since 1970. */
  readonly now: number;
}

function isTheSameFile(one: string, other: string): boolean {
  if (resolve(one) === resolve(other)) return true;
  if (!existsSync(one) || !existsSync(other)) return false;
  const [first, second] = [statSync(one), statSync(other)];
  return first.dev === second.dev && first.ino === second.ino;
}

/** @throws Error where the target is taken, is no plain file, or is a file of the data folder */
function checkTarget({ database, bodiesFolder, target, force }: BackupRequest): void {
  requireDatabase(database);
  const own = ['', '-wal', '-shm', '-spool.lock'].map((ending) => `${database}${ending}`);
  if (own.some((file) => isTheSameFile(target, file)) || dirname(resolve(target)) === resolve(bodiesFolder))
    throw new Error(`"${target}" is one of the files that a backup is made of`);
  const present = lstatSync(target, { throwIfNoEntry: false });
  if (!present) return;
  // A backup takes the name of what is there: in place of a device or a pipe, such as /dev/null, it would be a file.
  if (!present.isFile() && !present.isSymbolicLink())
    throw new Error(`"${target}" is neither a file nor free; name another place`);
  if (!force) throw new Error(`There is a file already: "${target}"; --force replaces it`);
}

/** Copies the database as it is at one moment, however much is written meanwhile. */
async function copyDatabase(source: string, copy: string, progress: Progress): Promise<void> {
  using database = new DatabaseSync(source, { timeout: 5000 });
  // The open transaction sees the database at one moment. Without it each commit of the server restarts the copy.
  database.exec('BEGIN');
  refuseMoved(database);
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
  await backup(database, copy, {
    rate: pagesAtOnce,
    progress: ({ totalPages, remainingPages }) => progress('Copying the database', 1 - remainingPages / totalPages),
  });
}

/** Copies a body into the backup. @returns false where its file no longer exists, or is another */
async function copyBody(copy: DatabaseSync, folder: string, { id, octets }: BodyRow): Promise<boolean> {
  const addPart = copy.prepare('INSERT INTO backup_parts VALUES (?, ?, ?)');
  const hash = createHash('sha256');
  const pieces: AsyncIterable<Buffer> = createReadStream(join(folder, id), { highWaterMark: partOctets });
  let isWhole = false;
  copy.exec('BEGIN');
  try {
    let [read, part] = [0, 0];
    for await (const piece of pieces) {
      hash.update(piece);
      addPart.run(id, part, piece);
      read += piece.length;
      part += 1;
    }
    isWhole = read === octets;
    if (isWhole) copy.prepare('INSERT INTO backup_bodies VALUES (?, ?, ?)').run(id, octets, hash.digest());
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  } finally {
    if (copy.isTransaction) copy.exec(isWhole ? 'COMMIT' : 'ROLLBACK');
  }
  return isWhole;
}

/** Adds the bodies to the copy, and removes messages whose body is gone. @returns ids of those that are still in the queue */
async function addBodies(copy: DatabaseSync, request: BackupRequest): Promise<readonly string[]> {
  const rows = bodyRows(copy);
  const gone: string[] = [];
  for (const [at, row] of rows.entries()) {
    request.progress('Copying bodies', at / rows.length);
    if (!(await copyBody(copy, request.bodiesFolder, row))) gone.push(row.id);
  }
  forgetMessages(copy, gone);
  if (gone.length === 0) return [];
  using now = new DatabaseSync(request.database, { timeout: 5000 });
  const message = now.prepare('SELECT 1 FROM spool_messages WHERE id = ?');
  return gone.filter((id) => message.get(id));
}

async function finishCopy(file: string, request: BackupRequest) {
  using copy = new DatabaseSync(file);
  // Nobody else sees the file before it is complete and synced, so SQLite need not protect it against a crash.
  copy.exec('PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF');
  copy.exec(createTables);
  const damaged = await addBodies(copy, request);
  copy.prepare(markAsComplete).run(request.now);
  const bodies = Number(copy.prepare('SELECT count(*) AS bodies FROM backup_bodies').get()?.['bodies']);
  return { messages: countMessages(copy), bodies, damaged };
}

const noHardLinks = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

/** Gives the finished file its name in one step. @throws Error where the name was taken meanwhile */
function claim(temporary: string, { target, force }: BackupRequest): void {
  if (force) return renameSync(temporary, target);
  try {
    // A hard link never replaces an existing file.
    linkSync(temporary, target);
  } catch (error) {
    const code = errorCode(error) ?? '';
    if (code === 'EEXIST' || existsSync(target))
      throw new Error(`There is a file already: "${target}"`, { cause: error });
    if (!noHardLinks.has(code)) throw error;
    renameSync(temporary, target);
  }
}

/**
 * Takes a backup. The file appears whole, readable by its owner alone, or not at all.
 * @returns its size, how many messages it has and how many of them a body that is a file, and the ids of those that were left out, since
 *   their body is missing though they are still in the queue
 * @throws Error naming the file, where it exists already or cannot be written
 */
export async function takeBackup(request: BackupRequest) {
  checkTarget(request);
  const { target } = request;
  const temporary = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    makePrivate(temporary);
    await copyDatabase(request.database, temporary, request.progress);
    const made = await finishCopy(temporary, request);
    syncPath(temporary);
    claim(temporary, request);
    rmSync(temporary, { force: true });
    syncPath(dirname(target));
    return { ...made, octets: statSync(target).size };
  } catch (cause) {
    // The copy is as damaged as what it was made of.
    const why = isDamaged(cause)
      ? `"${request.database}": ${sqliteMessage(cause)}`
      : `${errorMessage(cause)}${missingRight(request.database)}`;
    throw new Error(`Cannot write the backup "${target}": ${why}`, { cause });
  } finally {
    for (const ending of ['', '-journal', '-wal', '-shm']) rmSync(`${temporary}${ending}`, { force: true });
  }
}
