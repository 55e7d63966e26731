// Proxy applications of a running gateway: created by the API, carried by the data plane, there again after a restart.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { ask, type HttpAnswer } from '../support/http-app.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { type PosternProcess, type RunningPostern, startPostern, testToken } from '../support/postern-process.ts';
import { runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';

const running: RunningPostern[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

/** Two octets that no other test has: addresses and ports below 127.0.0.0/8 are for everybody. */
const own = {
  network: `127.${20 + (process.pid % 40)}.${(process.pid >> 6) % 256}`,
  offset: 10_000 + (process.pid % 20_000),
};

const zone = '1'.repeat(32);
const account = 'a1'.repeat(16);

interface Configured {
  readonly applications?: readonly object[];
  readonly originAllow?: readonly string[];
}

function configuration({ originAllow, ...more }: Configured = {}): object {
  return {
    smtp: {
      hostname: 'mx.platform.example',
      listeners: [{ name: 'submission', role: 'submission', listen: '127.0.0.1:0', tls: 'starttls' }],
    },
    http: { listen: '127.0.0.1:0', tlsListen: '' },
    development: { account: 'dev', credential: 'default' },
    drainSeconds: 2,
    proxy: { ipv4Pool: `${own.network}.0/24`, portOffset: own.offset, ...(originAllow ? { originAllow } : {}) },
    accounts: [
      {
        name: 'dev',
        id: account,
        sendingDomains: [{ name: 'example.com' }],
        credentials: [{ name: 'default', scopes: ['email:send', 'proxy:read', 'proxy:edit'] }],
      },
    ],
    zones: [{ name: 'example.com', id: zone, account: 'dev', ...more }],
  };
}

async function start(config: object, folder?: string): Promise<PosternProcess> {
  const postern = await startPostern({ config, ...(folder === undefined ? {} : { folder }) });
  running.push(postern);
  return postern;
}

/** In the test's process, where no other is asked about. */
async function startInside(config: object): Promise<PosternHere> {
  const postern = await startHere({ config });
  running.push(postern);
  return postern;
}

function call(postern: RunningPostern, method: string, path: string, body?: object): Promise<HttpAnswer> {
  return ask(`http://127.0.0.1:${postern.ports['http']}/client/v4/zones/${zone}/proxy${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${testToken}`,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** An origin that answers each connection with its name and what it is sent. */
async function echo(name: string): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.write(`${name}\n`);
    socket.pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Connects, sends a text, and reads until the other side ends. */
async function exchange(host: string, port: number, text: string): Promise<string> {
  const socket = connect(port, host);
  let read = '';
  socket.setEncoding('utf8').on('data', (part: string) => (read += part));
  await once(socket, 'connect');
  socket.end(text);
  await once(socket, 'close');
  return read;
}

const ssh = { protocol: 'tcp/22', dns: { type: 'CNAME', name: 'ssh.example.com' } };
const address = `${own.network}.1`;
const port = 22 + own.offset;

test('an application carries bytes from its answer on, over a change, a restart, until it is removed', async () => {
  const first = await start(configuration());
  const made = await call(first, 'POST', '/apps', { ...ssh, origin_direct: [await echo('one')] });
  expect(made.json.errors).toEqual([]);
  const { id } = made.json.result as { id: string };
  expect(made.json.result).toMatchObject({ status: { state: 'active', reason: '' } });
  expect(await exchange(address, port, 'hello')).toBe('one\nhello');

  const changed = await call(first, 'PATCH', `/apps/${id}`, { origin_direct: [await echo('two')] });
  expect(changed.json.errors).toEqual([]);
  expect(await exchange(address, port, 'hello')).toBe('two\nhello');
  // The client is told the end a moment before the connection is closed and counted.
  await expect
    .poll(async () => (await call(first, 'GET', `/apps/${id}/traffic`)).json.result)
    .toMatchObject({ counters: { open: 0, connections: 2, bytes_from_clients: 10, bytes_from_origins: 18 } });
  const { text: metrics } = await ask(`http://127.0.0.1:${first.ports['http']}/metrics`);
  expect(metrics).toContain(`postern_proxy_client_bytes_total{application="${id}"} 10\n`);
  expect(await first.end('SIGTERM')).toBe(0);
  await expect(exchange(address, port, 'hello')).rejects.toThrow('ECONNREFUSED');

  const second = await start(configuration(), first.folder);
  expect(await exchange(address, port, 'again')).toBe('two\nagain');
  expect((await call(second, 'DELETE', `/apps/${id}`)).json.result).toEqual({ id });
  await expect(exchange(address, port, 'hello')).rejects.toThrow('ECONNREFUSED');
  expect(second.output()).not.toContain(testToken);
}, 60_000);

test('the gateway’s own SMTP listener is an origin only where the configuration says so, its ports are nobody else’s', async () => {
  const strict = await startInside(configuration());
  const behind = (port: number): object => ({
    ...ssh,
    protocol: 'tcp/25',
    origin_direct: [`tcp://127.0.0.1:${port}`],
  });
  const denied = await call(strict, 'POST', '/apps', behind(strict.ports['submission'] ?? 0));
  expect(denied.json.errors.map(({ code }) => code)).toEqual([11002]);
  await strict.stop();
  const postern = await startInside(configuration({ originAllow: ['127.0.0.1/32'] }));
  const smtp = postern.ports['submission'] ?? 0;
  const made = await call(postern, 'POST', '/apps', behind(smtp));
  expect(made.json.errors).toEqual([]);
  const spoken = await exchange(address, 25 + own.offset, 'QUIT\r\n');
  expect(spoken).toMatch(/^220 mx\.platform\.example .*\r\n221 /s);
  for (const taken of [smtp, postern.ports['http'] ?? 0]) {
    const edgePort = taken - own.offset;
    if (edgePort < 1) continue;
    const refused = await call(postern, 'POST', '/apps', {
      ...ssh,
      protocol: `tcp/${edgePort}`,
      origin_direct: ['tcp://127.0.0.1:1'],
    });
    expect(refused.json.errors.map(({ code }) => code)).toEqual([13002]);
  }
}, 60_000);

test('datagrams go to the origin and back', async () => {
  const postern = await startInside(configuration());
  const origin = createSocket('udp4');
  onTestFinished(() => void origin.close());
  origin.on('message', (text, from) => origin.send(`${text.toString()} answered`, from.port, from.address));
  origin.bind(0, '127.0.0.1');
  await once(origin, 'listening');
  const body = { ...ssh, protocol: 'udp/53', origin_direct: [`udp://127.0.0.1:${origin.address().port}`] };
  const made = await call(postern, 'POST', '/apps', body);
  expect(made.json).toMatchObject({ errors: [], result: { status: { state: 'active', reason: '' } } });
  const client = createSocket('udp4');
  onTestFinished(() => void client.close());
  client.send('asked', 53 + own.offset, address);
  const [answer] = (await once(client, 'message')) as [Buffer];
  expect(answer.toString()).toBe('asked answered');
}, 60_000);

test('applications of the configuration run from the start, and a wrong one keeps it from starting', async () => {
  const id = '5'.repeat(32);
  const origin = await echo('configured');
  await startInside(configuration({ applications: [{ id, ...ssh, origin_direct: [origin] }] }));
  expect(await exchange(address, port, '')).toBe('configured\n');

  const dns = { type: 'CNAME', name: 'ssh.elsewhere.example' };
  const wrong = start(configuration({ applications: [{ id, ...ssh, dns, origin_direct: [origin] }] }));
  const told = /zones\[0\]\.applications\[0\]\.dns\.name: 11004 /;
  await expect(wrong).rejects.toThrow(new RegExp(`ended with 78[^]*${told.source}`));
  const file = join(scratchFolder(), 'postern.yaml');
  writeFileSync(file, JSON.stringify(configuration({ applications: [{ id, ...ssh, dns, origin_direct: [origin] }] })));
  const checked = await runHere(['config', 'check', file]);
  expect([checked.exitCode, checked.stdout]).toEqual([78, '']);
  expect(checked.stderr).toMatch(told);
}, 60_000);

test('two processes on one database follow each other’s changes', async () => {
  const first = await start(configuration());
  const second = await start(
    { ...configuration(), proxy: { ipv4Pool: `${own.network}.0/24`, portOffset: own.offset + 1 } },
    first.folder,
  );
  running.splice(0, 2, second, first);
  const results = await Promise.all(
    [first, second, first, second].map(async (postern) =>
      call(postern, 'POST', '/apps', { ...ssh, origin_direct: [await echo('raced')] }),
    ),
  );
  expect(results.map(({ status }) => status).sort((one, other) => one - other)).toEqual([200, 400, 400, 400]);
  for (const offset of [0, 1]) {
    await first.until(() => first.log().some(({ msg }) => msg === 'proxy application is active'));
    await second.until(() => second.log().some(({ msg }) => msg === 'proxy application is active'));
    expect(await exchange(address, port + offset, 'hello')).toBe('raced\nhello');
  }
}, 60_000);
