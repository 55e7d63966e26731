// Connects the endpoints that the console's pages ask with what they tell of.

import type { Clock } from '../../../base/clock.ts';
import type { Logger } from '../../../base/log.ts';
import { wayFor } from '../../../delivery/router.ts';
import type { DestinationView } from '../../../delivery/transport.ts';
import type { Spool } from '../../../spool/spool.ts';
import { failureEndpoints } from '../../../web/admin/console/failure-endpoints.ts';
import { overviewEndpoints } from '../../../web/admin/console/overview-endpoints.ts';
import { settingsEndpoint, type ToldSettings } from '../../../web/admin/console/settings-endpoint.ts';
import { queueEndpoints } from '../../../web/admin/queue/queue-endpoints.ts';
import type { QueueLines } from '../../../web/admin/queue/queue-groups.ts';
import type { V4Plugin } from '../../../web/http/v4-app.ts';
import type { Config, ConfigSource } from '../../config/config.ts';
import type { Figures } from './figures.ts';
import { shownConfig } from './shown-config.ts';

/** How the configuration in force came to be. */
export type LoadState = Pick<ToldSettings, 'loaded_at' | 'last_reload'>;

/** What lasts while configurations come and go. */
export interface ConsoleSources {
  readonly spool: Spool;
  readonly lines: QueueLines;
  readonly destinations: () => readonly DestinationView[];
  readonly figures: Figures;
  readonly docsBaseUrl: () => string | undefined;
  readonly loadState: () => LoadState;
  /** Where the configuration file is, and what it is read with; absent: the configuration came from no file. */
  readonly place?: ConfigSource | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

function routeNames({ delivery }: Config, account: string | undefined): string[] {
  return delivery.routes
    .filter(({ match }) => account === undefined || (match?.accounts?.includes(account) ?? true))
    .map(({ name }) => name);
}

/** Makes the endpoints under a configuration. */
export function consoleEndpoints(config: Config, sources: ConsoleSources): V4Plugin[] {
  const { spool, lines, destinations, figures, clock, log } = sources;
  const now = (): number => clock.now();
  const shown = shownConfig(config, true);
  return [
    overviewEndpoints({
      figures: figures.minutes,
      ...{ spool, lines, destinations, now },
      routes: (account) => routeNames(config, account),
    }),
    queueEndpoints({
      ...{ spool, lines, destinations, now, clock, log },
      routeOf: (account, recipient) => wayFor(config.delivery, { account, recipient }).route.name,
      newTimes: () => ({ now: now(), expiresAt: now() + config.delivery.retry.expireAfterSeconds * 1000 }),
    }),
    failureEndpoints({
      figures: figures.minutes,
      zonesOf: (account) => config.zones.filter((zone) => zone.account === account),
      docsBaseUrl: sources.docsBaseUrl,
      now,
    }),
    settingsEndpoint(() => ({
      file: config.file,
      mode: config.development ? 'development' : 'production',
      warnings: [...config.warnings],
      ...sources.loadState(),
      config: shown,
    })),
  ];
}
