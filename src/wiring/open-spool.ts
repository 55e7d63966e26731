// Opens the spool that a configuration names, for the gateway and for the commands beside it.

import { join } from 'node:path';
import type { Config } from '../config.ts';
import { openSqliteSpool, type SqliteSpool, type SqliteSpoolOptions } from '../spool/sqlite/sqlite-spool.ts';

/** Opens the spool of the embedded database; the queue commands open it beside a running server (D94). */
export function openSpool(
  config: Config,
  hooks: Pick<SqliteSpoolOptions, 'log' | 'onLost' | 'onRemoved'> = {},
): Promise<SqliteSpool> {
  const { database, dataDir, spool: limits, reports: reportLimits } = config;
  return openSqliteSpool({
    file: database.file,
    bodiesFolder: join(dataDir, 'bodies'),
    limits,
    reportLimits,
    ...hooks,
  });
}
