// Opens what keeps everything, for the gateway and for the commands beside it: the engine that a configuration names, which is loaded
// here and not before.

import type { Database } from '../../../base/database/database.ts';
import type { OpenDatabaseOptions } from '../../../base/database/sqlite-database.ts';
import type { EventLimits } from '../../../spool/events/event-store.ts';
import type { Config, DatabaseSettings } from '../../config/settings.ts';
import type { Engine, OpenedSpool, SpoolHooks } from './engine.ts';

type Settings<Name extends DatabaseSettings['engine']> = Extract<DatabaseSettings, { engine: Name }>;

/** Every engine. */
const engines: {
  readonly [Name in DatabaseSettings['engine']]: (
    settings: Settings<Name>,
    config: Pick<Config, 'dataDir'>,
  ) => Promise<Engine>;
} = {
  sqlite: async (settings, config) => (await import('./sqlite-engine.ts')).sqliteEngine(settings, config),
  postgres: async (settings) => (await import('./postgres-engine.ts')).postgresEngine(settings),
};

/** Loads the engine that a configuration names. */
export function engineOf(config: Pick<Config, 'database' | 'dataDir'>): Promise<Engine> {
  const { database } = config;
  return database.engine === 'sqlite' ? engines.sqlite(database, config) : engines.postgres(database, config);
}

/** Opens the database of all tables but the spool's; see `Engine.openDatabase`. */
export async function openDatabaseOf(config: Config, options: OpenDatabaseOptions = {}): Promise<Database> {
  return await (await engineOf(config)).openDatabase(options);
}

/** How many refusals of one account are kept, as events and in the journal. */
const refusalsPerAccount = 50_000;

/** How many refusals of one account are kept, and how many copies that came to shadow listeners; as events and in the journal. */
export function rowsPerAccount({ events }: Pick<Config, 'events'>): {
  readonly refusals: number;
  readonly copies: number;
} {
  return { refusals: refusalsPerAccount, copies: events.perAccount };
}

/**
 * An event is kept until a message accepted with it has expired and `keepDays` have passed since, so that a message's first
 * event is still there as long after its last outcome (D53).
 */
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
