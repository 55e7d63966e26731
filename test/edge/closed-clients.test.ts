// Clients that have ended their side before the answer (D66): for a while they get it, then their places are free, and sooner
// where somebody else wants one.

import { connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { type EdgeCount } from '../../src/edge/exchange.ts';
import { OriginProxy } from '../../src/edge/origin/origin-proxy.ts';
import { exampleZone, get, speak, startEdge } from '../support/edge-app.ts';

const limits = { requests: 100, requestsPerZone: 100, requestsPerAddress: 100 };

/** An origin that answers a path `/later` when it is told to, `/begun` with a head and no end, all others at once. */
async function startOrigin() {
  const waiting = new Set<Socket>();
  const all = new Set<Socket>();
  const server: Server = createServer((socket) => {
    all.add(socket);
    socket.on('error', () => undefined).on('close', () => waiting.delete(socket));
    socket.on('data', (octets) => {
      const text = octets.toString('latin1');
      if (text.startsWith('GET /later')) waiting.add(socket);
      else if (text.startsWith('GET /begun')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello');
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of all) socket.destroy();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    waiting,
    answer: (head = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate') =>
      waiting.forEach((socket) => socket.write(head)),
  };
}

async function start(afterCloseSeconds: number, given: Partial<typeof limits> = {}, https = false) {
  const origin = await startOrigin();
  const settings = {
    maxHeaderBytes: 32_768,
    connectTimeoutSeconds: 60,
    responseTimeoutSeconds: 60,
    afterCloseSeconds,
    originDownSeconds: 1,
    trustedProxies: ['127.0.0.0/8'],
    limits: { ...limits, ...given },
  };
  const counts: EdgeCount[] = [];
  const zone = { ...exampleZone, origin: origin.url };
  const origins = new OriginProxy({ settings, log: silentLog });
  const parts = { zones: [zone], settings, origins, onRequest: (count: EdgeCount) => void counts.push(count) };
  const edge = await startEdge({ ...parts, https });
  onTestFinished(() => origins.close(0));
  return { ...edge, origin, counts };
}

const from = (address: string): string => `X-Forwarded-For: ${address}`;
const webSocket = ['Upgrade: websocket', 'Connection: Upgrade'];

/** A client that writes and ends its side, at once or when it is told; gives what it is answered until the connection closes. */
function closing(port: number, text: string, { tls = false, after }: { tls?: boolean; after?: Promise<unknown> } = {}) {
  const at = { port, host: '127.0.0.1', allowHalfOpen: true };
  const socket = tls ? connectTls({ ...at, servername: 'example.com', rejectUnauthorized: false }) : connect(at);
  if (after) socket.write(text, 'latin1');
  else socket.end(text, 'latin1');
  void after?.then(() => socket.end());
  let all = '';
  socket.on('data', (octets: Buffer) => (all += octets.toString('latin1'))).on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return new Promise<string>((resolve) => socket.on('close', () => resolve(all)).on('end', () => resolve(all)));
}

describe('the time after the end of its side', () => {
  const plain = get('example.com', '/later');
  const upgrade = `GET /later HTTP/1.1\r\nHost: example.com\r\n${webSocket.join('\r\n')}\r\n\r\n`;

  const each: readonly [string, string, boolean][] = [
    ['a request', plain, false],
    ['a request by HTTPS', plain, true],
    ['a request to upgrade', upgrade, false],
    ['a request to upgrade by HTTPS', upgrade, true],
    ['a request with others behind it', `${plain.replace('Connection: close\r\n', '')}${plain}${plain}`, false],
    ['a request with octets of no request behind it', `${plain}${'x'.repeat(5000)}`, false],
  ];
  test.each([false, true].flatMap((isLater) => each.map(([name, text, tls]) => ({ name, text, tls, isLater }))))(
    '$name gives its place back once it is over, and the origin’s connection too (ends later: $isLater)',
    async ({ text, tls, isLater }) => {
      const { port, tlsPort, front, origin, counts } = await start(0.1, {}, tls);
      const after = isLater ? expect.poll(() => origin.waiting.size).toBe(1) : undefined;
      expect(await closing(tls ? tlsPort : port, text, { tls, ...(after ? { after } : {}) })).toBe('');
      await expect.poll(() => front.open()).toBe(0);
      await expect.poll(() => origin.waiting.size).toBe(0);
      expect(counts).toEqual([{ zone: 'example.com', status: undefined, code: undefined, gone: 'time' }]);
    },
  );

  test('a request that was begun after the end has it too', async () => {
    const { port, front, counts } = await start(0.1);
    const first = get('example.com', '/').replace('Connection: close\r\n', '');
    expect(await closing(port, first + plain)).toMatch(/\r\n\r\nok$/);
    await expect.poll(() => front.open()).toBe(0);
    expect(counts.map(({ status, gone }) => [status, gone])).toEqual([
      [200, undefined],
      [undefined, 'time'],
    ]);
  });

  test('the end behind pieces that come one by one is seen', async () => {
    const { port, front, origin } = await start(0.1);
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => undefined).write(plain);
    await expect.poll(() => origin.waiting.size).toBe(1);
    for (const piece of ['a', 'b', 'c']) {
      socket.write(piece);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    socket.end();
    await expect.poll(() => front.open()).toBe(0);
  });

  test('an answer within it arrives', async () => {
    const { port, origin, counts } = await start(60);
    const answer = closing(port, plain);
    await expect.poll(() => origin.waiting.size).toBe(1);
    origin.answer();
    expect(await answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nlate$/);
    expect(counts).toMatchObject([{ status: 200 }]);
    expect(counts[0]?.gone).toBeUndefined();
  });

  test('an answer that has begun goes on', async () => {
    const { port, front } = await start(0.05);
    const text = closing(port, get('example.com', '/begun'));
    const lasting = await Promise.race([text, new Promise((resolve) => setTimeout(() => resolve('open'), 500))]);
    expect(lasting).toBe('open');
    expect(front.open()).toBe(1);
  });

  test('a client that keeps its side open waits as long as it likes', async () => {
    const { port, origin } = await start(0.05);
    const answer = speak(port, plain);
    await expect.poll(() => origin.waiting.size).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 300));
    origin.answer();
    expect((await answer).body).toBe('late');
  });

  test('an upgrade that is answered within it goes on both ways', async () => {
    const { port, origin } = await start(0.3);
    const socket = connect({ port, host: '127.0.0.1' });
    onTestFinished(() => void socket.destroy());
    let all = '';
    socket.on('data', (octets: Buffer) => (all += octets.toString('latin1')));
    socket.write(upgrade);
    await expect.poll(() => origin.waiting.size).toBe(1);
    socket.write('early');
    origin.answer('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await expect.poll(() => all).toContain('101 Switching');
    const heard: string[] = [];
    for (const end of origin.waiting) end.on('data', (octets) => heard.push(octets.toString('latin1')));
    socket.write('hello');
    await expect.poll(() => heard.join('')).toMatch(/hello$/);
  });
});

describe('at a limit', () => {
  test.each<[string, Partial<typeof limits>, string]>([
    ['of all', { requests: 3 }, '192.0.2.2'],
    ['of a zone', { requestsPerZone: 3 }, '192.0.2.2'],
    ['of an address', { requestsPerAddress: 3 }, '192.0.2.1'],
  ])('%s they give way first', async (_, given, other) => {
    const { port, front, origin, counts } = await start(60, given);
    const gone = [1, 2, 3].map(() => closing(port, get('example.com', '/later', [from('192.0.2.1')])));
    await expect.poll(() => origin.waiting.size).toBe(3);
    expect((await speak(port, get('example.com', '/', [from(other)]))).status).toBe(200);
    await expect.poll(() => origin.waiting.size).toBe(2);
    expect(counts.filter((count) => count.gone === 'room')).toHaveLength(1);
    expect((await speak(port, get('example.com', '/', [from(other)]))).status).toBe(200);
    origin.answer();
    await Promise.all(gone);
    await expect.poll(() => front.open()).toBe(0);
  });

  test('who is still there does not give way', async () => {
    const { port, origin } = await start(60, { requests: 2 });
    const there = [1, 2].map(() => speak(port, get('example.com', '/later')));
    await expect.poll(() => origin.waiting.size).toBe(2);
    expect((await speak(port, get('example.com', '/'))).status).toBe(503);
    origin.answer();
    expect((await Promise.all(there)).map(({ body }) => body)).toEqual(['late', 'late']);
  });

  test('those of another address or zone do not', async () => {
    const { port, origin } = await start(60, { requestsPerAddress: 1 });
    void closing(port, get('example.com', '/later', [from('192.0.2.1')]));
    const there = speak(port, get('example.com', '/later', [from('192.0.2.2')]));
    await expect.poll(() => origin.waiting.size).toBe(2);
    expect((await speak(port, get('example.com', '/', [from('192.0.2.2')]))).status).toBe(503);
    expect(origin.waiting.size).toBe(2);
    origin.answer();
    expect((await there).body).toBe('late');
  });
});
