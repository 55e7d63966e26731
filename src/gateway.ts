// Builds every part, joins them, listens, drains, stops: the parts are joined in src/wiring, in this order.

import { join } from 'node:path';
import { createAccounts, type GlobalKeyHash, type TokenHash } from './accounts/create-accounts.ts';
import { createGuessing } from './accounts/guessing.ts';
import { openTokenStore } from './accounts/token-store.ts';
import { createBodyBudget, defaultBodyLimit } from './base/body-budget.ts';
import { type Clock, systemClock } from './base/clock.ts';
import type { Database } from './base/database/database.ts';
import type { Logger } from './base/log.ts';
import type { Keys } from './bootstrap.ts';
import type { Config } from './config.ts';
import { edgeAccounts, openEdge } from './edge/open-edge.ts';
import { createMetrics } from './http/metrics.ts';
import { openProxy, proxyAccounts } from './proxy/proxy.ts';
import { GatewayAddresses, type Listening } from './wiring/addresses.ts';
import { createHttp, httpMetrics, listenHttp } from './wiring/http.ts';
import { openMail } from './wiring/mail.ts';
import { processMetrics } from './wiring/process-metrics.ts';
import { type Running, stopAll } from './wiring/running.ts';

/** A running gateway. */
export interface Gateway {
  /** Every listener that is up, SMTP and HTTP. */
  readonly listening: readonly Listening[];
  /**
   * Stops accepting, lets DATA in flight finish, commits and records, closes (D97). Resolves within the drain time
   * and a second.
   */
  stop(): Promise<void>;
}

/** What the gateway is made from. */
export interface GatewayParts {
  readonly config: Config;
  readonly keys: Keys;
  /** Tokens of the configuration and the environment, as hashes. */
  readonly tokens: readonly TokenHash[];
  readonly globalKeys?: readonly GlobalKeyHash[];
  /** The database of all tables but the spool's, which has connections of its own. The gateway closes it. */
  readonly database: Database;
  readonly log: Logger;
  /** Log lines lost since the start; none if absent. */
  readonly droppedLogLines?: () => number;
  readonly clock?: Clock;
}

/** What a failed start has begun may take so long to end. */
const failedStartDrainMs = 3000;

/**
 * Opens everything and listens. When a part fails, what was opened before it is closed again within a few seconds.
 * @throws ConfigurationError where the configuration or a listener is at fault; else what failed
 */
export async function openGateway(parts: GatewayParts): Promise<Gateway> {
  const { log, config } = parts;
  const clock = parts.clock ?? systemClock;
  const running: Running = { isDraining: false, stores: [() => parts.database.close()] };
  try {
    return await openParts({ ...parts, clock }, running);
  } catch (error) {
    const drainMs = Math.min(config.drainSeconds * 1000, failedStartDrainMs);
    await stopAll(running, { drainMs, clock }).catch((err: unknown) => {
      log.error({ err }, 'not everything could be closed after a failed start');
    });
    throw error;
  }
}

async function openParts(parts: GatewayParts & { readonly clock: Clock }, running: Running): Promise<Gateway> {
  const { config, keys, log, database, clock } = parts;
  const { tokens, globalKeys = [] } = parts;
  const store = await openTokenStore(database);
  const accounts = createAccounts({ accounts: config.accounts, tokens, globalKeys, store, clock });
  const guessing = createGuessing();
  const bodies = createBodyBudget(config.limits.bodiesInFlightBytes ?? defaultBodyLimit());
  const metrics = createMetrics();
  const addresses = new GatewayAddresses(config);
  const edge = await openEdge({
    database,
    zones: config.zones,
    accounts: edgeAccounts(config.accounts, config.edgeAccounts),
    settings: config.edge,
    apiHosts: config.http.apiHosts,
    docsBaseUrl: () => addresses.docsBaseUrl(),
    clock,
    log,
    onRequest: (count) => metrics.edgeRequest(count),
  });
  running.edge = edge;
  const shared = { config, keys, accounts, tokens: store, database, bodies, guessing, metrics, clock, log };
  const mail = await openMail(shared, running);
  const proxy = await openProxy({
    database,
    zones: config.zones,
    accounts: proxyAccounts(config.accounts, config.edgeAccounts),
    settings: config.proxy,
    file: config.file,
    tlsFolder: join(config.certsDir, 'tls'),
    ownDoors: () => addresses.ownDoors(),
    drainMs: config.drainSeconds * 1000,
    clock,
    log,
  });
  running.proxy = proxy;
  let isReady = false;
  const http = createHttp({ ...shared, mail, edge, proxy, isServing: () => isReady && !running.isDraining });
  running.http = http;
  metrics.add(mail);
  metrics.add(httpMetrics(http, edge));
  metrics.add(processMetrics({ bodies, guessing, droppedLogLines: parts.droppedLogLines ?? (() => 0) }));
  metrics.add({ families: proxy.metrics });
  // Before anything listens: a configuration that breaks a rule takes no mail first.
  await proxy.seed();
  addresses.addHttp(await listenHttp(http, shared));
  await mail.delivery.start();
  addresses.addMail(await mail.door.listen());
  await proxy.start();
  isReady = true;
  return {
    listening: addresses.listening,
    stop: () => {
      mail.outcomes.release();
      guessing.close();
      return stopAll(running, { drainMs: config.drainSeconds * 1000, clock });
    },
  };
}
