// Tells whether another process works on the same spool. A process that adds or claims holds a shared lock as long as it
// runs. The operating system releases the lock however the process ends, so the claims of a dead process can be recognised.

import { existsSync } from 'node:fs';
import { isBusy } from '../../../base/database/sqlite-errors.ts';
import { cannotOpen, type DatabaseSync, makePrivate, openNamed } from '../../../base/database/sqlite-file.ts';

const fileOf = (database: string): string => `${database}-spool.lock`;

/** A lock beside the database. It uses SQLite's own locks on an empty file, because Node offers no file locks. */
export class SpoolLock {
  readonly #database: DatabaseSync;
  /** Whether this process holds the lock, as one that adds or claims does; one that only reads or edits messages does not. */
  isHeld = false;

  /** @param database its path; the lock's file is beside it @throws Error naming the file where it cannot be opened */
  constructor(database: string) {
    const file = fileOf(database);
    makePrivate(file);
    this.#database = openNamed(file, { timeout: 5000 });
  }

  /** Takes the shared lock and keeps it. Waits up to 5 s while another process recovers. */
  take(): void {
    if (this.isHeld) return;
    this.#database.exec('BEGIN');
    // A read takes the shared lock, and the open transaction keeps it.
    this.#database.prepare('SELECT count(*) FROM sqlite_schema').get();
    this.isHeld = true;
  }

  /** Runs `work` while no other process works on the spool, and holds the shared lock then. @returns false where another does */
  whileAlone(work: () => void): boolean {
    if (this.isHeld) this.#database.exec('COMMIT');
    this.isHeld = false;
    try {
      this.#database.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE');
    } catch (thrown) {
      if (!isBusy(thrown)) throw thrown;
      this.#database.exec('PRAGMA busy_timeout = 5000');
      this.take();
      return false;
    }
    try {
      work();
    } finally {
      this.#database.exec('ROLLBACK; PRAGMA busy_timeout = 5000');
      this.take();
    }
    return true;
  }

  close(): void {
    this.#database.close();
  }

  readonly [Symbol.dispose] = (): void => this.close();
}

/** Whether a gateway works on a database. @param database path of its file */
export function isServed(database: string): boolean {
  if (!existsSync(fileOf(database))) return false;
  using lock = new SpoolLock(database);
  try {
    return !lock.whileAlone(() => undefined);
  } catch (cause) {
    throw cannotOpen(fileOf(database), cause);
  }
}
