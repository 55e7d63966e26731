// Opens what keeps everything, for the gateway and for the commands beside it: the engine that a configuration names, which is loaded
// here and not before. A third engine needs a function beside these, a case in `engineOf`, and its settings (app/config/settings.ts).

import { join } from 'node:path';
import type { Database } from '../../../base/database/database.ts';
import type { OpenDatabaseOptions } from '../../../base/database/sqlite-database.ts';
import type { EventLimits } from '../../../spool/events/event-store.ts';
import type { Journal, JournalLimits, Removed } from '../../../spool/journal/journal.ts';
import type { PostgresSpoolOptions } from '../../../spool/postgres/spool-parts.ts';
import type { Spool } from '../../../spool/spool.ts';
import type { KeptSettings, SpoolOptions } from '../../../spool/spool-limits.ts';
import type { SqliteSpoolOptions } from '../../../spool/sqlite/sqlite-spool.ts';
import type { Config, DatabaseSettings } from '../../config/settings.ts';

/** What an opened spool tells of, and what it is told. */
type SpoolHooks = Pick<SpoolOptions, 'log' | 'onRemoved' | 'onCommitted' | 'contentGauge'> &
  Pick<PostgresSpoolOptions, 'changes'> &
  Pick<SqliteSpoolOptions, 'onLost'>;

/** A spool, and the free octets of the file system that it writes to; NaN where they are not known. */
type OpenedSpool = Spool & { readonly freeBytes: number };

/** A journal, and the database that it works on. */
export interface OpenedJournal {
  readonly journal: Journal;
  readonly database: Database;
  /** How often it is asked how it is, in milliseconds: mostly, and while more content is kept than should be. */
  readonly times: { readonly askMs: number; readonly pressedMs: number };
}

interface Engine {
  /** The database of all tables but the spool's. @param options PostgreSQL has its own limits, and takes the log alone */
  openDatabase(options: OpenDatabaseOptions): Promise<Database>;
  openSpool(kept: KeptSettings & SpoolHooks): Promise<OpenedSpool>;
  /** The spool must have been opened before, because it makes the tables. */
  openJournal(
    limits: JournalLimits,
    hooks: {
      /** What it works on; absent: a connection of its own, which no other part waits for. */
      readonly shared?: Database | undefined;
      readonly caughtUp: () => Promise<void>;
      readonly onRemoved: (removed: Removed, count: number) => void;
    },
  ): Promise<OpenedJournal>;
}

/** SQLite, embedded: one file, which serves one process. @param dataDir where bodies are kept beside it */
async function sqliteEngine(
  { file }: Extract<DatabaseSettings, { engine: 'sqlite' }>,
  dataDir: string,
): Promise<Engine> {
  const { openDatabase } = await import('../../../base/database/sqlite-database.ts');
  const { openSqliteJournal } = await import('../../../spool/journal/store/sqlite-journal-store.ts');
  const { SqliteSpool } = await import('../../../spool/sqlite/sqlite-spool.ts');
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

/** PostgreSQL: a server, on which any number of gateways work. */
async function postgresEngine(settings: Extract<DatabaseSettings, { engine: 'postgres' }>): Promise<Engine> {
  const { openPostgres } = await import('../../../base/database/postgres-database.ts');
  const { openPostgresJournal } = await import('../../../spool/journal/store/postgres-journal-store.ts');
  const { PostgresSpool } = await import('../../../spool/postgres/postgres-spool.ts');
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

/** Loads the engine that a configuration names. */
export async function engineOf({ database, dataDir }: Pick<Config, 'database' | 'dataDir'>): Promise<Engine> {
  switch (database.engine) {
    case 'sqlite':
      return await sqliteEngine(database, dataDir);
    case 'postgres':
      return await postgresEngine(database);
    default:
      return database satisfies never;
  }
}

/** Opens the database of all tables but the spool's; see `Engine.openDatabase`. */
export async function openDatabaseOf(config: Config, options: OpenDatabaseOptions = {}): Promise<Database> {
  return await (await engineOf(config)).openDatabase(options);
}

/** How many refusals of one account are kept, and how many copies that came to shadow listeners; as events and in the journal. */
export function rowsPerAccount({ events }: Pick<Config, 'events'>) {
  return { refusals: 50_000, copies: events.perAccount };
}

/** An event outlives the expiry of a message accepted with it by `keepDays`, so that its first event is there with its last (D53). */
function eventLimits(config: Config): EventLimits {
  const { events, delivery } = config;
  return {
    ageMilliseconds: events.keepDays * 86_400_000 + delivery.retry.expireAfterSeconds * 1000,
    mail: events.perAccount,
    ...rowsPerAccount(config),
  };
}

/** Opens the spool; the queue commands open it beside a running server (D94). @throws Error where it cannot be opened */
export async function openSpool(config: Config, hooks: SpoolHooks = {}): Promise<OpenedSpool> {
  const { spool: limits, reports: reportLimits, journal } = config;
  const kept = { limits, reportLimits, eventLimits: eventLimits(config), hasJournal: journal.enabled };
  return await (await engineOf(config)).openSpool({ ...kept, ...hooks });
}
