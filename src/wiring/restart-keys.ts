// Which keys of a configuration only a restart can change, and what differs between two configurations, in words.

import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '../base/is-record.ts';
import type { Keys } from '../bootstrap.ts';
import type { Config } from '../config.ts';
import type { Settings } from './in-force.ts';

/** Parts of the configuration by their names in messages, in the order in which they are told. */
const parts = [
  ...([
    'platform',
    'SMTP listeners',
    'limits',
    'routes',
    'destinations',
    'staging safety',
    'retries',
    'name servers',
  ] as const),
  ...(['TLS reports', 'accounts', 'webhooks', 'zones', 'edge', 'proxy', 'http', 'console', 'drainSeconds'] as const),
  ...(['log level', 'development'] as const),
] as const;

/** What becomes of a key at a reload: only a restart changes it, the part changes and is told, or something else tells of it. */
type Change = 'restart' | (typeof parts)[number] | 'elsewhere';

/** A part that tells of a key, and what of the key counts. */
interface Compared<Value> {
  readonly part: (typeof parts)[number];
  readonly of: (value: Value) => unknown;
}

/** A change for each key of a section, or for each key of what it holds: a key that stands in no table does not compile. */
type Changes<Section> = {
  readonly [Key in keyof Required<Section>]:
    | Change
    | Compared<NonNullable<Section[Key]>>
    | (NonNullable<Section[Key]> extends object ? Changes<NonNullable<Section[Key]>> : never);
};

const changes: Changes<Config> = {
  file: 'elsewhere',
  dataDir: 'restart',
  certsDir: 'restart',
  database: 'restart',
  log: { level: 'log level' },
  drainSeconds: 'drainSeconds',
  processes: 'restart',
  development: 'development',
  platform: 'platform',
  limits: { bodiesInFlightBytes: 'restart' },
  smtp: { hostname: 'SMTP listeners', listeners: 'SMTP listeners', limits: 'limits' },
  bounces: 'limits',
  rest: { limits: 'limits' },
  spool: 'restart',
  reports: 'restart',
  events: 'restart',
  journal: 'restart',
  webhooks: {
    allowHttp: 'webhooks',
    allowNetworks: 'webhooks',
    // Without the secrets, which are read at each use.
    configured: { part: 'webhooks', of: (webhooks) => webhooks.map(({ id, url, kinds }) => ({ id, url, kinds })) },
  },
  tlsReports: 'TLS reports',
  http: {
    listen: 'restart',
    tlsListen: 'restart',
    adminListen: 'restart',
    apiHosts: 'http',
    docsBaseUrl: 'http',
    metricsToken: 'http',
    limits: 'limits',
  },
  console: 'console',
  delivery: {
    hostname: 'SMTP listeners',
    routes: 'routes',
    retry: 'retries',
    safety: 'staging safety',
    resolver: 'name servers',
    connections: 'limits',
    destinations: 'destinations',
  },
  accounts: 'accounts',
  edgeAccounts: 'accounts',
  // `changesOf` compares the tokens themselves; the others are where secrets come from.
  tokens: 'elsewhere',
  routeSecrets: 'elsewhere',
  webhookSecrets: 'elsewhere',
  edge: {
    maxHeaderBytes: 'edge',
    connectTimeoutSeconds: 'edge',
    responseTimeoutSeconds: 'edge',
    afterCloseSeconds: 'edge',
    originDownSeconds: 'edge',
    trustedProxies: 'edge',
    limits: 'limits',
  },
  proxy: {
    ipv4Pool: 'proxy',
    portOffset: 'proxy',
    originDeny: 'proxy',
    originAllow: 'proxy',
    servedAddresses: 'proxy',
    limits: {
      connections: 'limits',
      sessions: 'limits',
      perClient: 'limits',
      connectSeconds: 'limits',
      tcpIdleSeconds: 'limits',
      udpIdleSeconds: 'limits',
      accountConnections: 'restart',
      accountSessions: 'restart',
      accountListeners: 'restart',
      applications: 'limits',
    },
  },
  zones: 'zones',
  warnings: 'elsewhere',
};

/** A key that differs between two configurations. */
interface Changed {
  readonly key: string;
  readonly change: Change;
}

function isCompared(rule: object): rule is Compared<unknown> {
  return 'part' in rule && 'of' in rule;
}

/** The keys that differ, by a table of all of them. */
function changedKeys(table: object, values: readonly unknown[], path = ''): readonly Changed[] {
  return Object.entries(table).flatMap(([name, rule]: [string, Change | object]): readonly Changed[] => {
    const key = `${path}${name}`;
    const [before, next] = values.map((value) => (isRecord(value) ? value[name] : undefined));
    if (typeof rule === 'string') return isSame(before, next) ? [] : [{ key, change: rule }];
    if (!isCompared(rule)) return changedKeys(rule, [before, next], `${key}.`);
    return isSame(rule.of(before), rule.of(next)) ? [] : [{ key, change: rule.part }];
  });
}

/** The changes between two configurations that a reload cannot make, one line each. */
export function restartFaults(before: Config, next: Config): string[] {
  return changedKeys(changes, [before, next])
    .filter(({ change }) => change === 'restart')
    .map(({ key }) => `${next.file}: ${key} has changed; restart to change ${key}`);
}

/** Whether two values are deeply equal. A value with a secret that cannot be read counts as different. */
export function isSame(one: unknown, other: unknown): boolean {
  try {
    return isDeepStrictEqual(one, other);
  } catch {
    return false;
  }
}

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
  const found = new Set(changedKeys(changes, [before.config, next.config]).map(({ change }) => change));
  const changed = parts.filter((part) => found.has(part));
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
