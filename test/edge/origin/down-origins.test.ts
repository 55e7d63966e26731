// An origin that is known to be down is told from memory for a second, and then tried by one request alone (D66).

import { connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { EdgeCount } from '../../../src/edge/exchange.ts';
import { DownOrigins } from '../../../src/edge/origin/dial-origin.ts';
import { OriginProxy } from '../../../src/edge/origin/origin-proxy.ts';
import { testCertificate } from '../../support/certificate.ts';
import { exampleZone, startEdge } from '../../support/edge-app.ts';
import { always, faultOrigin, type OriginSide } from '../../support/fault-origin.ts';
import { freePort } from '../../support/free-port.ts';
import { logLines } from '../../support/log-lines.ts';
import { manualClock } from '../../support/manual-clock.ts';
import { type FrontOptions, marker, originFront } from '../../support/origin-front.ts';
import { rawAsk } from '../../support/raw-http.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

const get = 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n';
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok';

async function frontOf(options: FrontOptions) {
  const front = await originFront(options);
  open.push(front);
  return front;
}

/**
 * An origin of TLS that never shakes hands: it closes the first connection, and each further one when it is told to. The front's
 * clock stands still until the test moves it.
 */
async function probed() {
  const sides: OriginSide[] = [];
  const held: (() => void)[] = [];
  const waiting: (() => void)[] = [];
  const origin = await faultOrigin(async (side) => {
    sides.push(side);
    if (side.number > 1) {
      waiting.shift()?.();
      await Promise.race([new Promise<void>((resolve) => held.push(resolve)), side.gone()]);
    }
    side.socket.destroy();
  });
  open.push(origin);
  const clock = manualClock();
  const front = await frontOf({ origin: `https://127.0.0.1:${origin.port}`, clock });
  expect(await rawAsk(front.port, get)).toContain(marker(525));
  return {
    origin,
    front,
    clock,
    sides,
    release: () => held.shift()?.(),
    nextConnection: () => new Promise<void>((resolve) => waiting.push(resolve)),
  };
}

test('it is not connected to for a second, and then served again', async () => {
  const port = await freePort();
  const clock = manualClock();
  const { log, lines } = logLines();
  const front = await frontOf({ origin: `http://127.0.0.1:${port}`, clock, log });
  expect(await rawAsk(front.port, get)).toContain(marker(521));
  const origin = await faultOrigin(always(ok), { port });
  open.push(origin);
  clock.pass(0.999);
  expect(await rawAsk(front.port, get)).toContain(marker(521));
  expect([origin.connections(), front.failures, front.fromMemory]).toEqual([0, [521, 521], [false, true]]);
  expect(lines).toMatchObject([{ msg: 'origin failed' }]);
  clock.pass(0.001);
  expect(await rawAsk(front.port, get)).toContain('200 OK');
  expect(await rawAsk(front.port, get)).toContain('200 OK');
  expect(origin.connections()).toBe(2);
});

test('with 0 seconds every request connects', async () => {
  const port = await freePort();
  const front = await frontOf({ origin: `http://127.0.0.1:${port}`, clock: manualClock(), originDownSeconds: 0 });
  expect(await rawAsk(front.port, get)).toContain(marker(521));
  open.push(await faultOrigin(always(ok), { port }));
  expect(await rawAsk(front.port, get)).toContain('200 OK');
});

test('after the second one request tries it, and all others are answered from memory meanwhile', async () => {
  const { origin, front, clock, release, nextConnection } = await probed();
  clock.pass(1);
  const tried = nextConnection();
  const trying = rawAsk(front.port, get);
  await tried;
  const others = await Promise.all(Array.from({ length: 30 }, () => rawAsk(front.port, get)));
  expect(others.every((answer) => answer.includes(marker(525)))).toBe(true);
  expect([origin.connections(), front.fromMemory.filter(Boolean).length]).toEqual([2, 30]);
  release();
  expect(await trying).toContain(marker(525));
  expect(await rawAsk(front.port, get)).toContain(marker(525));
  expect(origin.connections()).toBe(2);
});

test('where the client of that request goes, the next one tries it', async () => {
  const { origin, front, clock, sides, release, nextConnection } = await probed();
  clock.pass(1);
  const tried = nextConnection();
  const client = connect(front.port, '127.0.0.1', () => client.write(get));
  await tried;
  client.resetAndDestroy();
  await sides[1]?.gone();
  const again = nextConnection();
  const trying = rawAsk(front.port, get);
  await again;
  release();
  release();
  expect(await trying).toContain(marker(525));
  expect(origin.connections()).toBe(3);
});

test('a certificate that is refused is remembered, too, and each requested name for itself', async () => {
  const { key, cert } = await testCertificate(['www.example.com']);
  const origin = await faultOrigin(always(ok), { tls: { key, cert } });
  open.push(origin);
  const front = await frontOf({
    origin: `https://localhost:${origin.port}`,
    hostnames: ['example.com', 'www.example.com'],
    ca: cert,
    clock: manualClock(),
  });
  expect(await rawAsk(front.port, get)).toContain(marker(526));
  expect(await rawAsk(front.port, get)).toContain(marker(526));
  expect(front.fromMemory).toEqual([false, true]);
  expect(await rawAsk(front.port, get.replace('Host: ', 'Host: www.'))).toContain('200 OK');
});

test('the line and the count of a request say that its origin was known to be down', async () => {
  const { log, lines } = logLines();
  const settings = {
    maxHeaderBytes: 32_768,
    connectTimeoutSeconds: 5,
    responseTimeoutSeconds: 5,
    afterCloseSeconds: 5,
    originDownSeconds: 1,
    trustedProxies: [],
    limits: { requests: 10, requestsPerZone: 10, requestsPerAddress: 10 },
  };
  const origins = new OriginProxy({ settings, log, clock: manualClock() });
  open.push({ close: () => origins.close(0) });
  const zone = { ...exampleZone, origin: `http://127.0.0.1:${await freePort()}` };
  const counts: EdgeCount[] = [];
  const parts = { zones: [zone], origins, log, onRequest: (count: EdgeCount) => void counts.push(count) };
  const { port } = await startEdge(parts);
  for (const _ of [1, 2]) expect(await rawAsk(port, get)).toContain('HTTP/1.1 521 Origin Down');
  expect(counts.map(({ code, fromMemory }) => [code, fromMemory])).toEqual([
    [521, undefined],
    [521, true],
  ]);
  const ofRequests = lines.filter(({ msg }) => msg === 'edge request');
  expect(ofRequests.map(({ fromMemory }) => fromMemory)).toEqual([undefined, true]);
});

test('the oldest of too many is forgotten, and a fault of this machine is not remembered', () => {
  const down = new DownOrigins({ clock: manualClock(), downMs: 1000, most: 2 });
  const fail = (key: string, code: 500 | 521, of = down): void => {
    const attempt = of.attempt(key);
    if (!('code' in attempt)) attempt.failed({ code, cause: key });
  };
  const never = new DownOrigins({ clock: manualClock(), downMs: 0 });
  fail('a', 521, never);
  expect(never.size).toBe(0);
  fail('ours', 500);
  expect(down.size).toBe(0);
  for (const key of ['a', 'b', 'c']) fail(key, 521);
  expect(down.size).toBe(2);
  expect('code' in down.attempt('a')).toBe(false);
  expect([down.attempt('b'), down.attempt('c')]).toMatchObject([{ cause: 'b' }, { cause: 'c' }]);
});
