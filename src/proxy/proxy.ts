// Joins the parts of the proxy applications: store, rules, endpoints, data plane (D80-D89). The gateway knows this file.

import type { Account } from '../accounts/account.ts';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../base/database/database.ts';
import { openDatabase } from '../base/database/sqlite-database.ts';
import type { Logger } from '../base/log.ts';
import { createCertificateFinder } from '../base/net/find-certificate.ts';
import type { MetricFamily } from '../http/metrics.ts';
import type { DocumentedCode, V4Plugin } from '../http/v4-app.ts';
import { applicationEndpoints } from './api/application-endpoints.ts';
import { networkEndpoints } from './api/network-endpoints.ts';
import { seedApplications } from './api/seed-applications.ts';
import type { WriteParts } from './api/write-application.ts';
import type { OwnDoor } from './application/own-doors.ts';
import type { ProxyAccount, ProxySettings, ProxyZone } from './application/zone.ts';
import { createOrigins } from './origins/origins.ts';
import { createResolver, type ResolverDns } from './origins/resolver.ts';
import { createDataPlane, type DataPlaneParts } from './plane/data-plane.ts';
import { readLimits } from './plane/read-limits.ts';
import { storedPlans } from './plane/stored-plans.ts';
import { budgetMetrics, reportMetrics, trafficMetrics } from './plane/traffic-metrics.ts';
import { createFactSources } from './rules/facts.ts';
import { ruleRows } from './rules/rules.ts';
import { openApplicationStore } from './store/sqlite-application-store.ts';
import { watchStore } from './store/watch-store.ts';
import { openUdpListener } from './traffic/udp-listener.ts';

/** What the proxy applications are made from. */
export interface ProxyParts {
  readonly database: Database;
  readonly zones: readonly ProxyZone[];
  readonly accounts: readonly ProxyAccount[];
  readonly settings: ProxySettings;
  /** Names the configuration in errors. */
  readonly file: string;
  /** The folder of the certificates' folders, each with `fullchain.pem` and `privkey.pem`. */
  readonly tlsFolder: string;
  /** What the gateway's own listeners are bound to, or will be. */
  readonly ownDoors: () => readonly OwnDoor[];
  /** How long open connections go on after a change or removal, milliseconds. */
  readonly drainMs: number;
  /** Which servers resolve the names of origins; absent: the system's. */
  readonly dns?: ResolverDns;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The proxy applications of all zones. */
export interface Proxy {
  readonly plugins: readonly V4Plugin[];
  readonly metrics: readonly MetricFamily[];
  /**
   * Writes the applications of the configuration (D99).
   * @throws ConfigurationError where one breaks a rule
   */
  seed(): Promise<void>;
  /** Opens the listeners and follows changes from now on, those of other processes too (D94). */
  start(): Promise<void>;
  /** Takes no new connections and lets open ones finish; what is left after so many milliseconds is cut. */
  drain(withinMs: number): Promise<void>;
}

/** Joins what mail and proxy each read of an account. */
export function proxyAccounts(
  accounts: readonly Pick<Account, 'id' | 'name' | 'plan'>[],
  slices: readonly (Pick<ProxyAccount, 'id'> & Partial<ProxyAccount>)[],
): readonly ProxyAccount[] {
  const sliceById = new Map(slices.map((slice) => [slice.id, slice]));
  return accounts.map(({ id, name, plan }) => {
    const { entitlements = [], prefixes = [], virtualNetworks = [] } = sliceById.get(id) ?? {};
    return { id, name, plan, entitlements, prefixes, virtualNetworks };
  });
}

function dataPlaneParts(parts: ProxyParts, plans: DataPlaneParts['plans']): DataPlaneParts {
  const { settings, zones, dns, clock, log, ownDoors, drainMs } = parts;
  const resolve = createResolver({ zones, ...(dns ? { dns } : {}) });
  return {
    plans,
    portOffset: settings.portOffset,
    originDeny: settings.originDeny,
    originAllow: settings.originAllow,
    certificate: createCertificateFinder(parts.tlsFolder),
    openUdp: openUdpListener,
    createOrigins: (plan) => createOrigins(plan, { resolve, clock }),
    ownDoors,
    drainMs,
    ...readLimits(settings.limits),
    clock,
    log,
  };
}

function documentedRule({ code, rule }: (typeof ruleRows)[number]): DocumentedCode {
  const { name, status, when, resolution } = rule;
  return { number: code, status, described: { title: name, when, remedy: resolution } };
}

/** D83: the one code with two statuses. */
const sourceFailed = { number: 10_002, status: 503 } as const;

/**
 * Judges the applications of a configuration without a store of its own, as a first start would.
 * @throws ConfigurationError where one breaks a rule
 */
export async function checkConfiguredApplications(
  parts: Pick<ProxyParts, 'zones' | 'accounts' | 'settings' | 'file' | 'ownDoors' | 'clock' | 'log'>,
): Promise<void> {
  const database = await openDatabase(':memory:');
  try {
    const store = await openApplicationStore(database);
    await seedApplications({ ...parts, store, sources: { ...createFactSources({ ...parts, store }), log: parts.log } });
  } finally {
    await database.close();
  }
}

/** Opens their store and makes them; nothing listens before `start`. */
export async function openProxy(parts: ProxyParts): Promise<Proxy> {
  const { zones, accounts, settings, clock, log, ownDoors } = parts;
  const store = await openApplicationStore(parts.database);
  const sources = createFactSources({ zones, accounts, settings, store, ownDoors });
  const dataPlane = createDataPlane(dataPlaneParts(parts, storedPlans({ zones, accounts, store, log })));
  const writing: WriteParts = { store, clock, sources: { ...sources, log } };
  let watching: ReturnType<typeof watchStore> | undefined;
  return {
    plugins: [
      applicationEndpoints({
        ...writing,
        zones,
        accounts,
        dataPlane,
        ownPorts: () => ownDoors().map(({ port }) => port - settings.portOffset),
        codes: [...ruleRows.map(documentedRule), sourceFailed],
        log,
      }),
      networkEndpoints({ accounts }),
    ],
    metrics: [...trafficMetrics(dataPlane), ...reportMetrics(dataPlane), ...budgetMetrics(dataPlane)],
    async seed() {
      for (const application of await seedApplications({ ...writing, zones, accounts, file: parts.file })) {
        log.info({ application }, 'proxy application of the configuration written');
      }
    },
    async start() {
      watching = watchStore(store, () => dataPlane.reconcile(), log);
      await dataPlane.reconcile();
    },
    async drain(withinMs) {
      watching?.stop();
      await dataPlane.drain(withinMs);
    },
  };
}
