// Proxy applications of a running gateway over what happens to them: origins that die and come back, changes and removal
// with connections open, ports that are taken or privileged, other processes, restarts and crashes.

import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import {
  type EdgeOf,
  eventually,
  type ProxyGateway,
  type ProxyGatewayOptions,
  type ShownApplication,
  startProxyGateway,
  tcpApplication,
} from '../support/proxy-gateway.ts';
import { echoServer, endOf, readOctets, readToEnd, tcpServer } from '../support/proxy-plane.ts';
import { startPythonHttp } from '../support/running-program.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms, runProgram } from './programs.ts';

requirePrograms('curl', 'python3', 'setpriv');

async function start(options: ProxyGatewayOptions = {}): Promise<ProxyGateway> {
  const gateway = await startProxyGateway(options);
  onTestFinished(() => gateway.postern.cleanUp());
  return gateway;
}

let kept: Promise<ProxyGateway> | undefined;
/** The gateway of the tests that need none of their own. */
const shared = (): Promise<ProxyGateway> => (kept ??= startProxyGateway());
afterAll(async () => (await kept)?.postern.cleanUp());

function dial({ address, port }: EdgeOf): Socket {
  const socket = connect({ host: address, port, allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** What an edge port says when it is spoken to: all until it closes, or the code of the error. */
async function hears(edge: EdgeOf, words = ''): Promise<string> {
  const socket = dial(edge);
  socket.end(words);
  return readToEnd(socket).then(
    (heard) => heard.toString(),
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  );
}

async function fetchPage({ address, port }: EdgeOf): Promise<string> {
  const { code, output } = await runProgram('curl', ['-sS', '--max-time', '20', `http://${address}:${port}/page.txt`]);
  return code === 0 ? output : `curl ${code}`;
}

test('an origin that is killed and comes back: connections fail meanwhile, then work, and nobody calls the API', async () => {
  const gateway = await shared();
  const folder = scratchFolder();
  writeFileSync(join(folder, 'page.txt'), 'a page');
  const port = await freePort();
  const origin = await startPythonHttp(folder, port);
  const edge = await gateway.create(tcpApplication('web', 80, port));
  expect(await fetchPage(edge)).toBe('a page');

  await origin.end('SIGKILL');
  // A reset as it connects, sends or receives; an empty answer would be 52.
  expect(await fetchPage(edge)).toMatch(/^curl (?:7|55|56)$/);
  const { counters, events, origins } = await eventually(async () => {
    const traffic = await gateway.traffic(edge.id);
    return traffic.counters.open === 0 && traffic;
  });
  expect(counters).toMatchObject({ connections: 2, failed: 1 });
  expect(events[0]).toMatchObject({
    kind: 'error',
    origin: `127.0.0.1:${port}`,
    reason: `no origin could be reached: 127.0.0.1:${port}: ECONNREFUSED`,
  });
  expect(origins).toMatchObject([{ port, healthy: false, failures: 1 }]);
  expect(await gateway.metric('failed_total', edge.id)).toBe(1);
  expect(await gateway.call<ShownApplication>('GET', `/${edge.id}`)).toMatchObject({ status: { state: 'active' } });

  await startPythonHttp(folder, port);
  expect(await fetchPage(edge)).toBe('a page');
  expect((await gateway.traffic(edge.id)).origins).toMatchObject([{ port, healthy: true, failures: 0 }]);
});

test('with two origins one of them may die: no connection fails', async () => {
  const gateway = await shared();
  const folder = scratchFolder();
  writeFileSync(join(folder, 'page.txt'), 'a page');
  const [one, other] = [await freePort(), await freePort()];
  const dying = await startPythonHttp(folder, one);
  const staying = await startPythonHttp(folder, other);
  const edge = await gateway.create(tcpApplication('pair', 80, one, other));
  const round = () => Promise.all(Array.from({ length: 10 }, () => fetchPage(edge)));
  const whole = Array.from({ length: 10 }, () => 'a page');
  expect(await round()).toEqual(whole);
  for (const origin of [dying, staying]) expect(origin.output()).toContain('"GET /page.txt');

  await dying.end('SIGKILL');
  expect(await round()).toEqual(whole);
  await startPythonHttp(folder, one);
  expect(await round()).toEqual(whole);
  const { counters, origins } = await gateway.traffic(edge.id);
  expect(counters).toMatchObject({ connections: 30, failed: 0 });
  expect(origins).toContainEqual(expect.objectContaining({ port: other, healthy: true }));
});

test('PATCH with 100 connections open: all finish with the origin they have, new ones get the new one; DELETE closes', async () => {
  const gateway = await shared();
  const [before, after] = [await echoServer('one '), await echoServer('two ')];
  const edge = await gateway.create(tcpApplication('busy', 22, before.port));
  const clients = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const client = dial(edge);
      expect((await readOctets(client, 4)).toString()).toBe('one ');
      return client;
    }),
  );
  expect((await gateway.traffic(edge.id)).counters.open).toBe(100);

  const changed = await gateway.call<ShownApplication>('PATCH', `/${edge.id}`, {
    origin_direct: [`tcp://127.0.0.1:${after.port}`],
  });
  expect(changed).toMatchObject({ id: edge.id, status: { state: 'active' } });
  expect(await hears(edge, 'new')).toBe('two new');
  // Every other one ends now, the rest after the application is gone.
  const finish = (some: readonly Socket[]) =>
    Promise.all(
      some.map(async (client, index) => {
        client.end(`end ${index}`);
        return (await readToEnd(client)).toString() === `end ${index}`;
      }),
    );
  expect(await finish(clients.slice(0, 50))).toEqual(Array.from({ length: 50 }, () => true));
  await eventually(async () => (await gateway.metric('connections_open', edge.id)) === 50);

  expect(await gateway.call('DELETE', `/${edge.id}`)).toEqual({ id: edge.id });
  expect(await hears(edge)).toBe('ECONNREFUSED');
  expect(await gateway.metric('connections_open', edge.id)).toBeUndefined();
  expect(await finish(clients.slice(50))).toEqual(Array.from({ length: 50 }, () => true));
});

test.each(['SIGTERM', 'SIGKILL'] as const)(
  'after %s and a new start the same applications listen where they did',
  async (signal) => {
    const gateway = await start();
    const origin = await echoServer('echo ');
    const edges = [
      await gateway.create(tcpApplication('one', 22, origin.port)),
      await gateway.create(tcpApplication('two', 22, origin.port)),
      await gateway.create(tcpApplication('one', 23, origin.port)),
    ];
    const [one, two, sameHost] = edges;
    expect(one?.address).toBe(sameHost?.address);
    expect(one?.address).not.toBe(two?.address);
    const list = (of: ProxyGateway) => of.call<readonly ShownApplication[]>('GET');
    const stored = await list(gateway);
    expect(await gateway.postern.end(signal)).toBe(signal === 'SIGTERM' ? 0 : null);
    for (const edge of edges) expect(await hears(edge)).toBe('ECONNREFUSED');

    const again = await start({ folder: gateway.postern.folder, pool: gateway.pool });
    expect(await list(again)).toEqual(stored);
    for (const edge of edges) expect(await hears(edge, 'again')).toBe('echo again');
  },
);

test('SIGTERM: no new connections, open ones finish, then the process ends with 0', async () => {
  const gateway = await start();
  const origin = await echoServer('echo ');
  const edge = await gateway.create(tcpApplication('drain', 22, origin.port));
  const open = dial(edge);
  expect((await readOctets(open, 5)).toString()).toBe('echo ');

  const ended = gateway.postern.end('SIGTERM');
  await eventually(async () => (await hears(edge)) === 'ECONNREFUSED');
  open.end('still here');
  expect((await readToEnd(open)).toString()).toBe('still here');
  expect(await ended).toBe(0);
  expect(gateway.postern.log()).toContainEqual(
    expect.objectContaining({ msg: 'proxy connection ended', reason: 'the client closed', bytesFromClient: 10 }),
  );
});

test('what another process on the same database changes counts', async () => {
  const gateway = await start();
  const { folder } = gateway.postern;
  const origin = await echoServer('echo ');
  // The same addresses, other ports: both run every application.
  const other = await start({ folder, pool: gateway.pool, portOffset: 21_000 });
  const edge = await gateway.create(tcpApplication('shared', 22, origin.port));
  const there = { ...edge, port: edge.port + 1000 };
  await eventually(async () => (await hears(there, 'x')) === 'echo x');

  await other.call('DELETE', `/${edge.id}`);
  await eventually(async () => (await hears(edge)) === 'ECONNREFUSED');
});

test('a port that another program has is told as such, and taken as soon as it is free', async () => {
  const gateway = await shared();
  const origin = await echoServer('echo ');
  const first = await gateway.create(tcpApplication('host', 22, origin.port));
  const squatter = createServer((socket) => socket.end('another program'));
  squatter.listen(20_023, first.address);
  await once(squatter, 'listening');
  onTestFinished(() => void squatter.close());

  const { id, status } = await gateway.call<ShownApplication>('POST', '', tcpApplication('host', 23, origin.port));
  const reason = `port 23 (bound 20000 higher) on ${first.address}: another program listens there (EADDRINUSE)`;
  expect(status).toEqual({ state: 'failed', reason });
  expect((await gateway.traffic(id)).listening).toEqual([]);
  const edge = { ...first, id, port: 20_023 };
  expect(await hears(edge)).toBe('another program');

  await new Promise((resolve) => squatter.close(resolve));
  await eventually(async () => {
    const shown = await gateway.call<ShownApplication>('GET', `/${id}`);
    return shown.status.state === 'active';
  });
  expect(await hears(edge, 'free')).toBe('echo free');
});

test('a port that the process may not bind is told as such; with the privilege it is bound at the next start', async () => {
  // Root without this one capability: an ordinary user as far as ports are concerned.
  const under = ['setpriv', '--bounding-set=-net_bind_service', '--inh-caps=-net_bind_service'];
  const gateway = await start({ under, portOffset: 0 });
  const origin = await echoServer('echo ');
  const body = tcpApplication('low', 722, origin.port);
  const { id, status } = await gateway.call<ShownApplication>('POST', '', body);
  const firstFree = Number(readFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'latin1'));
  const { listening } = await gateway.traffic(id);
  if (firstFree <= 722) {
    // Here every user may bind every port.
    expect(status).toEqual({ state: 'active', reason: '' });
  } else {
    expect(status.state).toBe('failed');
    expect(status.reason).toMatch(
      /^port 722 on 127\.\d+\.\d+\.\d+ needs a privilege that this process does not have \(EACCES\); grant it CAP_NET_BIND_SERVICE or set proxy\.portOffset$/,
    );
    expect(listening).toEqual([]);
  }
  expect(await gateway.postern.end('SIGTERM')).toBe(0);

  const again = await start({ folder: gateway.postern.folder, pool: gateway.pool, portOffset: 0 });
  const shown = await again.call<ShownApplication>('GET', `/${id}`);
  expect(shown.status).toEqual({ state: 'active', reason: '' });
  const [place = ''] = (await again.traffic(id)).listening;
  const [address = '', port = ''] = place.split(':');
  expect(port).toBe('722');
  expect(await hears({ id, address, port: 722 }, 'low')).toBe('echo low');
});

test('a client that the zone blocks is reset and counted, and no origin hears of it', async () => {
  const gateway = await start({ zone: { block: ['127.0.0.66'], allow: ['127.0.0.0/8'] } });
  const origin = await tcpServer((socket) => socket.end('welcome'));
  const edge = await gateway.create({ ...tcpApplication('walled', 22, origin.port), ip_firewall: true });
  const from = (localAddress: string) => connect({ host: edge.address, port: edge.port, localAddress });
  expect((await readToEnd(from('127.0.0.67'))).toString()).toBe('welcome');
  expect(await endOf(from('127.0.0.66'))).toBe('ECONNRESET');
  const { counters, events } = await eventually(async () => {
    const traffic = await gateway.traffic(edge.id);
    return traffic.counters.refused > 0 && traffic;
  });
  expect(counters).toMatchObject({ connections: 1, refused: 1 });
  expect(events).toContainEqual(expect.objectContaining({ kind: 'refused', reason: 'blocked by the zone' }));
  expect(await gateway.metric('refused_total', edge.id)).toBe(1);
  expect(origin.sockets.length).toBe(1);
});
