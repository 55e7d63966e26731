// Which keys of a configuration only a restart can change, and what differs between two configurations, in words.

import { isDeepStrictEqual } from 'node:util';
import type { Keys } from '../bootstrap.ts';
import type { Config } from '../config.ts';
import type { Settings } from './in-force.ts';

/** Settings that the process uses only at its start, by their key in the file. */
const fixed: Readonly<Record<string, (config: Config) => unknown>> = {
  dataDir: ({ dataDir }) => dataDir,
  certsDir: ({ certsDir }) => certsDir,
  database: ({ database }) => database,
  processes: ({ processes }) => processes,
  spool: ({ spool }) => spool,
  reports: ({ reports }) => reports,
  events: ({ events }) => events,
  journal: ({ journal }) => journal,
  'limits.bodiesInFlightBytes': ({ limits }) => limits.bodiesInFlightBytes,
  'http.listen': ({ http }) => http.listen,
  'http.tlsListen': ({ http }) => http.tlsListen,
  'http.adminListen': ({ http }) => http.adminListen,
  'proxy.limits.accountConnections': ({ proxy }) => proxy.limits.accountConnections,
  'proxy.limits.accountSessions': ({ proxy }) => proxy.limits.accountSessions,
  'proxy.limits.accountListeners': ({ proxy }) => proxy.limits.accountListeners,
};

/** The changes between two configurations that a reload cannot make, one line each. */
export function restartFaults(before: Config, next: Config): string[] {
  return Object.entries(fixed)
    .filter(([, read]) => !isSame(read(before), read(next)))
    .map(([key]) => `${next.file}: ${key} has changed; restart to change ${key}`);
}

/** Whether two values are deeply equal. A value with a secret that cannot be read counts as different. */
export function isSame(one: unknown, other: unknown): boolean {
  try {
    return isDeepStrictEqual(one, other);
  } catch {
    return false;
  }
}

/** Parts of the configuration by their names in messages, in the order in which they are told. */
const parts: Readonly<Record<string, (config: Config) => unknown>> = {
  platform: ({ platform }) => platform,
  'SMTP listeners': ({ smtp }) => [smtp.hostname, smtp.listeners],
  limits: ({ smtp, bounces, rest, http, edge, proxy }) => [
    smtp.limits,
    bounces,
    rest.limits,
    [http.limits, http.adminLimits],
    edge.limits,
    proxy.limits,
  ],
  routes: ({ delivery }) => delivery.routes,
  'staging safety': ({ delivery }) => delivery.safety,
  retries: ({ delivery }) => delivery.retry,
  'TLS reports': ({ tlsReports }) => tlsReports,
  accounts: ({ accounts, edgeAccounts }) => [accounts, edgeAccounts],
  webhooks: ({ webhooks }) => ({
    ...webhooks,
    configured: webhooks.configured.map(({ id, url, kinds }) => ({ id, url, kinds })),
  }),
  zones: ({ zones }) => zones,
  edge: ({ edge }) => ({ ...edge, limits: undefined }),
  proxy: ({ proxy }) => ({ ...proxy, limits: undefined }),
  http: ({ http }) => [http.apiHosts, http.docsBaseUrl, http.metricsToken],
  console: (config) => config.console,
  drainSeconds: ({ drainSeconds }) => drainSeconds,
  'log level': ({ log }) => log.level,
};

function hasSameKeys(before: Keys, next: Keys): boolean {
  const [old, now] = [before, next].map(({ signing, platform }) => [...[...signing.values()].flat(), ...platform]);
  if (old?.length !== now?.length || !before.hmacKey.equals(next.hmacKey)) return false;
  return (now ?? []).every((key, index) => {
    const other = old?.[index];
    return key.domain === other?.domain && key.selector === other.selector && key.key.equals(other.key);
  });
}

/** Names what differs between two settings, in a few words each; empty where nothing does. */
export function changesOf(before: Settings, next: Settings): string[] {
  const changed = Object.entries(parts)
    .filter(([, read]) => !isSame(read(before.config), read(next.config)))
    .map(([words]) => words);
  const certificates = [...next.keys.tls.values()]
    .filter(({ host, certificate }) => before.keys.tls.get(host)?.certificate !== certificate)
    .map(({ host }) => `certificate of ${host}`);
  return [
    ...changed,
    ...(isSame([before.tokens, before.globalKeys], [next.tokens, next.globalKeys]) ? [] : ['tokens']),
    ...(hasSameKeys(before.keys, next.keys) ? [] : ['DKIM keys']),
    ...certificates,
  ];
}
