// TLS of applications (off, flexible, full, strict) and PROXY headers before the first octet.

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect as connectTls, createServer, getCACertificates, setDefaultCACertificates, TLSSocket } from 'node:tls';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { ForwardingPlan } from '../../../src/proxy/application/application.ts';
import { type TestCertificate, testCertificate } from '../../support/certificate.ts';
import {
  dial,
  dialedEnd,
  directTo,
  echoServer,
  endOf,
  loggedOrigins,
  loopbackAddress,
  planOf,
  readOctets,
  readToEnd,
  startPlane,
  tcpServer,
  until,
} from '../../support/proxy-plane.ts';

const id = 'a0'.repeat(16);

let edge: TestCertificate;
let trusted: TestCertificate;
let untrusted: TestCertificate;

beforeAll(async () => {
  edge = await testCertificate(['app.example.com']);
  trusted = await testCertificate(['app.example.com']);
  untrusted = await testCertificate(['app.example.com']);
  // The origins of this file stand for ones with a certificate of a known authority.
  setDefaultCACertificates([...getCACertificates('default'), trusted.cert]);
});

/** An echo server with TLS. */
async function tlsEcho(certificate: TestCertificate) {
  const names: unknown[] = [];
  const server = createServer({ cert: certificate.cert, key: certificate.key, allowHalfOpen: true }, (socket) => {
    names.push(socket.servername);
    socket.on('error', () => undefined);
    socket.pipe(socket);
  });
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { address: '127.0.0.1', port: (server.address() as AddressInfo).port, names };
}

/** A TLS client that trusts the edge's certificate. */
async function dialTls(address: string, certificate = edge): Promise<TLSSocket> {
  const socket = connectTls({
    socket: await dial(address, 22),
    ca: certificate.cert,
    servername: 'app.example.com',
  });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  socket.on('error', () => undefined);
  return socket;
}

const certificate = (): TestCertificate => edge;

test('flexible: TLS with the client, none with the origin, half-close both ways', async () => {
  const address = loopbackAddress();
  const origin = await echoServer('plain:');
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'flexible' })], {
    certificate,
  });
  const client = await dialTls(address);
  expect(client.authorized).toBe(true);
  client.end('x'.repeat(200_000));
  expect((await readToEnd(client)).toString()).toBe(`plain:${'x'.repeat(200_000)}`);
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]).toMatchObject({ reason: 'the client closed', bytesFromClient: 200_000 });
});

test('full: TLS with an origin whose certificate nobody knows', async () => {
  const address = loopbackAddress();
  const origin = await tlsEcho(untrusted);
  await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'full' })], { certificate });
  const client = await dialTls(address);
  client.end('hello');
  expect(String(await readToEnd(client))).toBe('hello');
  expect(origin.names).toEqual(['app.example.com']);
});

test.each(['flexible', 'full'] as const)('%s: 16 MiB of anything go there and come back as they were', async (tls) => {
  const address = loopbackAddress();
  const origin = tls === 'full' ? await tlsEcho(untrusted) : await echoServer();
  await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls })], { certificate });
  const client = await dialTls(address);
  const sent = randomBytes(16 * 1024 * 1024);
  client.end(sent);
  expect((await readToEnd(client)).equals(sent)).toBe(true);
});

test('strict: the origin must have a certificate for its name that is trusted', async () => {
  const address = loopbackAddress();
  const origin = await tlsEcho(trusted);
  await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'strict' })], { certificate });
  const client = await dialTls(address);
  client.end('hello');
  expect(String(await readToEnd(client))).toBe('hello');
});

test.each([
  ['a certificate that nobody knows', () => untrusted, undefined, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ['a certificate for another name', () => trusted, 'origin.example.com', 'ERR_TLS_CERT_ALTNAME_INVALID'],
])('strict: %s is a failure of the origin', async (_what, chosen, name, code) => {
  const address = loopbackAddress();
  const origin = await tlsEcho(chosen());
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'strict' })], {
    certificate,
    createOrigins: (plan) => {
      const inner = loggedOrigins(plan, { failed: [], succeeded: [] });
      return {
        ...inner,
        candidates: async (port) => ({
          origins: (await inner.candidates(port)).origins.map((one) => (name === undefined ? one : { ...one, name })),
        }),
      };
    },
  });
  const client = await dialTls(address);
  await endOf(client);
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)).toMatchObject({
    counters: { failed: 1 },
    events: [{ kind: 'error', reason: `no origin could be reached: 127.0.0.1:${origin.port}: ${code}` }],
  });
  expect(origin.names.length).toBeLessThan(2);
});

test.each(['full', 'strict'] as const)('%s: an origin that speaks no TLS, or nothing, is passed over', async (tls) => {
  const address = loopbackAddress();
  const plain = await tcpServer((socket) => socket.end('220 no TLS here\r\n'));
  const silent = await tcpServer(() => undefined);
  const origin = await tlsEcho(trusted);
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(plain, silent, origin), tls })], {
    certificate,
    limits: { connectTimeoutMs: 1000 },
  });
  const client = await dialTls(address);
  client.end('hello');
  expect(String(await readToEnd(client))).toBe('hello');
  expect(plane.origins.failed.map(({ port }) => port)).toEqual([plain.port, silent.port]);
});

test.each([
  ['octets that are no TLS', 'GET / HTTP/1.1\r\n\r\n', /^no TLS with the client: ERR_SSL_/],
  ['nothing', '', /^no TLS with the client: no handshake within 300 ms$/],
])('a client that sends %s is closed, and never reaches the origin', async (_what, sent, reason) => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'flexible' })], {
    certificate,
    limits: { connectTimeoutMs: 300 },
  });
  const client = await dial(address, 22);
  if (sent) client.write(sent);
  await endOf(client);
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]).toMatchObject({ kind: 'error', reason: expect.stringMatching(reason) });
  expect(plane.traffic(id)?.counters).toMatchObject({ connections: 1, failed: 1 });
  expect(origin.sockets).toHaveLength(0);
});

test('a connection whose origin is still awaited is cut with the others, and that is no failure', async () => {
  const address = loopbackAddress();
  const reached = Promise.withResolvers<void>();
  const silent = await tcpServer(() => reached.resolve());
  const plan = planOf({ addresses: [address], origin: directTo(silent), tls: 'full' });
  const plane = await startPlane([plan], { certificate, drainMs: 20 });
  const client = await dialTls(address);
  await reached.promise;
  await plane.apply({ ...plan, tls: 'strict' });
  expect(await endOf(client)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]).toMatchObject({
    kind: 'disconnect',
    reason: 'the application was changed or removed',
  });
  expect(plane.traffic(id)?.counters.failed).toBe(0);
  expect(plane.origins.failed).toEqual([]);
});

test.each([
  ['closes', (client: Socket) => client.end()],
  ['resets', (client: Socket) => client.resetAndDestroy()],
])('a client that %s during the handshake is forgotten', async (_what, leave) => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'flexible' })], {
    certificate,
    limits: { connectTimeoutMs: 600_000 },
  });
  const client = await dial(address, 22);
  await until(() => plane.traffic(id)?.counters.open === 1);
  leave(client);
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.counters).toMatchObject({ connections: 1, failed: 1 });
  expect(origin.sockets).toHaveLength(0);
});

test.each([
  ['closes its half', 'the client closed', (client: Socket, _raw: Socket) => client.end()],
  ['closes its half after some octets', 'the client closed', (client: Socket) => client.end('hello')],
  ['resets', 'the client', (_client: Socket, raw: Socket) => raw.resetAndDestroy()],
])('a client that %s while the origin is awaited is told to the origin', async (_what, reason, leave) => {
  const address = loopbackAddress();
  const reached = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const origin = await tcpServer((raw) => {
    reached.resolve();
    void go.promise.then(() => {
      const stream = new TLSSocket(raw, { isServer: true, cert: trusted.cert, key: trusted.key });
      stream.on('error', () => undefined);
      stream.pipe(stream);
    });
  });
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'full' })], {
    certificate,
  });
  const raw = await dial(address, 22);
  const client = connectTls({ socket: raw, ca: edge.cert, servername: 'app.example.com' });
  client.on('error', () => undefined);
  await once(client, 'secureConnect');
  await reached.promise;
  leave(client, raw);
  // Long enough for the gateway to have seen it; where it has not, the order is only another one.
  await new Promise((resolve) => setTimeout(resolve, 50));
  go.resolve();
  client.resume();
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]).toMatchObject({ kind: 'disconnect', reason: expect.stringContaining(reason) });
});

test('without a certificate the application is failed until there is one', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  let found: TestCertificate | undefined;
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'flexible' })], {
    certificate: () => found,
    retry: { firstMs: 10, longestMs: 10 },
  });
  expect(plane.status(id)).toEqual({
    state: 'failed',
    reason: 'there is no certificate in certs/tls/app.example.com',
  });
  expect(await dialedEnd(address, 22)).toBe('ECONNREFUSED');
  found = edge;
  await until(() => plane.status(id).state === 'active');
  const client = await dialTls(address);
  client.end('x');
  expect(String(await readToEnd(client))).toBe('x');
});

test('a certificate and key that do not fit are told', async () => {
  let found: TestCertificate = { cert: edge.cert, key: trusted.key };
  const address = loopbackAddress();
  const plan = planOf({ addresses: [address], origin: directTo(await echoServer()), tls: 'flexible' });
  const plane = await startPlane([plan], { certificate: () => found });
  expect(plane.status(id).reason).toMatch(/^the certificate in certs\/tls\/app\.example\.com cannot be used: /);
  found = edge;
  await plane.reconcile();
  expect(plane.status(id).state).toBe('active');
});

test('a renewed certificate is used without a change of any application; one that cannot be used is told once', async () => {
  let found: TestCertificate | undefined = edge;
  let looks = 0;
  const address = loopbackAddress();
  const plan = planOf({ addresses: [address], origin: directTo(await echoServer()), tls: 'flexible' });
  const plane = await startPlane([plan], {
    certificate: () => {
      looks += 1;
      return found;
    },
    renewMs: 5,
  });
  const looked = async (): Promise<void> => {
    const before = looks;
    await until(() => looks > before + 2);
  };
  const told = () => plane.lines.filter(({ msg }) => msg === 'the certificate before is used on');
  await dialTls(address, edge);
  found = trusted;
  await looked();
  await dialTls(address, trusted);
  expect(told()).toEqual([]);
  for (const unusable of [{ cert: edge.cert, key: trusted.key }, undefined]) {
    found = unusable;
    await looked();
    await plane.reconcile();
    expect(plane.status(id).state).toBe('active');
    await dialTls(address, trusted);
  }
  expect(told().map(({ reason }) => String(reason).slice(0, 35))).toEqual([
    'the certificate in certs/tls/app.ex',
    'there is no certificate in certs/tl',
  ]);
});

test('certificates in use are not read for every change', async () => {
  let looks = 0;
  const plan = planOf({ addresses: [loopbackAddress()], tls: 'flexible' });
  const plane = await startPlane([plan], {
    certificate: () => {
      looks += 1;
      return edge;
    },
  });
  await plane.apply(plan, planOf({ id: 'b'.repeat(32), addresses: [loopbackAddress()] }));
  expect(looks).toBe(1);
  await plane.apply();
  await plane.apply(plan);
  expect(looks).toBe(2);
});

test('a reset of the origin reaches a TLS client as a reset, not as a clean end', async () => {
  const address = loopbackAddress();
  const origin = await tcpServer((socket) => socket.once('data', () => socket.resetAndDestroy()));
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'flexible' })], {
    certificate,
  });
  const client = await dialTls(address);
  client.write('x');
  expect(await endOf(client)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]?.reason).toBe('the origin broke off: ECONNRESET');
});

/** An origin with TLS that answers, and then goes as told: with close_notify, or with a bare end of TCP. */
async function tlsOrigin(answer: Buffer, leave: (stream: TLSSocket, raw: Socket) => void) {
  return await tcpServer((raw) => {
    const stream = new TLSSocket(raw, { isServer: true, cert: trusted.cert, key: trusted.key });
    stream.on('error', () => undefined);
    stream.once('data', () => stream.write(answer, () => leave(stream, raw)));
  });
}

const leavings = [
  ['says that it ends', (stream: TLSSocket) => stream.end(), 'end', 'the origin closed'],
  [
    'is cut off',
    (_stream: TLSSocket, raw: Socket) => raw.destroy(),
    'ECONNRESET',
    'the origin broke off: ERR_TLS_NO_CLOSE_NOTIFY',
  ],
] as const;

test.each(leavings)('a TLS origin that %s: the client sees it, having read all', async (_what, leave, end, reason) => {
  const address = loopbackAddress();
  const origin = await tlsOrigin(Buffer.from('half an answer'), leave);
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'full' })], {
    certificate,
  });
  const client = await dialTls(address);
  const answer = readOctets(client, 14);
  const ended = endOf(client);
  client.write('x');
  expect(String(await answer)).toBe('half an answer');
  expect(await ended).toBe(end);
  client.end();
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]?.reason).toBe(reason);
});

test.each(leavings)('a TLS origin that %s while its client does not read', async (_what, leave, _end, reason) => {
  const address = loopbackAddress();
  const answer = randomBytes(24 * 1024 * 1024);
  const origin = await tlsOrigin(answer, leave);
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), tls: 'full' })], {
    certificate,
  });
  const client = await dialTls(address);
  client.pause();
  client.write('x');
  await until(() => (plane.traffic(id)?.counters.bytesFromOrigins ?? 0) > 0);
  client.end();
  const got = await readToEnd(client).catch(() => undefined);
  // The client has closed its half first.
  const isWhole = reason === 'the origin closed';
  if (isWhole) expect(got?.equals(answer)).toBe(true);
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]?.reason).toBe(isWhole ? 'the client closed' : reason);
});

/** Reads a header of version 1 or 2 octet by octet; what follows it must be the client's first octets. */
async function readHeader(socket: Socket, version: 'v1' | 'v2') {
  if (version === 'v1') {
    const text: string[] = [];
    while (!text.at(-1)?.endsWith('\n')) text.push(String(await readOne(socket)));
    const [word, family, from, to, fromPort, toPort, ...more] = text.join('').trimEnd().split(' ');
    expect([word, family, more]).toEqual(['PROXY', 'TCP4', []]);
    return { from, to, fromPort: Number(fromPort), toPort: Number(toPort) };
  }
  const octets: number[] = [];
  while (octets.length < 28) octets.push((await readOne(socket))[0] ?? 0);
  const header = Buffer.from(octets);
  expect(header.subarray(0, 12).toString('latin1')).toBe('\r\n\r\n\0\r\nQUIT\n');
  expect([header[12], header[13], header.readUInt16BE(14)]).toEqual([0x21, 0x11, 12]);
  return {
    from: header.subarray(16, 20).join('.'),
    to: header.subarray(20, 24).join('.'),
    fromPort: header.readUInt16BE(24),
    toPort: header.readUInt16BE(26),
  };
}

async function readOne(socket: Socket): Promise<Buffer> {
  for (;;) {
    const octet: Buffer | null = socket.read(1);
    if (octet) return octet;
    await once(socket, 'readable');
  }
}

test.each([
  ['v1', 'off'],
  ['v2', 'off'],
  ['v1', 'full'],
  ['v2', 'strict'],
  ['v2', 'flexible'],
] as const)('the PROXY header %s is the first thing at the origin with tls %s', async (version, tls) => {
  const address = loopbackAddress();
  const header = Promise.withResolvers<Awaited<ReturnType<typeof readHeader>>>();
  const origin = await tcpServer((raw) => {
    const serve = async (): Promise<void> => {
      header.resolve(await readHeader(raw, version));
      const stream =
        tls === 'full' || tls === 'strict'
          ? new TLSSocket(raw, { isServer: true, cert: trusted.cert, key: trusted.key })
          : raw;
      stream.on('error', () => undefined);
      stream.pipe(stream);
    };
    serve().catch(header.reject);
  });
  const plan: ForwardingPlan = planOf({ addresses: [address], origin: directTo(origin), tls, proxyProtocol: version });
  await startPlane([plan], { certificate });
  const client = tls === 'off' ? await dial(address, 22) : await dialTls(address);
  const echoed = readOctets(client, 5);
  client.write('hello');
  expect(String(await echoed)).toBe('hello');
  expect(await header.promise).toEqual({
    from: '127.0.0.1',
    to: address,
    fromPort: client.localPort,
    toPort: 22,
  });
});
