// Opens the spool that a configuration names, for the gateway and for the commands beside it.

import { join } from 'node:path';
import type { Changes } from '../base/database/database.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { EventLimits } from '../events/event-store.ts';
import type { ContentGauge } from '../spool/journal/content-gauge.ts';
import type { Spool } from '../spool/spool.ts';

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
}

/** A spool, and the free octets of the file system that it writes to; NaN where they are not known. */
export type OpenedSpool = Spool & { readonly freeBytes: number };

/** What a spool keeps, in either engine. */
function settingsOf(config: Config) {
  const { spool: limits, reports: reportLimits, journal } = config;
  return { limits, reportLimits, eventLimits: eventLimits(config), hasJournal: journal.enabled };
}

/** Opens the spool; the queue commands open it beside a running server (D94). @throws Error where it cannot be opened */
export async function openSpool(config: Config, hooks: SpoolHooks = {}): Promise<OpenedSpool> {
  const { database, dataDir } = config;
  const kept = { ...settingsOf(config), ...hooks };
  if ('file' in database) {
    const { openSqliteSpool } = await import('../spool/sqlite/sqlite-spool.ts');
    return await openSqliteSpool({ file: database.file, bodiesFolder: join(dataDir, 'bodies'), ...kept });
  }
  const { takeOverSeconds } = database;
  const { PostgresSpool } = await import('../spool/postgres/postgres-spool.ts');
  return await PostgresSpool.open({ url: () => database.url, patienceMs: takeOverSeconds * 1000, ...kept });
}
