// A reload while requests to origins and connections of proxy applications are open: they go on to their end, and what counts
// them is right.

import { once } from 'node:events';
import { createServer as createHttpServer, get, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { type Reloadable, type ReloadedConfig, startReloadable } from '../support/reloadable.ts';

// Each reload is a process of its own, which starts slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const running: Reloadable[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) await one.postern.cleanUp();
});

async function start(edit: (config: ReloadedConfig) => void): Promise<Reloadable> {
  const one = await startReloadable((config) => {
    config['drainSeconds'] = 2;
    edit(config);
  });
  running.push(one);
  return one;
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** A reset is an end, too: `once` would reject. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => void socket.once('close', () => resolve()));
}

/** Waits until a gauge has a value; the test's own time limit ends it. */
async function untilGauge(one: Reloadable, name: string, value: number): Promise<void> {
  while ((await one.metrics()).get(name) !== value) await new Promise((wait) => setTimeout(wait, 50));
}

test('an answer of an origin that is half sent comes whole, though its zone is taken away meanwhile', async () => {
  const answers: ServerResponse[] = [];
  const sockets = new Set<Socket>();
  const origin = createHttpServer((_request, response) => {
    response.write('first,');
    answers.push(response);
  });
  origin.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  const port = await listening(origin);
  const one = await start((config) => {
    config.zones.push({
      id: '7'.repeat(32),
      name: 'slow.example',
      account: 'dev',
      origin: `http://127.0.0.1:${port}`,
      rateLimit: { requests: 2, perSeconds: 600 },
    });
  });
  const ask = (): Promise<{ status: number; text: () => Promise<string> }> =>
    new Promise((resolve, reject) => {
      const headers = { host: 'slow.example' };
      get({ port: one.postern.ports['http'], host: '127.0.0.1', headers, agent: false }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        const whole = once(answer, 'end').then(() => text);
        resolve({ status: answer.statusCode ?? 0, text: () => whole });
      }).on('error', reject);
    });
  const first = await ask();
  one.change((config) => {
    config.smtp.limits['recipients'] = 500;
  });
  expect((await one.reload()).code).toBe(0);
  const second = await ask();
  await untilGauge(one, 'postern_edge_requests_open', 2);
  await untilGauge(one, 'postern_edge_origin_requests', 2);
  // The zone's limit is the same, and so its count went on.
  expect((await ask()).status).toBe(429);
  one.change((config) => config.zones.pop());
  expect((await one.reload()).code).toBe(0);
  expect((await ask()).status).toBe(409);
  for (const answer of answers) answer.end('last');
  expect([await first.text(), await second.text()]).toEqual(['first,last', 'first,last']);
  await untilGauge(one, 'postern_edge_requests_open', 0);
  await untilGauge(one, 'postern_edge_origin_requests', 0);
  // Nobody would ask over them any more.
  while (sockets.size > 0) await new Promise((wait) => setTimeout(wait, 50));
});

test('a connection of a proxy application stays, another application is added, and its limits change', async () => {
  const echo = createServer((socket) => socket.on('error', () => undefined).pipe(socket));
  const port = await listening(echo);
  const offset = 20_000 + (process.pid % 20_000);
  const pool = `127.${65 + (process.pid % 60)}.${(process.pid >> 6) % 256}.0/24`;
  const application = (id: string, edgePort: number) => ({
    id: id.repeat(32),
    protocol: `tcp/${edgePort}`,
    dns: { type: 'CNAME', name: `app-${id}.example.com` },
    origin_direct: [`tcp://127.0.0.1:${port}`],
  });
  const one = await start((config) => {
    config['proxy'] = { ipv4Pool: pool, portOffset: offset };
    const [zone] = config.zones;
    if (zone) zone['applications'] = [application('e', 101)];
  });
  /** Connects to where an application listens, once the log tells. */
  const dial = async (id: string): Promise<Socket> => {
    const active = await one.postern.until(() =>
      one.postern
        .log()
        .find(({ msg, application: of }) => msg === 'proxy application is active' && of === id.repeat(32)),
    );
    const [host = '', edgePort] = String(active['listening']).split(':');
    return connect(Number(edgePort), host).on('error', () => undefined);
  };
  const say = async (socket: Socket, text: string): Promise<string> => {
    socket.write(text);
    const [piece] = (await once(socket, 'data')) as [Buffer];
    return piece.toString();
  };
  const open = await dial('e');
  expect(await say(open, 'before')).toBe('before');
  one.change((config) => {
    const [zone] = config.zones;
    if (zone) zone['applications'] = [application('e', 101), application('f', 102)];
    config['proxy'] = { ipv4Pool: pool, portOffset: offset, originDeny: ['192.0.2.0/24'], limits: { perClient: 1 } };
  });
  expect(await one.reload()).toMatchObject({ code: 0, output: 'reloaded: limits, zones, proxy\n' });
  expect(await say(open, 'after')).toBe('after');
  const added = await dial('f');
  expect(await say(added, 'new')).toBe('new');
  const oneTooMany = await dial('f');
  await closed(oneTooMany);
  one.change((config) => {
    // Those of the store stay; the file may name none that breaks a rule of the file.
    delete config.zones[0]?.['applications'];
    config['proxy'] = { ipv4Pool: pool, portOffset: offset, originDeny: ['127.0.0.0/8'] };
  });
  expect((await one.reload()).code).toBe(0);
  const denied = await dial('f');
  await closed(denied);
  expect(await say(open, 'still')).toBe('still');
  for (const socket of [open, added]) socket.destroy();
});
