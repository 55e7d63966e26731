// PostgreSQL: a server, on which any number of gateways work.

import { openPostgres } from '../../../base/database/postgres-database.ts';
import { openPostgresJournal } from '../../../spool/journal/store/postgres-journal-store.ts';
import { PostgresSpool } from '../../../spool/postgres/postgres-spool.ts';
import type { DatabaseSettings } from '../../config/settings.ts';
import type { Engine } from './open-stores.ts';

/** Makes the engine of a database. */
export function postgresEngine(settings: Extract<DatabaseSettings, { engine: 'postgres' }>): Engine {
  const url = (): string => settings.url;
  return {
    openDatabase: ({ log }) => openPostgres({ url, log }),
    openSpool: (kept) => PostgresSpool.open({ url, patienceMs: settings.takeOverSeconds * 1000, ...kept }),
    async openJournal(limits, hooks) {
      const database = hooks.shared ?? (await openPostgres({ url, connections: 2 }));
      const journal = openPostgresJournal(database, limits, hooks);
      // It reads all rows to say how it is.
      return { database, journal, times: { askMs: 60_000, pressedMs: 5000 } };
    },
  };
}
