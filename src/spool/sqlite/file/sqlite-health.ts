// Checks whether the spool can take mail: its files are still those that were opened, its file systems have room, and the
// last write succeeded. The spool's thread checks this once a second and after every commit.

import { statfsSync } from 'node:fs';
import { errorCode, errorMessage } from '../../../base/errors.ts';
import { type Misplaced, SqliteFiles } from '../../../base/fault/sqlite-files.ts';
import { defaultMinFreeBytes } from '../../spool-limits.ts';

/** Why the spool takes no mail. */
export interface SpoolFault {
  readonly reason: 'room' | 'store';
  /** The reason in words, for the log and the operator. */
  readonly text: string;
}

/** The files and limits to check. */
export interface HealthParts {
  /** Path of the database. */
  readonly file: string;
  /** Folders that mail is written to; one that is not there yet is left out. */
  readonly folders: readonly string[];
  readonly minFreeBytes: number | undefined;
}

/** Checks the files of a spool whose database is open. */
export class SpoolFiles {
  readonly #parts: HealthParts;
  readonly #database: SqliteFiles;

  /** @throws the system's error where the database cannot be looked at */
  constructor(parts: HealthParts) {
    this.#parts = parts;
    this.#database = new SqliteFiles(parts.file);
  }

  /** Finds a file of the database whose path no longer leads to what is open: what is written to it would be lost. */
  misplaced(): Misplaced | undefined {
    return this.#database.misplaced();
  }

  /** The free room on the file system with the least of it, and the fault if that is too little. */
  room(): { readonly freeBytes: number; readonly fault?: SpoolFault } {
    let least = Number.POSITIVE_INFINITY;
    let fault: SpoolFault | undefined;
    for (const folder of this.#parts.folders) {
      let free: number;
      let total: number;
      try {
        const { bavail, blocks, bsize } = statfsSync(folder);
        [free, total] = [bavail * bsize, blocks * bsize];
      } catch (thrown) {
        if (errorCode(thrown) === 'ENOENT') continue;
        fault = { reason: 'store', text: `Cannot look at ${folder}: ${errorMessage(thrown)}` };
        continue;
      }
      least = Math.min(least, free);
      const wanted = this.#parts.minFreeBytes ?? defaultMinFreeBytes(total);
      if (free < wanted)
        fault = { reason: 'room', text: `${folder} has ${free} octets free, less than minFreeBytes (${wanted})` };
    }
    return { freeBytes: least, ...(fault ? { fault } : {}) };
  }
}
