// Joins the parts of the proxy applications: store, rules, endpoints, data plane (D80-D89). The gateway knows this file.

import type { Clock } from '../base/clock.ts';
import type { Database } from '../base/database/database.ts';
import { followChanges } from '../base/database/follow-changes.ts';
import { openDatabase } from '../base/database/sqlite-database.ts';
import type { Logger } from '../base/log.ts';
import { createCertificateFinder } from '../base/net/find-certificate.ts';
import type { OwnDoor } from '../base/net/own-doors.ts';
import type { DocumentedCode, V4Plugin } from '../web/http/v4-app.ts';
import type { ProxyOwners, ProxySettings } from './application/zone.ts';
import { createResolver, type Resolver, type ResolverDns } from './origins/dns-cache.ts';
import { createOrigins } from './origins/origins.ts';
import {
  type ApplicationViewsParts,
  budgetMetrics,
  createApplicationViews,
  reportMetrics,
  type SeeApplications,
  trafficMetrics,
} from './plane/application-views.ts';
import { DataPlane } from './plane/data-plane.ts';
import { type DataPlaneParts, readLimits } from './plane/data-plane-parts.ts';
import { storedPlans } from './plane/stored-plans.ts';
import { createFactSources } from './rules/facts.ts';
import { seedApplications } from './rules/judge-write.ts';
import { ruleRows } from './rules/rules.ts';
import { type ApplicationStore, openApplicationStore } from './store/application-store.ts';

/** What of the configuration the proxy applications are made from; another can take its place while they run. */
export interface ProxyConfigured extends ProxyOwners {
  readonly settings: ProxySettings;
  /** Names the configuration in errors. */
  readonly file: string;
  /** How long open connections go on after a change or removal, milliseconds. */
  readonly drainMs: number;
}

/** What the proxy applications are made from. */
export interface ProxyParts extends ProxyConfigured {
  readonly database: Database;
  /** The folder of the certificates' folders, each with `fullchain.pem` and `privkey.pem`. */
  readonly tlsFolder: string;
  /** What the gateway's own listeners are bound to, or will be. */
  readonly ownDoors: () => readonly OwnDoor[];
  /** Which servers resolve the names of origins; absent: the system's. */
  readonly dns?: ResolverDns;
  /** Asks the process that carries the applications how they are; absent where this one does in any case. */
  readonly askCarrier?: ApplicationViewsParts['askCarrier'];
  readonly clock: Clock;
  readonly log: Logger;
}

/** The proxy applications of all zones. */
export type Proxy = Awaited<ReturnType<typeof openProxy>>;

/** A change of the configuration that is ready. */
export type ProxyChange = ReturnType<Proxy['prepare']>;

type Configured = ReturnType<typeof configure>;

function configure(parts: ProxyParts, given: ProxyConfigured, store: ApplicationStore) {
  const { clock, log, dns, ownDoors } = parts;
  const { zones, accounts, settings } = given;
  const sources = createFactSources({ zones, settings, store, ownDoors });
  return {
    ...given,
    plans: storedPlans({ zones, accounts, store, servedAddresses: settings.servedAddresses, log }),
    resolver: createResolver({ zones, ...(dns ? { dns } : {}) }),
    limits: readLimits(settings.limits),
    writing: { store, clock, sources: { ...sources, log } },
  };
}

function dataPlaneParts(parts: ProxyParts, now: () => Configured): DataPlaneParts {
  const { accountBounds, maxListenersPerAccount } = now().limits;
  // Origins may outlast a change of the zones, so they share one resolver.
  const resolve: Resolver = {
    addresses: (name, type) => now().resolver.addresses(name, type),
    services: (name) => now().resolver.services(name),
  };
  return {
    plans: () => now().plans(),
    now,
    limitsOf: (plan) => now().limits.limitsOf(plan),
    accountBounds,
    maxListenersPerAccount,
    certificate: createCertificateFinder(parts.tlsFolder),
    createOrigins: (plan) => createOrigins(plan, { resolve, clock: parts.clock }),
    ownDoors: parts.ownDoors,
    clock: parts.clock,
    log: parts.log,
  };
}

const codes: readonly DocumentedCode[] = [
  ...ruleRows.map(({ code, rule: { name, status, when, resolution } }) => ({
    number: code,
    status,
    described: { title: name, when, remedy: resolution },
  })),
  // D83: the one code with two statuses.
  { number: 10_002, status: 503 },
];

/** Judges the applications of a configuration as a first start would. @throws ConfigurationError where one breaks a rule */
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

async function pluginsOf(
  parts: ProxyParts,
  configured: Configured,
  see: SeeApplications,
): Promise<readonly V4Plugin[]> {
  const { applicationEndpoints, trafficEndpoint } = await import('./api/application-endpoints.ts');
  const { networkEndpoints } = await import('./api/network-endpoints.ts');
  const { zones, accounts, settings, writing } = configured;
  return [
    applicationEndpoints({
      ...writing,
      zones,
      accounts,
      see,
      ownPorts: () => parts.ownDoors().map(({ port }) => port - settings.portOffset),
      codes,
      log: parts.log,
    }),
    networkEndpoints({ accounts }),
    trafficEndpoint({ zones, store: writing.store, see }),
  ];
}

async function seed({ zones, accounts, file, writing }: Configured, log: Logger): Promise<void> {
  for (const application of await seedApplications({ ...writing, zones, accounts, file })) {
    log.info({ application }, 'proxy application of the configuration written');
  }
}

/** Makes a look at the store, which calls `onChange` where it was changed since the look before, by whomever (D94). */
function lookAt(store: ApplicationStore, onChange: () => Promise<void>, log: Logger): () => Promise<void> {
  let seen: number | undefined;
  return async () => {
    try {
      const revision = await store.revision();
      if (seen !== undefined && seen !== revision) await onChange();
      seen = revision;
    } catch (error) {
      // The database may be busy; the next look finds the same change.
      log.warn({ err: error }, 'cannot look for changes of proxy applications');
    }
  };
}

/** Opens the store of the proxy applications and makes their parts; nothing listens before `start`. */
export async function openProxy(parts: ProxyParts) {
  const { log } = parts;
  const store = await openApplicationStore(parts.database);
  let current = configure(parts, parts, store);
  const dataPlane = new DataPlane(dataPlaneParts(parts, () => current));
  let stopFollowing: (() => Promise<void>) | undefined;
  const { askCarrier } = parts;
  const { tell, see } = createApplicationViews({ dataPlane, isCarrier: () => stopFollowing !== undefined, askCarrier });
  return {
    plugins: () => pluginsOf(parts, current, see),
    metrics: [...trafficMetrics(dataPlane), ...reportMetrics(dataPlane), ...budgetMetrics(dataPlane)],
    /** Writes the applications of the configuration (D99). @throws ConfigurationError where one breaks a rule */
    seed: () => seed(current, log),
    /** Gets ready for another configuration, without changing anything. */
    prepare(given: ProxyConfigured) {
      const next = configure(parts, given, store);
      return {
        plugins: () => pluginsOf(parts, next, see),
        seed: () => seed(next, log),
        /** Takes the configuration at once. Resolves when the listeners are those of it; what did not change keeps its connections. */
        commit: (): Promise<void> => {
          current = next;
          if (!stopFollowing) return Promise.resolve();
          dataPlane.renewCertificates();
          return dataPlane.reconcile();
        },
      };
    },
    /** Opens the listeners and follows changes from now on, those of other processes too (D94). */
    async start() {
      const look = lookAt(store, () => dataPlane.reconcile(), log);
      // At once, so that a drain that comes meanwhile ends it.
      stopFollowing = followChanges(parts.database.changes, 'proxy_revision', look);
      // Before the applications are read, so that no change after that is missed.
      await look();
      await dataPlane.reconcile();
    },
    /** Tells another process how the applications are that this one carries. */
    tell,
    /** Takes no new connections and lets open ones finish; what is left after so many milliseconds is cut. */
    async drain(withinMs: number) {
      void stopFollowing?.();
      await dataPlane.drain(withinMs);
    },
  };
}
