// WebSocket upgrades and what follows them (D66; RFC 6455, RFC 9110 §7.8).

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { testCertificate } from '../../support/certificate.ts';
import { type FaultOrigin, faultOrigin, type OriginSide } from '../../support/fault-origin.ts';
import { type FrontOptions, frontRay, marker, type OriginFront, originFront } from '../../support/origin-front.ts';
import { rawAsk, rawHttp } from '../../support/raw-http.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

async function pair(
  behave: (origin: OriginSide) => Promise<void> | void,
  options: Partial<FrontOptions> = {},
): Promise<{ readonly origin: FaultOrigin; readonly front: OriginFront }> {
  const origin = await faultOrigin(behave);
  const front = await originFront({ origin: `http://127.0.0.1:${origin.port}`, ...options });
  open.push(origin, front);
  return { origin, front };
}

const ask =
  'GET /chat?x HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n' +
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n';
const switched =
  'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n';

test('two ends of `ws` speak through it: text, megabytes of octets both ways, close codes, pings', async () => {
  const http = createServer();
  const sockets = new WebSocketServer({ server: http, maxPayload: 20_000_000 });
  sockets.on('connection', (socket, request) => {
    socket.send(`${request.url} ${String(request.headers['x-forwarded-for'])} ${request.headers.via}`);
    socket.on('message', (data, binary) => socket.send(data, { binary }));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const front = await originFront({ origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}` });
  open.push(front);
  const client = new WebSocket(`ws://127.0.0.1:${front.port}/chat?x`, {
    headers: { Host: 'example.com' },
    maxPayload: 20_000_000,
  });
  const upgraded = once(client, 'upgrade');
  const [first] = (await once(client, 'message')) as [Buffer];
  expect(String(first)).toBe('/chat?x 127.0.0.1 1.1 postern');
  const [response] = (await upgraded) as [{ headers: Record<string, unknown> }];
  expect(response.headers['ray-id']).toBe(frontRay);
  expect(front.proxy.open()).toBe(1);
  const large = randomBytes(12_000_000);
  client.send(large);
  const [back] = (await once(client, 'message')) as [Buffer];
  expect(back.equals(large)).toBe(true);
  client.ping('are you there');
  const [pong] = (await once(client, 'pong')) as [Buffer];
  expect(String(pong)).toBe('are you there');
  client.close(4001, 'enough');
  const [code, reason] = (await once(client, 'close')) as [number, Buffer];
  expect([code, String(reason)]).toEqual([4001, 'enough']);
  await expect.poll(() => front.proxy.open()).toBe(0);
  sockets.close();
  http.close();
});

test('over TLS to the origin', async () => {
  const certificate = await testCertificate(['example.com']);
  const origin = await faultOrigin(
    async (side) => {
      await side.head();
      await side.send(`${switched}hello`);
      expect((await side.octets(2)).toString()).toBe('hi');
      await side.send('bye');
      side.socket.end();
    },
    { tls: { ...certificate } },
  );
  const front = await originFront({ origin: `https://127.0.0.1:${origin.port}`, ca: certificate.cert });
  open.push(origin, front);
  const client = await rawHttp(front.port);
  client.send(ask);
  await client.until('hello');
  client.send('hi');
  expect(await client.until('bye')).toMatch(/hellobye$/);
  client.socket.end();
});

describe('on bare sockets', () => {
  test('the request and the 101 keep their fields, and octets sent early arrive', async () => {
    const { origin, front } = await pair(async (side) => {
      await side.head();
      await side.send(`${switched}from the origin`);
    });
    const client = await rawHttp(front.port);
    client.send(`${ask}from the client`);
    expect(await client.until('from the origin')).toBe(
      `HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nRay-ID: ${frontRay}\r\n\r\nfrom the origin`,
    );
    await expect.poll(() => origin.received()[0]).toMatch(/from the client$/);
    expect(origin.received()[0]).toBe(
      'GET /chat?x HTTP/1.1\r\nHost: example.com\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n' +
        `Via: 1.1 postern\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: example.com\r\nRay-ID: ${frontRay}\r\n` +
        'Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\nfrom the client',
    );
    client.socket.destroy();
  });

  test('a half that is closed leaves the other open, from either side', async () => {
    const { front } = await pair(async (side) => {
      const head = await side.head();
      await side.send(switched);
      if (head.startsWith('GET /chat')) {
        await side.gone();
        await side.send('after your end');
        side.socket.end();
      } else {
        side.socket.end('my end');
        await side.octets('after your end'.length);
        ended();
      }
    });
    let ended: () => void = () => undefined;
    const heard = new Promise<void>((resolve) => (ended = resolve));
    const first = await rawHttp(front.port);
    first.send(ask);
    await first.until('\r\n\r\n');
    first.socket.end();
    expect((await first.closed()).text).toMatch(/after your end$/);
    const second = await rawHttp(front.port);
    second.send(ask.replace('/chat', '/other'));
    await second.until('my end');
    await once(second.socket, 'end');
    second.send('after your end');
    await heard;
    second.socket.end();
    await expect.poll(() => front.proxy.open()).toBe(0);
  });

  test('a side that breaks takes the other with it', async () => {
    let gone: Promise<void> | undefined;
    const { front } = await pair(async (side) => {
      const head = await side.head();
      await side.send(switched);
      if (head.startsWith('GET /chat')) side.socket.resetAndDestroy();
      else gone = side.gone();
    });
    const first = await rawHttp(front.port);
    first.send(ask);
    await first.closed();
    const second = await rawHttp(front.port);
    second.send(ask.replace('/chat', '/other'));
    await second.until('\r\n\r\n');
    second.socket.resetAndDestroy();
    await expect.poll(() => gone !== undefined).toBe(true);
    await gone;
    await expect.poll(() => front.proxy.open()).toBe(0);
  });

  test('a side that does not read holds the other back', async () => {
    let sent = 0;
    const { front } = await pair(async (side) => {
      await side.head();
      await side.send(switched);
      const piece = Buffer.alloc(65_536, 'x');
      while (sent < 64 * 1024 * 1024) {
        sent += piece.length;
        await side.send(piece);
      }
      side.socket.end();
    });
    const client = await rawHttp(front.port);
    client.send(ask);
    await client.until('\r\n\r\n');
    client.socket.pause();
    let before = -1;
    await expect
      .poll(
        () => {
          const still = sent > 0 && sent === before;
          before = sent;
          return still;
        },
        { interval: 200, timeout: 15_000 },
      )
      .toBe(true);
    expect(sent).toBeLessThan(48 * 1024 * 1024);
    client.socket.resume();
    const { text } = await client.closed();
    expect(text.length - text.indexOf('\r\n\r\n') - 4).toBe(64 * 1024 * 1024);
  });

  test('silence on both sides closes it', async () => {
    const { front } = await pair(
      async (side) => {
        await side.head();
        await side.send(switched);
      },
      { tunnelIdleSeconds: 0.3 },
    );
    const client = await rawHttp(front.port);
    client.send(ask);
    expect((await client.closed()).text).toMatch(/^HTTP\/1\.1 101 /);
    await expect.poll(() => front.proxy.open()).toBe(0);
  });

  test('stopping cuts it', async () => {
    const { front } = await pair(async (side) => {
      await side.head();
      await side.send(switched);
    });
    const client = await rawHttp(front.port);
    client.send(ask);
    await client.until('\r\n\r\n');
    await front.proxy.close(50);
    await client.closed();
    expect(front.proxy.open()).toBe(0);
  });
});

describe('without a 101', () => {
  test.each([
    ['with a length', 'Content-Length: 2\r\n\r\nno', 'Content-Length: 2\r\n', '\r\n\r\nno'],
    [
      'in chunks',
      'Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n',
      'Transfer-Encoding: chunked\r\n',
      '2\r\nno\r\n0\r\n\r\n',
    ],
  ])("the origin's answer is passed on, %s", async (_name, reply, field, body) => {
    const { front } = await pair(async (side) => {
      await side.head();
      await side.send(`HTTP/1.1 403 Not You\r\nX-Why: because\r\n${reply}`);
    });
    const text = await rawAsk(front.port, ask);
    expect(text).toMatch(/^HTTP\/1\.1 403 Not You\r\nX-Why: because\r\n/);
    expect(text).toContain(field);
    expect(text).toContain('Connection: close\r\n');
    expect(text).toContain(`Ray-ID: ${frontRay}\r\n`);
    expect(text.endsWith(body)).toBe(true);
    await expect.poll(() => front.proxy.open()).toBe(0);
  });

  test('a large answer is held back by a client that reads slowly, and is whole', async () => {
    const { front } = await pair(async (side) => {
      await side.head();
      await side.send('HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n');
      await side.send(Buffer.alloc(20_000_000, 'x'));
    });
    const text = await rawAsk(front.port, ask);
    expect(text.length - text.indexOf('\r\n\r\n') - 4).toBe(20_000_000);
  });

  test('failures are those of any request', async () => {
    const cases: readonly (readonly [number, (side: OriginSide) => Promise<void> | void])[] = [
      [520, (side) => void side.socket.end()],
      [520, (side) => side.send('garbage\r\n\r\n')],
      [520, (side) => side.send(switched.replace('websocket', 'h2c'))],
      [520, (side) => side.send(switched.replace(/upgrade: websocket\r\n/, ''))],
      [524, () => undefined],
    ];
    for (const [code, behave] of cases) {
      // Short where it is waited for, and only there.
      const { front } = await pair(behave, code === 524 ? { responseTimeoutSeconds: 0.4 } : {});
      expect(await rawAsk(front.port, ask)).toContain(marker(code));
      expect(front.failures).toEqual([code]);
      await expect.poll(() => front.proxy.open()).toBe(0);
    }
    const front = await originFront({ origin: 'http://origin.invalid' });
    open.push(front);
    expect(await rawAsk(front.port, ask)).toContain(marker(1016));
  });

  test('another protocol than WebSocket is not asked for, and a body is not taken', async () => {
    const { origin, front } = await pair(async (side) => {
      await side.head();
      await side.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    });
    const h2c = ask.replace('Upgrade: WebSocket', 'Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__');
    expect(await rawAsk(front.port, h2c)).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(origin.received()[0]).not.toMatch(/upgrade|h2c|http2/i);
    const post = ask.replace('GET', 'POST').replace('\r\n\r\n', '\r\nContent-Length: 3\r\n\r\nabc');
    expect(await rawAsk(front.port, post)).toMatch(/^HTTP\/1\.1 501 Not Implemented\r\n/);
    expect(origin.connections()).toBe(1);
  });
});
