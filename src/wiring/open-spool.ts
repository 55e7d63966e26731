// Opens the spool that a configuration names, for the gateway and for the commands beside it.

import { join } from 'node:path';
import type { Config } from '../config.ts';
import type { EventLimits } from '../events/event-store.ts';
import { openSqliteSpool, type SqliteSpool, type SqliteSpoolOptions } from '../spool/sqlite/sqlite-spool.ts';

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

/** Opens the spool of the embedded database; the queue commands open it beside a running server (D94). */
export function openSpool(
  config: Config,
  hooks: Pick<SqliteSpoolOptions, 'log' | 'onLost' | 'onRemoved' | 'onCommitted'> = {},
): Promise<SqliteSpool> {
  const { database, dataDir, spool: limits, reports: reportLimits } = config;
  return openSqliteSpool({
    file: database.file,
    bodiesFolder: join(dataDir, 'bodies'),
    limits,
    reportLimits,
    eventLimits: eventLimits(config),
    ...hooks,
  });
}
