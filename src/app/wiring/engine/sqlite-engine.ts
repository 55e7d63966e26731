// SQLite, embedded: one file, which serves one process.

import { join } from 'node:path';
import { openDatabase } from '../../../base/database/sqlite-database.ts';
import { openSqliteJournal } from '../../../spool/journal/store/sqlite-journal-store.ts';
import { SqliteSpool } from '../../../spool/sqlite/sqlite-spool.ts';
import type { DatabaseSettings } from '../../config/settings.ts';
import type { Engine } from './open-stores.ts';

/** Makes the engine of a file. @param dataDir where bodies are kept beside it */
export function sqliteEngine({ file }: Extract<DatabaseSettings, { engine: 'sqlite' }>, dataDir: string): Engine {
  return {
    openDatabase: (options) => openDatabase(file, options),
    openSpool: (kept) => SqliteSpool.open({ file, bodiesFolder: join(dataDir, 'bodies'), ...kept }),
    async openJournal(limits, hooks) {
      // What is written here follows from the rows: an index that a power failure undoes is filled again.
      const database = hooks.shared ?? (await openDatabase(file, { isDurable: false }));
      const journal = openSqliteJournal(database, limits, hooks);
      return { database, journal, times: { askMs: 3000, pressedMs: 250 } };
    },
  };
}
