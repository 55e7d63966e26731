// Writes key files whole or not at all, for the owner alone. Of two processes that start together one writes, the other uses the file.

import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { syncPath } from '../../base/database/sync-folder.ts';
import { ConfigurationError, errorCode, errorMessage } from '../../base/errors.ts';

function writeSynced(file: string, text: string): void {
  const descriptor = openSync(file, 'wx', 0o600);
  try {
    writeSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function temporaryBeside(target: string): string {
  return join(dirname(target), `.${basename(target)}.${randomBytes(6).toString('hex')}.tmp`);
}

const noHardLinks = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV', 'EMLINK']);
const taken = new Set(['EEXIST', 'ENOTEMPTY']);

/** Gives a finished file its name unless the name is taken. A hard link does so in one step. @returns whether it did */
function claim(temporary: string, file: string): boolean {
  try {
    linkSync(temporary, file);
    return true;
  } catch (error) {
    const code = errorCode(error) ?? '';
    if (code === 'EEXIST') return false;
    if (!noHardLinks.has(code)) throw error;
  }
  try {
    copyFileSync(temporary, file, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Removes what a failed write has left, as far as possible. An error of the removal is ignored: the write's own is told. */
function discard(temporary: string): void {
  try {
    rmSync(temporary, { force: true, recursive: true });
  } catch (error) {
    if (errorCode(error) === undefined) throw error;
  }
}

function cannotWrite(path: string, cause: unknown): ConfigurationError {
  return new ConfigurationError(`Cannot write "${path}": ${errorMessage(cause)}`, { cause });
}

/** Writes a file of mode 0600, its folder of mode 0700 where that is missing. @param put gives the file that is whole its name */
function writeFile<T>(file: string, text: string, put: (temporary: string) => T): T {
  const temporary = temporaryBeside(file);
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeSynced(temporary, text);
    const done = put(temporary);
    rmSync(temporary, { force: true });
    syncPath(dirname(file));
    return done;
  } catch (cause) {
    discard(temporary);
    throw cannotWrite(file, cause);
  }
}

/** Writes a file of mode 0600 unless there is one. @returns whether it did @throws ConfigurationError naming the path */
export function createFile(file: string, text: string): boolean {
  return writeFile(file, text, (temporary) => claim(temporary, file));
}

/** Writes a file of mode 0600, in one step; it replaces an existing one. @throws ConfigurationError */
export function replaceFile(file: string, text: string): void {
  writeFile(file, text, (temporary) => renameSync(temporary, file));
}

/** Writes files as a new folder of mode 0700, all or none. @returns false where one with something in it is there, and is left @throws ConfigurationError naming the folder */
export function createFolder(folder: string, files: Readonly<Record<string, string>>): boolean {
  const temporary = temporaryBeside(folder);
  try {
    mkdirSync(temporary, { recursive: true, mode: 0o700 });
    for (const [name, text] of Object.entries(files)) writeSynced(join(temporary, name), text);
    syncPath(temporary);
    renameSync(temporary, folder);
    syncPath(dirname(folder));
    return true;
  } catch (cause) {
    discard(temporary);
    if (taken.has(errorCode(cause) ?? '')) return false;
    throw cannotWrite(folder, cause);
  }
}
