// Replaces the settings in force: all that can fail comes first and changes nothing, the rest in one turn of the event loop.

import { isDeepStrictEqual } from 'node:util';
import { createAccounts } from '../../accounts/accounts.ts';
import { ConfigurationError } from '../../base/errors.ts';
import { isRecord } from '../../base/is-record.ts';
import type { HttpApp } from '../../web/http/app.ts';
import type { Keys } from '../bootstrap/bootstrap.ts';
import { dateFault } from '../bootstrap/bootstrap.ts';
import { fileWarnings } from '../bootstrap/check-files.ts';
import type { Config } from '../config/config.ts';
import type { GatewayAddresses } from './addresses.ts';
import type { CertificateWatch } from './certificate-watch.ts';
import { type HttpParts, httpAppParts, httpsCertificates } from './http.ts';
import type { InForce, Settings, Shared } from './in-force.ts';
import type { LiveEdge } from './live/live-edge.ts';
import { type LiveProxy, proxyConfigured } from './live/live-proxy.ts';
import { certificateOf, type Mail } from './mail.ts';
import { checkWebhookSecrets, type Webhooks } from './webhooks.ts';

/** Parts of the configuration by their names in messages, in the order in which they are told. */
const parts = [
  ...(['platform', 'SMTP listeners', 'limits', 'routes', 'destinations', 'staging safety'] as const),
  ...(['retries', 'name servers'] as const),
  ...(['TLS reports', 'accounts', 'webhooks', 'zones', 'edge', 'proxy', 'http', 'console', 'drainSeconds'] as const),
  ...(['log level', 'development'] as const),
] as const;

/** What becomes of a key at a reload: only a restart changes it, the part changes and is told, or something else tells of it. */
type Change = 'restart' | (typeof parts)[number] | 'elsewhere';

/** A change for each key of a section, or for each key of what it holds: a key that stands in no table does not compile. */
type Changes<Section> = {
  readonly [Key in keyof Required<Section>]:
    | Change
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
    // `changesOf` compares them without the secrets, which are read at each use.
    configured: 'elsewhere',
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
  edge: 'edge',
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

interface Changed {
  readonly key: string;
  readonly change: Change;
}

function changedKeys(table: object, values: readonly unknown[], path = ''): readonly Changed[] {
  return Object.entries(table).flatMap(([name, rule]: [string, Change | object]): readonly Changed[] => {
    const key = `${path}${name}`;
    const [before, next] = values.map((value) => (isRecord(value) ? value[name] : undefined));
    if (typeof rule === 'string') return isSame(before, next) ? [] : [{ key, change: rule }];
    return changedKeys(rule, [before, next], `${key}.`);
  });
}

/** The changes between two configurations that a reload cannot make, one line each. */
export function restartFaults(before: Config, next: Config): string[] {
  return changedKeys(changes, [before, next])
    .filter(({ change }) => change === 'restart')
    .map(({ key }) => `${next.file}: ${key} has changed; restart to change ${key}`);
}

/** Whether two values are deeply equal. A value with a secret that cannot be read counts as different. */
function isSame(one: unknown, other: unknown): boolean {
  try {
    return isDeepStrictEqual(one, other);
  } catch {
    return false;
  }
}

function hasSameDkimKeys(before: Keys, next: Keys): boolean {
  const [old, now] = [before, next].map(({ signing, platform }) => [...[...signing.values()].flat(), ...platform]);
  if (old?.length !== now?.length) return false;
  return (now ?? []).every((key, index) => {
    const other = old?.[index];
    return key.domain === other?.domain && key.selector === other.selector && key.key.equals(other.key);
  });
}

/** Names what differs between two settings, in a few words each; empty where nothing does. */
export function changesOf(before: Settings, next: Settings): string[] {
  const found = new Set(changedKeys(changes, [before.config, next.config]).map(({ change }) => change));
  const [old, now] = [before, next].map(({ config: { webhooks } }) =>
    webhooks.configured.map(({ id, url, kinds }) => ({ id, url, kinds })),
  );
  if (!isSame(old, now)) found.add('webhooks');
  const changed = parts.filter((part) => found.has(part));
  const certificates = [...next.keys.tls.values()]
    .filter(({ host, certificate }) => before.keys.tls.get(host)?.certificate !== certificate)
    .map(({ host }) => `certificate of ${host}`);
  return [
    ...changed,
    ...(isSame([before.tokens, before.globalKeys], [next.tokens, next.globalKeys]) ? [] : ['tokens']),
    ...(hasSameDkimKeys(before.keys, next.keys) ? [] : ['DKIM keys']),
    ...(before.keys.hmacKey.equals(next.keys.hmacKey) ? [] : ['HMAC key']),
    ...(isSame(before.pageMarks, next.pageMarks) ? [] : ['Error Pages']),
    ...certificates,
  ];
}

/** The parts that take new settings. */
export interface ChangeParts extends Shared {
  readonly mail: Mail;
  readonly edge: LiveEdge;
  readonly proxy: LiveProxy;
  readonly webhooks: Pick<Webhooks, 'configure'>;
  readonly http: HttpApp;
  /** What HTTP is made from, without what a reload changes. */
  readonly httpParts: Omit<HttpParts, 'settings' | 'edge' | 'proxy'>;
  readonly addresses: GatewayAddresses;
  readonly certificates: CertificateWatch;
  readonly isDraining: () => boolean;
  /** Waits until all processes of the server are ready to change; absent: there is one. @throws ConfigurationError */
  readonly agree?: (() => Promise<void>) | undefined;
}

interface Ready {
  readonly inForce: InForce;
  readonly edge: Awaited<ReturnType<LiveEdge['prepare']>>;
  readonly proxy: Awaited<ReturnType<LiveProxy['prepare']>>;
  readonly answer: () => void;
  /** Undefined where routes and retries have not changed. */
  readonly deliver: (() => void) | undefined;
  readonly door: Awaited<ReturnType<Mail['door']['prepare']>>;
}

/** Makes everything ready for the new settings. @param undo gets a function for each thing opened, which closes it again */
async function prepare(parts: ChangeParts, next: Settings, undo: (() => Promise<void>)[]): Promise<Ready> {
  const { live, mail, http, clock } = parts;
  const { config, keys, tokens, globalKeys } = next;
  checkWebhookSecrets(config);
  const { current } = live;
  const now = clock.now();
  const invalid = [...keys.tls.values()].flatMap((one) => dateFault(one, now, current.keys.tls.get(one.host)) ?? []);
  const faults = restartFaults(current.config, config).concat(invalid);
  if (faults.length > 0) throw new ConfigurationError(faults.join('\n'));
  const accounts = createAccounts({ accounts: config.accounts, tokens, globalKeys, store: parts.tokens, clock });
  if (config.http.tlsListen) httpsCertificates(next);
  const edge = await parts.edge.prepare(config);
  undo.push(() => edge.abort());
  const proxy = await parts.proxy.prepare(proxyConfigured(config));
  const answer = await http.prepare(httpAppParts({ ...parts.httpParts, settings: next, edge, proxy }));
  const isSameDelivery = isSame(current.config.delivery, config.delivery);
  const deliver = isSameDelivery ? undefined : mail.delivery.prepare(config.delivery);
  const tls = (host: string) => certificateOf(keys, host);
  const door = await mail.door.prepare({ settings: config.smtp, accounts, tls });
  undo.push(() => door.abort());
  await proxy.seed();
  if (parts.isDraining()) throw new ConfigurationError('The server is stopping');
  return { inForce: { ...next, accounts }, edge, proxy, answer, deliver, door };
}

/** Puts the settings in force without waiting for anything. @returns resolves when the proxy applications follow them */
function take(parts: ChangeParts, { inForce, edge, proxy, answer, deliver, door }: Ready): Promise<void> {
  const { live, http, addresses, certificates, log } = parts;
  const { config } = inForce;
  const before = live.current;
  live.current = inForce;
  addresses.setMail(door.commit(config.drainSeconds * 1000));
  deliver?.();
  edge.commit();
  answer();
  if (config.http.tlsListen) http.showCertificate(httpsCertificates(inForce));
  certificates.reset();
  if (config.log.level !== before.config.log.level) log.level = config.log.level;
  return proxy.commit();
}

/** The warnings that a start with these settings would give, without those that were given before. */
function warningsOf({ clock }: ChangeParts, before: Settings, next: Settings): string[] {
  const now = clock.now();
  const [old, all] = [before, next].map(({ config, keys }) => [...config.warnings, ...fileWarnings(config, keys, now)]);
  return (all ?? []).filter((line) => !old?.includes(line));
}

/** Puts settings in force. @returns what has changed, in a few words each @throws ConfigurationError or another; nothing has changed then */
export async function changeSettings(parts: ChangeParts, next: Settings): Promise<readonly string[]> {
  const undo: (() => Promise<void>)[] = [];
  let ready: Ready;
  try {
    ready = await prepare(parts, next, undo);
    await parts.agree?.();
  } catch (error) {
    await Promise.all(undo.map((each) => each()));
    throw error;
  }
  const before = parts.live.current;
  const changed = changesOf(before, next);
  await take(parts, ready);
  await parts.webhooks.configure();
  for (const line of warningsOf(parts, before, next)) parts.log.warn(line);
  return changed;
}
