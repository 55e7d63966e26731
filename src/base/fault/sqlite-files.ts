// Tells whether the files of an open SQLite database are still those that were opened: what is committed to a file whose path has gone is
// lost with its process, and who opens it anew sees none of its locks (https://www.sqlite.org/howtocorrupt.html, 4.4).

import { type BigIntStats, statSync } from 'node:fs';

/** The database itself, its write-ahead log, and the index of that, in the order in which they are looked at. */
const endings = ['', '-wal', '-shm'] as const;

/** One of the files of a database, by what follows the path of the database. */
export type SqliteFileEnding = (typeof endings)[number];

function identity({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

/** The files of one database that this process has open in WAL mode. */
export class SqliteFiles {
  readonly #file: string;
  readonly #opened = new Map<SqliteFileEnding, string>();

  /** @param file path of the database, which is open @throws the system's error where the database cannot be looked at */
  constructor(file: string) {
    this.#file = file;
    this.#opened.set('', identity(statSync(file, { bigint: true })));
    this.misplaced();
  }

  /** Finds the first file whose path no longer leads to what was opened, with what has happened and what to do; undefined: all do. */
  misplaced(): { readonly ending: SqliteFileEnding; readonly text: string } | undefined {
    for (const ending of endings) {
      const found = this.#look(ending);
      const opened = this.#opened.get(ending);
      // A file beside the database is opened together with it, and may be made at the first question.
      if (opened === undefined && found !== undefined) this.#opened.set(ending, found);
      else if (found !== opened) return { ending, text: this.#sentence(ending) };
    }
    return undefined;
  }

  /** What a path leads to. A path that is gone and one that cannot be looked at are alike: nobody finds the file again. */
  #look(ending: SqliteFileEnding): string | undefined {
    try {
      return identity(statSync(`${this.#file}${ending}`, { bigint: true }));
    } catch {
      return undefined;
    }
  }

  #sentence(ending: SqliteFileEnding): string {
    if (ending === '') return `The database "${this.#file}" was removed or replaced while it was open`;
    return `The file "${this.#file}${ending}" of the database was removed or replaced while it was open: restart Postern`;
  }
}
