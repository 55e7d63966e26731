// A trusted proxy in front has met a failure of the origin, and Postern tells its client (D66): the request is not sent again.

import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../../src/base/log.ts';
import type { EdgeCount } from '../../../src/edge/exchange.ts';
import type { EdgeParts } from '../../../src/edge/open-edge.ts';
import { OriginProxy } from '../../../src/edge/origin/origin-proxy.ts';
import { readReportedFailure } from '../../../src/edge/zone/judge-request.ts';
import { testCertificate } from '../../support/certificate.ts';
import { exampleZone, startEdge } from '../../support/edge-app.ts';
import { always, type FaultOrigin, faultOrigin, type OriginSide } from '../../support/fault-origin.ts';
import { freePort } from '../../support/free-port.ts';
import { manualClock } from '../../support/manual-clock.ts';
import { rawAsk } from '../../support/raw-http.ts';

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok';

async function edgeOf(
  given: Partial<EdgeParts> & { readonly origin: string; readonly trusted?: readonly string[]; readonly ca?: string },
) {
  const { origin, trusted = ['127.0.0.0/8'], ca, ...parts } = given;
  const clock = manualClock();
  const settings = {
    maxHeaderBytes: 32_768,
    connectTimeoutSeconds: 5,
    responseTimeoutSeconds: 60,
    afterCloseSeconds: 5,
    originDownSeconds: 1,
    trustedProxies: trusted,
    limits: { requests: 10, requestsPerZone: 10, requestsPerAddress: 10 },
  };
  const origins = new OriginProxy({ settings, log: silentLog, clock, ...(ca === undefined ? {} : { ca }) });
  onTestFinished(async () => {
    expect(origins.open()).toBe(0);
    await origins.close(0);
  });
  const edge = await startEdge({ zones: [{ ...exampleZone, origin }], origins, clock, settings, ...parts });
  const ask = (failure: string, more = ''): Promise<string> =>
    rawAsk(
      edge.port,
      `GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\nX-Forwarded-Failure: ${failure}\r\n${more}\r\n`,
    );
  return { ask, clock, port: edge.port, origins };
}

async function originOf(...args: Parameters<typeof faultOrigin>): Promise<FaultOrigin> {
  const origin = await faultOrigin(...args);
  onTestFinished(() => origin.close());
  return origin;
}

test('a code is told, and the origin is not asked', async () => {
  const origin = await originOf(always(ok));
  const { ask } = await edgeOf({ origin: `http://127.0.0.1:${origin.port}` });
  for (const code of [520, 521, 522, 523, 524, 525, 526]) expect(await ask(`${code}`)).toContain(`HTTP/1.1 ${code} `);
  expect(await ask('1016')).toContain('HTTP/1.1 530 ');
  expect(origin.connections()).toBe(0);
});

test('a peer that is not trusted reports nothing, nor does a value that says nothing', async () => {
  const origin = await originOf(always(ok));
  const url = `http://127.0.0.1:${origin.port}`;
  const untrusted = await edgeOf({ origin: url, trusted: ['192.0.2.0/24'] });
  expect(await untrusted.ask('524')).toContain('200 OK');
  const { ask } = await edgeOf({ origin: url });
  for (const value of ['', '200', '1015', 'since=', 'connect now', '521, 522']) {
    expect(await ask(value)).toContain('200 OK');
  }
  expect(await ask('521', 'X-Forwarded-Failure: 522\r\n')).toContain('200 OK');
  // No origin hears of the field.
  expect(origin.received().join('')).not.toMatch(/failure/i);
});

test('what keeps a connection from being made is found out, and remembered', async () => {
  const { key, cert } = await testCertificate(['other.example']);
  const origin = await originOf(always(ok), { tls: { key, cert } });
  const counts: EdgeCount[] = [];
  const { ask } = await edgeOf({
    origin: `https://127.0.0.1:${origin.port}`,
    ca: cert,
    onRequest: (count) => void counts.push(count),
  });
  for (const _ of [1, 2]) expect(await ask('connect')).toContain('HTTP/1.1 526 ');
  expect([origin.received().join(''), counts.map(({ fromMemory }) => fromMemory)]).toEqual(['', [undefined, true]]);
  const down = await edgeOf({ origin: `http://127.0.0.1:${await freePort()}` });
  expect(await down.ask('since=0')).toContain('HTTP/1.1 521 ');
});

test('where it can be connected to, time tells a slow origin from one that broke off; nothing is sent', async () => {
  const origin = await originOf((side) => side.gone());
  const { ask, clock } = await edgeOf({ origin: `http://127.0.0.1:${origin.port}` });
  const now = clock.now();
  expect(await ask(`since=${now - 58_999}`)).toContain('HTTP/1.1 520 ');
  expect(await ask(`since=${now - 59_000}`)).toContain('HTTP/1.1 524 ');
  expect(await ask('connect')).toContain('HTTP/1.1 521 ');
  expect(origin.received().join('')).toBe('');
});

test('a client that goes while the reason is looked for ends the search, of which nothing is remembered', async () => {
  const sides: OriginSide[] = [];
  const origin = await originOf(async (side) => {
    sides.push(side);
    if (side.number === 1) await side.gone();
    side.socket.destroy();
  });
  const counts: EdgeCount[] = [];
  const onRequest = (count: EdgeCount): void => void counts.push(count);
  const { ask, port, origins } = await edgeOf({ origin: `https://127.0.0.1:${origin.port}`, onRequest });
  const client = connect(port, '127.0.0.1', () =>
    client.write('GET / HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-Failure: connect\r\n\r\n'),
  );
  await expect.poll(() => sides.length).toBe(1);
  client.resetAndDestroy();
  await expect.poll(() => origins.open()).toBe(0);
  await sides[0]?.gone();
  expect(await ask('connect')).toContain('HTTP/1.1 525 ');
  expect(counts.map(({ code, fromMemory }) => [code, fromMemory])).toEqual([
    [undefined, undefined],
    [525, undefined],
  ]);
});

test('the end of the edge does not wait for a search', async () => {
  const origin = await originOf((side) => side.gone());
  const { ask, origins } = await edgeOf({ origin: `https://127.0.0.1:${origin.port}` });
  const asked = ask('connect').catch(() => '');
  await expect.poll(() => origins.open()).toBe(1);
  await origins.close(0);
  expect(origins.open()).toBe(0);
  void asked;
});

test('rules see the method by which the client asked', async () => {
  const methods: string[] = [];
  const { ask } = await edgeOf({
    origin: 'http://127.0.0.1:1',
    customAnswer: (_zone, _occurrence, { method }) => {
      methods.push(method);
      return undefined;
    },
  });
  await ask('521 POST');
  await ask('521');
  expect(methods).toEqual(['POST', 'GET']);
});

test('a request to upgrade is told as any other', async () => {
  const { ask } = await edgeOf({ origin: 'http://127.0.0.1:1' });
  const upgrade = 'Upgrade: websocket\r\nConnection: Upgrade\r\n';
  expect(await ask('522', upgrade)).toContain('HTTP/1.1 522 ');
});

test.each([
  [['521'], { kind: 'known', code: 521 }],
  [['connect POST'], { kind: 'connect', method: 'POST' }],
  [['since=1700000000000'], { kind: 'since', at: 1_700_000_000_000 }],
  [['since=1234567890123456'], undefined],
  [['521 post'], undefined],
  [['521  POST'], undefined],
  [['1004'], undefined],
  [[], undefined],
])('%j', (lines, wanted) => {
  expect(readReportedFailure(lines)).toEqual(wanted);
});
