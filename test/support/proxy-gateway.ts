// A real Postern process with a zone for proxy applications, driven by its API.

import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { ask, type HttpAnswer } from './http-app.ts';
import { type PosternOptions, type PosternProcess, startPostern, testToken } from './postern-process.ts';
import { testOffset } from './proxy-plane.ts';

const zoneId = '1'.repeat(32);

/** What a test changes. */
export interface ProxyGatewayOptions extends Pick<PosternOptions, 'folder' | 'env' | 'under'> {
  /** Three octets of the pool's addresses; the same ones again for a process on the same folder. */
  readonly pool?: string;
  readonly portOffset?: number;
  /** Goes into the zone example.com. */
  readonly zone?: object;
  /** Goes into the SMTP listener, which takes mail without login from `allowFrom`. */
  readonly listener?: object;
  /** `proxy.originAllow`. */
  readonly originAllow?: readonly string[];
  /** `proxy.limits`. */
  readonly limits?: object;
  /** Zones beside example.com. */
  readonly zones?: readonly object[];
  /** Top-level keys of the configuration that replace those here. */
  readonly more?: object;
}

/** An application as answers show it. */
export interface ShownApplication {
  readonly id: string;
  readonly origin_direct: readonly string[];
  readonly status: { readonly state: string; readonly reason: string };
}

/** What an application has carried, as answers show it. */
export interface ShownTraffic {
  readonly counters: Readonly<
    Record<'open' | 'connections' | 'refused' | 'failed' | 'bytes_from_clients' | 'bytes_from_origins', number>
  >;
  readonly listening: readonly string[];
  readonly origins: readonly { readonly port: number; readonly healthy: boolean; readonly failures: number }[];
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

/** Where an application that carries is reached. */
export interface EdgeOf {
  readonly id: string;
  readonly address: string;
  /** With the offset. */
  readonly port: number;
}

/** The process and its API. */
export interface ProxyGateway {
  readonly postern: PosternProcess;
  /** To start another one on the same addresses. */
  readonly pool: string;
  /** The result of a call below `/proxy/apps` of the zone; fails the test where it is refused. */
  call<T>(method: string, path?: string, body?: object): Promise<T>;
  /** The answer to such a call, whatever it is. */
  ask(method: string, path?: string, body?: object): Promise<HttpAnswer>;
  /** Creates an application and waits for nothing: the answer itself must say that it is active. */
  create(body: Readonly<Record<string, unknown>>): Promise<EdgeOf>;
  traffic(id: string): Promise<ShownTraffic>;
  /** The value of a `postern_proxy_` metric; undefined where there is none. */
  metric(name: string, id: string): Promise<number | undefined>;
  /** Resident memory of the process now, KiB. */
  residentKib(): number;
}

/** Waits until something holds; the test's own time limit ends it. */
export async function eventually<T>(find: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const found = await find();
    if (found !== undefined && found !== false) return found;
    await new Promise((wait) => setTimeout(wait, 50));
  }
}

function configuration(pool: string, options: ProxyGatewayOptions): object {
  const { portOffset = testOffset, zone, zones = [], listener, originAllow, limits, more } = options;
  const scopes = ['email:send', 'proxy:read', 'proxy:edit', 'ip_prefixes:read'];
  return {
    development: { account: 'dev', credential: 'default' },
    drainSeconds: 20,
    http: { listen: '127.0.0.1:0' },
    smtp: {
      listeners: [
        {
          name: 'behind',
          role: 'submission',
          listen: '127.0.0.1:0',
          tls: 'none',
          credential: 'dev/default',
          allowFrom: ['127.0.0.1/32'],
          ...listener,
        },
      ],
    },
    proxy: { ipv4Pool: `${pool}.0/24`, portOffset, ...(originAllow && { originAllow }), ...(limits && { limits }) },
    routes: [{ name: 'default', type: 'capture', folder: 'capture' }],
    accounts: [
      {
        name: 'dev',
        id: 'a1'.repeat(16),
        sendingDomains: [{ name: 'example.com' }],
        credentials: [{ name: 'default', scopes }],
      },
    ],
    zones: [{ name: 'example.com', id: zoneId, account: 'dev', ipv4Quota: 200, ...zone }, ...zones],
    ...more,
  };
}

/** Starts it. The caller ends it by `postern.cleanUp()`. */
export async function startProxyGateway(options: ProxyGatewayOptions = {}): Promise<ProxyGateway> {
  // Nearly all of 127.0.0.0/8 is free: every port of these addresses is the test's own.
  const pool = options.pool ?? `127.${randomInt(100, 250)}.${randomInt(1, 250)}`;
  const { folder, env, under } = options;
  const postern = await startPostern({
    config: configuration(pool, options),
    env: { POSTERN_HTTPS_PORT: '', ...env },
    ...(folder === undefined ? {} : { folder }),
    ...(under === undefined ? {} : { under }),
  });
  const base = `http://127.0.0.1:${postern.ports['http']}`;

  const askApi = (method: string, path = '', body?: object): Promise<HttpAnswer> =>
    ask(`${base}/client/v4/zones/${zoneId}/proxy/apps${path}`, {
      method,
      headers: { Authorization: `Bearer ${testToken}`, ...(body ? { 'Content-Type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  const call = async <T>(method: string, path = '', body?: object): Promise<T> => {
    const { status, text } = await askApi(method, path, body);
    expect([status, text]).toEqual([200, expect.stringContaining('"success":true')]);
    return (JSON.parse(text) as { readonly result: T }).result;
  };
  const traffic = (id: string): Promise<ShownTraffic> => call('GET', `/${id}/traffic`);

  return {
    postern,
    pool,
    call,
    ask: askApi,
    traffic,
    async create(body) {
      const { id, status } = await call<ShownApplication>('POST', '', body);
      expect(status).toMatchObject({ state: 'active', reason: '' });
      const [listening = ''] = (await traffic(id)).listening;
      const [address = '', port = ''] = listening.split(':');
      return { id, address, port: Number.parseInt(port, 10) };
    },
    async metric(name, id) {
      const wanted = `postern_proxy_${name}{application="${id}"} `;
      const { text } = await ask(`${base}/metrics`);
      const line = text.split('\n').find((found) => found.startsWith(wanted));
      return line === undefined ? undefined : Number(line.slice(wanted.length));
    },
    residentKib: () =>
      Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${postern.pid}/status`, 'latin1'))?.[1] ?? Number.NaN),
  };
}

/** The fields of a TCP application with direct origins on loopback. */
export function tcpApplication(name: string, edgePort: number, ...originPorts: readonly number[]) {
  return {
    protocol: `tcp/${edgePort}`,
    dns: { type: 'CNAME', name: `${name}.example.com` },
    origin_direct: originPorts.map((port) => `tcp://127.0.0.1:${port}`),
  };
}
