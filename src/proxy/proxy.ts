// Joins the parts of the proxy applications: store, rules, endpoints, data plane (D80-D89). The gateway knows this file.

import type { Clock } from '../base/clock.ts';
import type { DatabaseSync } from '../base/database.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { V4Plugin } from '../http/app.ts';
import type { MetricFamily } from '../http/metrics.ts';
import type { DataPlane, ForwardingPlan, StoredApplication, Traffic } from './application.ts';
import { applicationEndpoints } from './application-endpoints.ts';
import { createFactSources } from './facts.ts';
import { networkEndpoints } from './network-endpoints.ts';
import { planOf } from './plan.ts';
import { ruleRows } from './rules.ts';
import { seedApplications } from './seed-applications.ts';
import { openApplicationStore } from './sqlite-application-store.ts';
import type { ApplicationStore } from './store.ts';
import type { WriteParts } from './write-application.ts';
import type { ProxyAccount, ProxySettings, ProxyZone } from './zone.ts';

/** What the proxy applications are made from. */
export interface ProxyParts {
  readonly database: DatabaseSync;
  readonly zones: readonly ProxyZone[];
  readonly accounts: readonly ProxyAccount[];
  readonly settings: ProxySettings;
  /** Names the configuration in errors. */
  readonly file: string;
  /** TCP ports that the gateway's own listeners are bound to, and will be. */
  readonly ownPorts: () => readonly number[];
  /** Makes the data plane of these plans. */
  readonly createDataPlane: (plans: () => Promise<readonly ForwardingPlan[]>) => DataPlane;
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

/** D83: the one code with two statuses. */
const sourceFailed = { number: 10_002, status: 503 } as const;

/** How often changes of other processes are looked for: within the second of D94. */
const watchMs = 500;

function traffics(dataPlane: DataPlane): readonly MetricFamily[] {
  const family = (
    kind: MetricFamily['kind'],
    name: string,
    help: string,
    read: (traffic: Traffic) => number,
  ): MetricFamily => ({
    kind,
    name: `postern_proxy_${name}`,
    help,
    label: 'application',
    read: () => [...dataPlane.totals()].map(([id, traffic]) => [id, read(traffic)]),
  });
  return [
    family('gauge', 'connections_open', 'Connections and sessions of an application open now', ({ open }) => open),
    family('counter', 'connections_total', 'Connections and sessions opened', ({ connections }) => connections),
    family('counter', 'refused_total', 'Refused by a firewall list or a limit', ({ refused }) => refused),
    family('counter', 'failed_total', 'Ended because no origin could be reached', ({ failed }) => failed),
    family('counter', 'client_bytes_total', 'Octets from clients', ({ bytesFromClients }) => bytesFromClients),
    family('counter', 'origin_bytes_total', 'Octets from origins', ({ bytesFromOrigins }) => bytesFromOrigins),
  ];
}

/** Reads what is to run: every stored application whose zone is configured, the oldest first. */
function plansOf(parts: Pick<ProxyParts, 'zones' | 'accounts' | 'log'>, store: ApplicationStore) {
  const accountById = new Map(parts.accounts.map((account) => [account.id, account]));
  const zoneById = new Map(parts.zones.map((zone) => [zone.id, zone]));
  const told = new Set<string>();
  const tellOnce = (application: StoredApplication, why: string): void => {
    if (told.has(application.id)) return;
    told.add(application.id);
    parts.log.warn({ application: application.id, zone: application.zone, why }, 'a proxy application cannot run');
  };
  const plan = (application: StoredApplication): readonly ForwardingPlan[] => {
    const zone = zoneById.get(application.zone);
    const account = zone && accountById.get(zone.account);
    if (!zone || !account) {
      tellOnce(application, 'its zone is not in the configuration');
      return [];
    }
    try {
      return [planOf(application, { zone, account })];
    } catch (error) {
      // One that a program of another version has written does not stop the others.
      tellOnce(application, errorMessage(error));
      return [];
    }
  };
  return async (): Promise<readonly ForwardingPlan[]> =>
    (await store.all()).toSorted((one, other) => one.createdAt - other.createdAt).flatMap(plan);
}

/** Tells when the store was changed, by whomever. */
function watch(store: ApplicationStore, onChange: () => Promise<void>, log: Logger): { stop(): void } {
  let seen: number | undefined;
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    try {
      const revision = await store.revision();
      if (seen !== undefined && seen !== revision) await onChange();
      seen = revision;
    } catch (error) {
      // The database may be busy; the next look finds the same change.
      log.warn({ err: error }, 'cannot look for changes of proxy applications');
    } finally {
      isLooking = false;
    }
  };
  void look();
  const timer = setInterval(() => void look(), watchMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

/** Makes them; nothing listens before `start`. */
export function createProxy(parts: ProxyParts): Proxy {
  const { zones, accounts, settings, clock, log } = parts;
  const store = openApplicationStore(parts.database);
  const sources = createFactSources({ zones, accounts, settings, store, ownPorts: parts.ownPorts });
  const dataPlane = parts.createDataPlane(plansOf(parts, store));
  const writing: WriteParts = { store, clock, sources: { ...sources, log } };
  let watching: { stop(): void } | undefined;
  return {
    plugins: [
      applicationEndpoints({
        ...writing,
        zones,
        accounts,
        dataPlane,
        ownPorts: () => parts.ownPorts().map((port) => port - settings.portOffset),
        codes: [...ruleRows.map(({ code, rule }) => ({ number: code, status: rule.status })), sourceFailed],
        log,
      }),
      networkEndpoints({ accounts }),
    ],
    metrics: traffics(dataPlane),
    async seed() {
      for (const application of await seedApplications({ ...writing, zones, accounts, file: parts.file })) {
        log.info({ application }, 'proxy application of the configuration written');
      }
    },
    async start() {
      watching = watch(store, () => dataPlane.reconcile(), log);
      await dataPlane.reconcile();
    },
    async drain(withinMs) {
      watching?.stop();
      await dataPlane.drain(withinMs);
    },
  };
}
