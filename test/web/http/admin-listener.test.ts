// The API on a listener of its own: real sockets on all three listeners, and every row of the routing table (D67) asked on
// each of them.

import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { HttpAppParts } from '../../../src/web/http/app.ts';
import { succeed } from '../../../src/web/http/envelope.ts';
import { routeRequest } from '../../../src/web/http/route.ts';
import type { V4Plugin } from '../../../src/web/http/v4-app.ts';
import { get, type RawAnswer, speak, speakTls, startEdge } from '../../support/edge-app.ts';
import fc from '../../support/properties.ts';
import { rawHttp } from '../../support/raw-http.ts';

const things: V4Plugin = (app) => {
  app.get('/accounts/:account_id/things', { config: { scope: 'email:send' } }, async (_request, reply) =>
    succeed(reply, ['thing']),
  );
};
const thingsPath = '/client/v4/accounts/dev/things';

type Limits = { readonly connections: number; readonly connectionsPerAddress: number };

interface Given {
  readonly public?: Limits;
  readonly admin?: Limits;
  readonly https?: boolean;
  readonly metrics?: HttpAppParts['metrics'];
}

async function start(given: Given = {}) {
  const plenty = { connections: 1000, connectionsPerAddress: 1000 };
  const at = await startEdge({
    plugins: [things],
    https: given.https ?? false,
    app: {
      limits: given.public ?? plenty,
      admin: { limits: given.admin ?? plenty },
      ...(given.metrics ? { metrics: given.metrics } : {}),
    },
  });
  const { port: adminPort } = await at.app.listenAdmin({ host: '127.0.0.1', port: 0 });
  return { ...at, adminPort };
}

type Started = Awaited<ReturnType<typeof start>>;

/** What an answer is, in a word or two. */
function kindOf({ status, body, headers }: RawAnswer): string {
  const code = /"error_code":(\d+)/.exec(body)?.[1];
  if (code !== undefined) return `error ${code}`;
  if (status === 200 && body.startsWith('{"method"')) return 'zone';
  if (status === 401 && body.includes('"success":false')) return 'API';
  if (body.includes('<h1><span>Postern')) return 'home';
  if (body.startsWith('{\n  "openapi"')) return 'OpenAPI';
  if (status === 200 && (headers['content-type'] ?? '').startsWith('text/html')) return 'page';
  return `${status} ${body.trim()}`;
}

const json = ['Accept: application/json'];

function ask(at: Started, listener: 'http' | 'https' | 'admin', host: string, target: string): Promise<RawAnswer> {
  const request = get(host, target, json);
  if (listener === 'https') {
    const name = /^[a-z.]+$/.test(host) ? host : '';
    return speakTls(at.tlsPort, request, name);
  }
  return speak(listener === 'http' ? at.port : at.adminPort, request);
}

const zoneHost = 'example.com';
const apiHost = 'localhost';
const ownAddress = '127.0.0.1';
const otherAddress = '192.0.2.1';
const unknownHost = 'nobody.example';
const foreign = [apiHost, ownAddress, otherAddress, unknownHost];

const health = [
  ['/livez', '200 live'],
  ['/readyz', '200 ready'],
] as const;
const ofTheApi = [
  ['/', 'home'],
  ['/metrics', '200 up 1'],
  ['/docs', 'page'],
  ['/openapi.json', 'OpenAPI'],
  ['/errors', 'page'],
  ['/errors/522', 'page'],
  ['/errors/9', '404 Not found'],
  [thingsPath, 'API'],
  ['/client/v4', '404 Not found'],
  ['/x', '404 Not found'],
] as const;

describe('every row of the table', () => {
  test.each(['http', 'https'] as const)('%s serves zones and health alone', { timeout: 30_000 }, async (listener) => {
    const at = await start({ https: true });
    const told: Record<string, string> = {};
    const wanted: Record<string, string> = {};
    for (const [path, answer] of [...health, ...ofTheApi]) {
      for (const host of [zoneHost, ...foreign]) {
        told[`${host} ${path}`] = kindOf(await ask(at, listener, host, path));
        const isHealth = health.some(([one]) => one === path);
        const refused = [ownAddress, otherAddress].includes(host) ? 'error 1003' : 'error 1004';
        wanted[`${host} ${path}`] = host === zoneHost ? 'zone' : isHealth ? answer : refused;
      }
    }
    expect(told).toEqual(wanted);
  });

  test('the admin listener serves the API alone, whatever the Host', async () => {
    const at = await start();
    for (const [path, answer] of [...health, ...ofTheApi]) {
      for (const host of [zoneHost, 'www.example.com', ...foreign]) {
        expect([host, path, kindOf(await ask(at, 'admin', host, path))]).toEqual([host, path, answer]);
      }
    }
    expect(at.origin.seen).toEqual([]);
  });

  test('without it one listener serves both, and there is no admin listener to bind', async () => {
    const at = await startEdge({ plugins: [things] });
    expect(kindOf(await speak(at.port, get(zoneHost, '/metrics')))).toBe('zone');
    expect(kindOf(await speak(at.port, get(unknownHost, '/metrics')))).toBe('200 up 1');
    await expect(at.app.listenAdmin({ host: '127.0.0.1', port: 0 })).rejects.toThrow(/admin/);
  });
});

test('the API is used on the admin listener', async () => {
  const at = await start();
  const answer = await speak(at.adminPort, get(zoneHost, thingsPath, ['Authorization: Bearer dev-default']));
  expect([answer.status, JSON.parse(answer.body)]).toMatchObject([200, { success: true, result: ['thing'] }]);
  const elsewhere = await speak(at.port, get(unknownHost, thingsPath, ['Authorization: Bearer dev-default', ...json]));
  expect(kindOf(elsewhere)).toBe('error 1004');
});

describe('no request comes by a detour to what its listener does not serve', () => {
  test.each([
    ['absolute-form', 'http://localhost/metrics', zoneHost, 'error 1004'],
    ['absolute-form of the zone', 'http://example.com/metrics', apiHost, 'zone'],
    ['absolute-form of an address', 'http://127.0.0.1/', zoneHost, 'error 1003'],
    ['a path that climbs', '/livez/../metrics', apiHost, 'error 1004'],
    ['a path that climbs, encoded', '/livez%2f..%2fmetrics', apiHost, 'error 1004'],
    ['encoded letters', '/%6detrics', apiHost, 'error 1004'],
    ['two slashes', '//metrics', apiHost, 'error 1004'],
    ['a parameter', '/livez;/metrics', apiHost, 'error 1004'],
    ['a slash at the end', '/livez/', apiHost, 'error 1004'],
    ['a query', '/livez?/../metrics', apiHost, '200 live'],
    ['a fragment', '/livez#/metrics', apiHost, '400 Bad request target'],
  ])('public: %s', async (_what, target, host, wanted) => {
    const at = await start();
    expect(kindOf(await speak(at.port, get(host, target, json)))).toBe(wanted);
  });

  test.each([
    ['absolute-form of the zone', 'http://example.com/', apiHost, 'home'],
    ['absolute-form of the zone by https', 'https://example.com/x', apiHost, '404 Not found'],
    ['absolute-form of the API', 'http://localhost/livez', zoneHost, '200 live'],
    ['an error asked for', '/cdn-cgi/error/522', zoneHost, '404 Not found'],
  ])('admin: %s', async (_what, target, host, wanted) => {
    const at = await start();
    expect(kindOf(await speak(at.adminPort, get(host, target, json)))).toBe(wanted);
    expect(at.origin.seen).toEqual([]);
  });

  test('two Hosts, none, or a broken one are 400 on each', async () => {
    const at = await start();
    for (const port of [at.port, at.adminPort]) {
      for (const lines of ['', 'Host: localhost\r\nHost: example.com\r\n', 'Host: a/b\r\n']) {
        const answer = await speak(port, `GET /livez HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`);
        expect(kindOf(answer)).toBe('400 Bad Host header');
      }
    }
  });

  test('a second request of a connection is routed by its own Host', async () => {
    const at = await start();
    const both = `GET /one HTTP/1.1\r\nHost: example.com\r\n\r\n${get(apiHost, '/metrics', json)}`;
    const spoken = await speak(at.port, both);
    expect(spoken.all).toContain('"target":"/one"');
    expect(spoken.all).toContain('"error_code":1004');
    expect(spoken.all).not.toContain('up 1');
    const admin = await speak(at.adminPort, `GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n${get(zoneHost, '/one')}`);
    expect(admin.all).toMatch(/live\n[^]*Not found\n$/);
    expect(at.origin.seen.map(({ target }) => target)).toEqual(['/one']);
  });

  test('the name of the TLS handshake opens nothing', async () => {
    const at = await start({ https: true });
    for (const name of ['localhost', 'nobody.example', '']) {
      const wanted = name === '' ? 'zone' : 'error 1013';
      expect([name, kindOf(await speakTls(at.tlsPort, get(zoneHost, '/metrics', json), name))]).toEqual([name, wanted]);
    }
    for (const path of ['/metrics', '/docs', '/errors/522', thingsPath, '/']) {
      expect(kindOf(await speakTls(at.tlsPort, get(apiHost, path, json), zoneHost))).toBe('error 1013');
      expect(kindOf(await speakTls(at.tlsPort, get(apiHost, path, json), apiHost))).toBe('error 1004');
    }
    // Whoever asks for health may not know the names of the zones.
    expect(kindOf(await speakTls(at.tlsPort, get(apiHost, '/livez'), zoneHost))).toBe('200 live');
  });

  test('a WebSocket to a zone and CONNECT go nowhere from the admin listener', async () => {
    const at = await start();
    const upgrade = ['Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: x'];
    const text = get(zoneHost, '/socket', upgrade).replace('Connection: close', 'Connection: upgrade, close');
    expect(kindOf(await speak(at.adminPort, text))).toBe('404 Not found');
    expect(kindOf(await speak(at.adminPort, get(zoneHost, 'example.com:80', [], 'CONNECT')))).toBe(
      '405 Method not allowed',
    );
    expect(at.origin.seen).toEqual([]);
  });

  test('whatever Host, target and TLS name: each listener answers what it serves and nothing else', () => {
    const hosts = { isZone: (host: string) => host === zoneHost, apiHosts: new Set([apiHost]) };
    const part = fc.constantFrom(
      ...[
        'example.com',
        'localhost',
        'http://',
        '/metrics',
        '/livez',
        '/errors',
        '/client/v4/',
        '/docs',
        '/',
        '?',
        '..',
      ],
      ...['%2f', '127.0.0.1', '[::1]', ':80', '.', 'x'],
    );
    const line = fc.array(part, { maxLength: 4 }).map((parts) => parts.join(''));
    const name = fc.option(fc.constantFrom('example.com', 'localhost'), { nil: undefined });
    const localAddress = () => '127.0.0.1';
    fc.assert(
      fc.property(line, line, name, (host, target, serverName) => {
        const head = { method: 'GET', target, rawHeaders: ['Host', host], serverName, localAddress };
        const zones = routeRequest({ ...head, serves: 'zones' }, hosts);
        if (zones.destination === 'api') expect(['/livez', '/readyz']).toContain(zones.path);
        else expect(['bad', 'zone', 'unknown', 'address', 'misdirected']).toContain(zones.destination);
        const api = routeRequest({ ...head, serverName: undefined, serves: 'api' }, hosts);
        expect(['bad', 'api', 'reference', 'home', 'api-host']).toContain(api.destination);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('connections of its own', () => {
  async function idle(port: number) {
    const peer = await rawHttp(port);
    onTestFinished(() => void peer.socket.destroy());
    return peer;
  }

  test('public listeners full to their limit do not starve it', async () => {
    const at = await start({ public: { connections: 4, connectionsPerAddress: 4 }, https: true });
    const held = [
      ...(await Promise.all([1, 2].map(() => idle(at.port)))),
      await idle(at.tlsPort),
      await idle(at.tlsPort),
    ];
    await expect.poll(() => at.app.open().connections).toBe(4);
    expect((await speak(at.port, get(zoneHost, '/'))).status).toBe(503);
    for (const [path, answer] of health) {
      expect(kindOf(await speak(at.adminPort, get(ownAddress, path)))).toBe(answer);
    }
    expect(at.app.refusedConnections()).toEqual({ all: 0, address: 1, admin_all: 0, admin_address: 0 });
    for (const { socket } of held) socket.destroy();
  });

  test('hundreds of connections to the public listener at once do not either', async () => {
    const at = await start({ public: { connections: 8, connectionsPerAddress: 8 } });
    const flood = Array.from({ length: 300 }, () => {
      const socket = connect(at.port, '127.0.0.1').on('error', () => undefined);
      onTestFinished(() => void socket.destroy());
      return socket;
    });
    expect(kindOf(await speak(at.adminPort, get(ownAddress, '/metrics')))).toBe('200 up 1');
    for (const socket of flood) socket.destroy();
  });

  test('its own limits hold, by number and by address, and leave the public listeners alone', async () => {
    for (const [limits, counted] of [
      [
        { connections: 2, connectionsPerAddress: 10 },
        { admin_all: 1, admin_address: 0 },
      ],
      [
        { connections: 10, connectionsPerAddress: 2 },
        { admin_all: 0, admin_address: 1 },
      ],
    ] as const) {
      const at = await start({ admin: limits });
      const held = await Promise.all([1, 2].map(() => idle(at.adminPort)));
      await expect.poll(() => at.app.adminConnections()).toBe(2);
      expect((await speak(at.adminPort, get(ownAddress, '/livez'))).status).toBe(503);
      expect(kindOf(await speak(at.port, get(zoneHost, '/x')))).toBe('zone');
      expect(at.app.refusedConnections()).toEqual({ all: 0, address: 0, ...counted });
      for (const { socket } of held) socket.destroy();
      await expect.poll(() => at.app.adminConnections()).toBe(0);
    }
  });

  test('it ends with the others: an answer under way is finished, then nobody is taken in', async () => {
    let tell: (() => void) | undefined;
    const waiting = new Promise<void>((resolve) => (tell = resolve));
    const at = await start({
      metrics: async () => {
        await waiting;
        return { contentType: 'text/plain', text: 'late 1\n' };
      },
    });
    const peer = await idle(at.adminPort);
    peer.send(get(ownAddress, '/metrics').replace('Connection: close\r\n', ''));
    await expect.poll(() => at.app.open().answers).toBe(1);
    const ended = at.app.close(20_000);
    await expect(rawHttp(at.adminPort)).rejects.toThrow(/ECONNREFUSED/);
    tell?.();
    await ended;
    expect((await peer.closed()).text).toMatch(/\r\nConnection: close\r\n[^]*late 1\n$/i);
  });
});
