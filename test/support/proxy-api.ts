// The proxy-application API on loopback: zones and accounts of config/examples/every-rule.yaml, the real store, rules and
// data plane. Tokens are `ACCOUNT-CREDENTIAL`.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Account, Credential, Scope } from '../../src/accounts/account.ts';
import { createAccounts } from '../../src/accounts/accounts.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { hashToken } from '../../src/accounts/token-store.ts';
import { loadConfig } from '../../src/app/config/config.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import type { Database } from '../../src/base/database/database.ts';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { type Logger, silentLog } from '../../src/base/log.ts';
import type { OwnDoor } from '../../src/base/net/own-doors.ts';
import { type ProxySettings, proxyAccounts } from '../../src/proxy/application/zone.ts';
import { openProxy, type Proxy, type ProxyParts } from '../../src/proxy/proxy.ts';
import { type ApplicationStore, openApplicationStore } from '../../src/proxy/store/application-store.ts';
import { createMetrics } from '../../src/web/http/metrics.ts';
import { testPatienceMs } from './database-patience.ts';
import { ask, type HttpAnswer, startHttpApp } from './http-app.ts';
import { projectRoot } from './postern-process.ts';

/** The example, read once. */
export const everyRule = loadConfig({
  file: join(projectRoot, 'config/examples/every-rule.yaml'),
  env: {},
  cwd: projectRoot,
});

function zoneId(name: string): string {
  const zone = everyRule.zones.find((zone) => zone.name === name);
  if (!zone) throw new Error(`The example has no zone ${name}`);
  return zone.id;
}

/** Ids of zones of the example. */
export const zoneIds = {
  example: zoneId('example.com'),
  payg: zoneId('payg.example'),
  bare: zoneId('bare.example'),
  other: zoneId('other.example'),
  full: zoneId('full.example'),
  dnsDown: zoneId('dnsdown.example'),
  ipamDown: zoneId('ipamdown.example'),
  fault: zoneId('fault.example'),
  free: 'd2'.repeat(16),
} as const;

const credentials = {
  full: ['proxy:read', 'proxy:edit', 'ip_prefixes:read'],
  editor: ['proxy:read', 'proxy:edit'],
  writer: ['proxy:edit'],
  reader: ['proxy:read'],
  mailer: ['email:send'],
  boss: ['proxy:read', 'proxy:edit', 'ip_prefixes:read', 'admin'],
} as const satisfies Record<string, readonly Scope[]>;

function withCredentials(account: Account): Account {
  const entries = Object.entries(credentials).map(([name, scopes]): [string, Credential] => [
    name,
    { name, scopes: new Set<Scope>(scopes), strip: stripRules(), trustedHop: false },
  ]);
  return { ...account, credentials: new Map(entries) };
}

/** The example's accounts, each with every credential. */
const accounts = everyRule.accounts.map(withCredentials);

/** The example's zones, and one of the account whose plan is free. */
const zones: ProxyParts['zones'] = [
  ...everyRule.zones,
  {
    id: zoneIds.free,
    name: 'free.example',
    account: accounts.find(({ name }) => name === 'free')?.id ?? '',
    hostnames: [],
    ipv4Quota: 10,
    protocols: {},
  },
];

/** What a test changes. */
export interface ProxyApiOptions {
  readonly database?: Database;
  readonly zones?: ProxyParts['zones'];
  /** Ports of the gateway's own listeners, the offset taken away. */
  readonly ownEdgePorts?: readonly number[];
  /** Listeners of the gateway itself. */
  readonly ownDoors?: readonly OwnDoor[];
  /** Over the example's `proxy`. */
  readonly settings?: Partial<ProxySettings>;
  readonly clock?: Clock;
  readonly log?: Logger;
  /** Do not write the applications of the configuration. */
  readonly unseeded?: boolean;
}

/** How a call is made. */
export interface CallOptions {
  /** A token; `dev-full` where absent. */
  readonly as?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A running API. */
export interface ProxyApi {
  readonly base: string;
  readonly proxy: Proxy;
  /** Another view of the same tables, for looking behind the API. */
  readonly store: ApplicationStore;
  /** The port that an edge port is bound at. */
  bound(edgePort: number): number;
  /** Calls `/client/v4/zones/ZONE/proxy` and what follows. */
  call(method: string, zone: string, path: string, options?: CallOptions): Promise<HttpAnswer>;
  /** Calls any path below /client/v4. */
  callPath(method: string, path: string, options?: CallOptions): Promise<HttpAnswer>;
  /** The lines of /metrics that begin so. */
  metric(name: string): Promise<readonly string[]>;
}

/** Addresses and ports that no other test listens on at the same time: nearly all of 127.0.0.0/8 is free. */
function ownSettings(): ProxySettings {
  const [one = 0, two = 0, high = 0, low = 0] = randomBytes(4);
  return {
    ...everyRule.proxy,
    ipv4Pool: `127.${100 + (one % 100)}.${two}.0/24`,
    portOffset: 10_000 + (((high << 8) + low) % 20_000),
  };
}

/** Starts it; it ends with the test. */
export async function startProxyApi(options: ProxyApiOptions = {}): Promise<ProxyApi> {
  const database = options.database ?? (await openDatabase(':memory:', { patienceMs: testPatienceMs }));
  const clock = options.clock ?? systemClock;
  const settings = { ...ownSettings(), ...options.settings };
  const proxy = await openProxy({
    database,
    zones: options.zones ?? zones,
    accounts: proxyAccounts(accounts, everyRule.edgeAccounts),
    settings,
    file: 'every-rule.yaml',
    tlsFolder: join(projectRoot, 'test/no-such-folder'),
    ownDoors: () => [
      ...(options.ownEdgePorts ?? []).map((port) => ({ host: '127.0.0.1', port: port + settings.portOffset })),
      ...(options.ownDoors ?? []),
    ],
    drainMs: 100,
    clock,
    log: options.log ?? silentLog,
  });
  const zoneAccounts = new Map((options.zones ?? zones).map(({ id, account }) => [id, account]));
  const tokens = accounts.flatMap(({ id, name, credentials }) =>
    [...credentials.keys()].map((key) => ({ account: id, credential: key, sha256: hashToken(`${name}-${key}`) })),
  );
  const globalKeys = accounts.map(({ id, name }) => ({
    account: id,
    email: `${name}@example.com`,
    sha256: hashToken(`global-key-of-${name}`),
  }));
  if (options.unseeded !== true) await proxy.seed();
  const metrics = createMetrics();
  metrics.add({ families: proxy.metrics });
  const { base } = await startHttpApp(await proxy.plugins(), {
    accounts: createAccounts({ accounts, tokens, globalKeys, clock }),
    accountOfZone: (zone) => zoneAccounts.get(zone),
    metrics: () => metrics.render(),
  });
  await proxy.start();
  onTestFinished(async () => {
    await proxy.drain(0);
    if (options.database === undefined) await database.close();
  });
  const callPath: ProxyApi['callPath'] = (method, path, { as = 'dev-full', body, headers = {} } = {}) =>
    ask(`${base}/client/v4${path}`, {
      method,
      headers: {
        ...(as === '' ? {} : { Authorization: `Bearer ${as}` }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  return {
    base,
    proxy,
    store: await openApplicationStore(database),
    bound: (edgePort) => edgePort + settings.portOffset,
    call: (method, zone, path, options) => callPath(method, `/zones/${zone}/proxy${path}`, options),
    callPath,
    metric: async (name) =>
      (await (await fetch(`${base}/metrics`)).text()).split('\n').filter((line) => line.startsWith(name)),
  };
}

/** The body of an application of the zone example.com that no rule is against. */
export function sshApplication(more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    protocol: 'tcp/22',
    dns: { type: 'CNAME', name: 'ssh.example.com' },
    origin_direct: ['tcp://127.0.0.1:22'],
    ...more,
  };
}
