// Whether the spool can take mail: its file is still the one that was opened, its file systems have room, the last write
// went well. Looked at on the spool's thread, once a second and after every commit.

import { type BigIntStats, statfsSync, statSync } from 'node:fs';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { defaultMinFreeBytes } from '../spool-limits.ts';

/** Why the spool takes no mail. */
export interface SpoolFault {
  readonly reason: 'room' | 'store';
  /** For the log and the operator. */
  readonly text: string;
}

/** What is looked at. */
export interface HealthParts {
  /** The database. */
  readonly file: string;
  /** Folders that mail is written to; one that is not there yet is left out. */
  readonly folders: readonly string[];
  readonly minFreeBytes: number | undefined;
}

function identity({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

/** Looks at the files of a spool whose database is open. */
export class SpoolFiles {
  readonly #parts: HealthParts;
  readonly #opened: string;

  /** @throws the system's error where the database cannot be looked at */
  constructor(parts: HealthParts) {
    this.#parts = parts;
    this.#opened = identity(statSync(parts.file, { bigint: true }));
  }

  /** Tells whether the name still leads to the file that is open: what is written to another one is lost. */
  isInPlace(): boolean {
    try {
      return identity(statSync(this.#parts.file, { bigint: true })) === this.#opened;
    } catch {
      // Gone, or no longer to be looked at: either way nobody finds it again.
      return false;
    }
  }

  /** The room on the fullest of the file systems, and whether it is enough. */
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
