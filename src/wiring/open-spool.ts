// Opens the spool that a configuration names, for the gateway and for the commands beside it.

import { join } from 'node:path';
import type { Changes } from '../base/database/database.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { EventLimits } from '../events/event-store.ts';
import type { ContentGauge } from '../spool/journal/content-gauge.ts';
import { PostgresSpool } from '../spool/postgres/postgres-spool.ts';
import type { Spool } from '../spool/spool.ts';
import { RemoteWorker } from '../spool/sqlite/remote/remote-worker.ts';
import type { SpoolWorkerData } from '../spool/sqlite/sqlite-protocol.ts';
import { openSqliteSpool, type SqliteSpoolOptions, spoolThreadData } from '../spool/sqlite/sqlite-spool.ts';

/**
 * An event is kept until a message accepted with it has expired and `keepDays` have passed since, so that a message's first
 * event is still there as long after its last outcome (D53).
 */
function eventLimits({ events, delivery }: Config): EventLimits {
  return {
    ageMilliseconds: events.keepDays * 86_400_000 + delivery.retry.expireAfterSeconds * 1000,
    mail: events.perAccount,
    refusals: events.refusalsPerAccount,
  };
}

/** What an opened spool tells of. */
export interface SpoolHooks {
  /** Tells of what other processes write; absent: they are asked for regularly. */
  readonly changes?: Changes;
  readonly log?: Logger;
  /** Called once, when the thread of the embedded database ended: the spool no longer works. */
  readonly onLost?: (error: Error) => void;
  /** Called with how many failed messages were removed because their account has too many. */
  readonly onRemoved?: (removed: { readonly messages: number }) => void;
  /** Called after each commit with how many operations it had. */
  readonly onCommitted?: (operations: number) => void;
  /** Knows how much content the journal keeps; absent: it may be any amount. */
  readonly contentGauge?: ContentGauge;
  /** The socket of the process that has the spool in SQLite; absent: this process opens it by itself. */
  readonly socket?: string | undefined;
}

/** A spool, and the free octets of the file system that it writes to; NaN where they are not known. */
export type OpenedSpool = Spool & { readonly freeBytes: number };

/** What a spool keeps, in either engine. */
function settingsOf(config: Config) {
  const { spool: limits, reports: reportLimits, journal } = config;
  return { limits, reportLimits, eventLimits: eventLimits(config), hasJournal: journal.enabled };
}

/** What the spool of a configuration in SQLite is made with. @throws Error where it is in PostgreSQL */
function sqliteOptions(config: Config): SqliteSpoolOptions {
  const { database, dataDir } = config;
  if (!('file' in database)) throw new Error('The spool is not in SQLite');
  const bodiesFolder = join(dataDir, 'bodies');
  return { file: database.file, bodiesFolder, ...settingsOf(config) };
}

/** What the process of a spool that several processes share starts its thread with. @throws Error where it is in PostgreSQL */
export function spoolDataOf(config: Config): SpoolWorkerData {
  return spoolThreadData(sqliteOptions(config));
}

/** Opens the spool; the queue commands open it beside a running server (D94). @throws Error where it cannot be opened */
export function openSpool(config: Config, hooks: SpoolHooks = {}): Promise<OpenedSpool> {
  const { database } = config;
  const { socket } = hooks;
  if ('file' in database) {
    const port = socket === undefined ? undefined : new RemoteWorker(socket);
    return openSqliteSpool({ ...sqliteOptions(config), ...hooks, port });
  }
  const kept = { ...settingsOf(config), ...hooks };
  const { takeOverSeconds } = database;
  return PostgresSpool.open({ url: () => database.url, patienceMs: takeOverSeconds * 1000, ...kept });
}
