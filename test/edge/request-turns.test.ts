// One request after another on a connection (D66): whatever stands behind a request waits for its answer, in the API and at
// the edge, by HTTP and HTTPS.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { exampleZone, get, startEdge } from '../support/edge-app.ts';
import { logLines } from '../support/log-lines.ts';

type Scheme = 'http' | 'https';

/** A connection that keeps everything that comes, one character an octet. */
interface Client {
  readonly socket: Socket;
  text(): string;
  closed(): Promise<string>;
}

async function client(at: { readonly port: number; readonly tlsPort: number }, scheme: Scheme): Promise<Client> {
  const where = { host: '127.0.0.1', allowHalfOpen: true };
  const socket =
    scheme === 'https'
      ? connectTls({ ...where, port: at.tlsPort, servername: 'example.com', rejectUnauthorized: false })
      : connect({ ...where, port: at.port });
  let all = '';
  let isOver = false;
  socket.on('data', (piece: Buffer) => (all += piece.toString('latin1')));
  socket.on('error', () => undefined);
  socket.on('end', () => (isOver = true)).on('close', () => (isOver = true));
  onTestFinished(() => void socket.destroy());
  await once(socket, scheme === 'https' ? 'secureConnect' : 'connect');
  return {
    socket,
    text: () => all,
    closed: async () => {
      await expect.poll(() => isOver, { timeout: 15_000 }).toBe(true);
      return all;
    },
  };
}

const statuses = (text: string): readonly string[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, code]) => code ?? '');
const keep = (target: string, host = 'example.com', lines = ''): string =>
  `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines}\r\n`;
const webSocket = (target: string): string =>
  keep(target, 'example.com', 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n');

describe.each(['http', 'https'] as const)('by %s', (scheme) => {
  const start = (given: Parameters<typeof startEdge>[0] = {}) => startEdge({ ...given, https: scheme === 'https' });

  test('the next request is begun once the answer before it has ended', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.write(keep('/after/150') + keep('/after/1') + get('example.com', '/last'));
    await expect.poll(() => at.origin.seen.length).toBe(1);
    expect(at.app.open()).toMatchObject({ answers: 1 });
    const text = await peer.closed();
    expect(at.origin.seen.map(({ target }) => target)).toEqual(['/after/150', '/after/1', '/last']);
    expect([...text.matchAll(/\/(?:after\/\d+|last)/g)].map(([target]) => target)).toEqual([
      '/after/150',
      '/after/1',
      '/last',
    ]);
  });

  test('however many are sent at once, one is begun, the rest are not read', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    // More than the system takes in by itself: of a connection on loopback up to some 37 MB, as it sees fit.
    const many = Buffer.from(keep('/hang').repeat(1_100_000));
    peer.socket.write(many);
    await expect.poll(() => at.app.open().waitingOctets, { timeout: 10_000 }).toBeGreaterThan(0);
    // What the system holds for the connection is its own affair; of ours it is a piece or a few.
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(at.origin.seen).toHaveLength(1);
    expect(at.app.open().waitingOctets).toBeLessThan(200_000);
    expect(peer.socket.writableLength).toBeGreaterThan(0);
    peer.socket.destroy();
  });

  test('a hundred requests in one piece are all answered, in order', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    const targets = Array.from({ length: 100 }, (_, index) => `/${index}`);
    peer.socket.write(targets.map((target) => keep(target)).join('') + get('localhost', '/livez'));
    expect(statuses(await peer.closed())).toHaveLength(101);
    expect(at.origin.seen.map(({ target }) => target)).toEqual(targets);
  });

  test('requests cut at every octet are told apart as in one piece', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.setNoDelay(true);
    const all =
      '\r\n' +
      keep('/a') +
      'POST /b HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\n\r\n\r\n' +
      'POST /c HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n' +
      '4;x="y"\r\n0\r\n\r\r\nA\r\n0123456789\r\n0\r\nX-Trailer: 0\r\n\r\n' +
      get('example.com', '/d');
    for (const octet of all) {
      peer.socket.write(octet);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(statuses(await peer.closed())).toEqual(['200', '200', '200', '200']);
    expect(at.origin.seen.map(({ target }) => target)).toEqual(['/a', '/b', '/c', '/d']);
  });

  test('a WebSocket behind a request is switched to once that is answered, with what came behind it', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.write(`${keep('/after/50')}${webSocket('/ws')}early`);
    await expect.poll(() => peer.text(), { timeout: 10_000 }).toMatch(/early$/);
    expect(statuses(peer.text())).toEqual(['200', '101']);
    peer.socket.write('late');
    await expect.poll(() => peer.text()).toMatch(/earlylate$/);
    peer.socket.destroy();
    await expect.poll(() => at.front.open()).toBe(0);
  });

  test('CONNECT behind requests is refused behind their answers, and nothing stays under way', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    const requests = keep('/after/20').repeat(20);
    peer.socket.write(`${requests}CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n`);
    expect(statuses(await peer.closed())).toEqual([...Array<string>(20).fill('200'), '405']);
    await expect.poll(() => at.front.open()).toBe(0);
  });

  test.each([
    ['no HTTP', 'GARBAGE\r\n\r\n', '400'],
    ['no Host', 'GET / HTTP/1.1\r\n\r\n', '400'],
    ['TRACE', 'TRACE / HTTP/1.1\r\nHost: example.com\r\n\r\n', '405'],
    ['an unknown expectation', keep('/', 'example.com', 'Expect: more\r\n'), '417'],
    ['a head that is too large', keep('/', 'example.com', `X: ${'x'.repeat(40_000)}\r\n`), '431'],
    ['an unknown coding', 'POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: gzip\r\n\r\n', '501'],
  ])('%s in the middle waits for its turn, and its answer stands whole behind the first', async (_, octets, status) => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.write(keep('/after/50') + octets + get('example.com', '/behind'));
    const text = await peer.closed();
    expect(statuses(text).slice(0, 2)).toEqual(['200', status]);
    expect(text.indexOf('/after/50')).toBeLessThan(text.indexOf(`HTTP/1.1 ${status}`));
    // Who may be attacked by it is answered nothing more; the others go on.
    const goesOn = ['405', '417', '431'].includes(status);
    expect(statuses(text)).toHaveLength(goesOn ? 3 : 2);
  });

  test('a request that waits for 100 waits for its turn', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    const post = 'POST /b HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n';
    peer.socket.write(keep('/after/20') + post + 'abc' + get('example.com', '/c'));
    // RFC 9110 §10.1.1: an answer without the 100 is the last, since nobody knows whether the body follows.
    expect(statuses(await peer.closed())).toEqual(['200', '200']);
    expect(at.origin.seen.map(({ target }) => target)).toEqual(['/after/20', '/b']);
  });

  test('an upgrade that is not taken is answered, and so is the request behind it in the same piece', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n';
    const withBody = `POST /b HTTP/1.1\r\nHost: example.com\r\n${h2c}Content-Length: 3\r\n\r\nabc`;
    peer.socket.write(
      keep('/a', 'example.com', h2c) + withBody + keep('/livez', 'localhost', h2c) + get('example.com', '/c'),
    );
    expect(statuses(await peer.closed())).toEqual(['200', '200', '200', '200']);
    expect(at.origin.seen.map(({ target }) => target)).toEqual(['/a', '/b', '/c']);
  });

  test('a client that has ended its side gets its answers', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.end(keep('/after/100') + keep('/livez', 'localhost') + keep('/z'));
    const text = await peer.closed();
    expect(statuses(text)).toEqual(['200', '200', '200']);
    await expect.poll(() => at.app.open().connections).toBe(0);
  });

  test('octets behind the last request are thrown away, and do not replace its answer', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.write(`${get('example.com', '/after/50')}GARBAGE\r\n\r\n${'x'.repeat(50_000)}`);
    peer.socket.write(keep('/second'));
    expect(statuses(await peer.closed())).toEqual(['200']);
    expect(at.origin.seen).toHaveLength(1);
  });

  test.each([
    ['too large trailers', `0\r\n${'X-T: 1\r\n'.repeat(100_000)}\r\n`],
    ['a bad chunk size', 'z\r\n'],
  ])('a body with %s, whose answer came early, gets no second one', async (_, octets) => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.write('POST /early HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n');
    await expect.poll(() => peer.text(), { timeout: 10_000 }).toContain('/early');
    peer.socket.write(octets);
    expect(statuses(await peer.closed())).toEqual(['200']);
    await expect.poll(() => at.app.open().connections).toBe(0);
  });

  test('what waits is released when the connection is reset', async () => {
    const at = await start();
    const peers = await Promise.all(Array.from({ length: 20 }, () => client(at, scheme)));
    for (const { socket } of peers) socket.write(keep('/hang').repeat(15) + webSocket('/ws'));
    await expect.poll(() => at.front.open()).toBe(20);
    for (const { socket } of peers) {
      if (scheme === 'http') socket.resetAndDestroy();
      else socket.destroy(new Error('gone'));
    }
    if (scheme === 'http') {
      await expect.poll(() => [at.front.open(), at.app.open().connections]).toEqual([0, 0]);
    }
  });

  test('draining ends the connection behind the answer under way', async () => {
    const at = await start();
    const peer = await client(at, scheme);
    peer.socket.write(keep('/after/300') + keep('/second').repeat(50) + webSocket('/ws'));
    await expect.poll(() => at.origin.seen.length).toBe(1);
    const closing = at.app.close(10_000);
    const text = await peer.closed();
    expect(statuses(text)).toEqual(['200']);
    expect(text).toContain('Connection: close');
    await closing;
  });
});

test('a parser that found another end than we did has its connection cut', async () => {
  // A body that node:http reads as whole where the count along it does not: none is known, so this is the next best.
  const at = await startEdge();
  const peer = await client(at, 'http');
  peer.socket.write('GET / HTTP/1.1\nHost: example.com\n\nGET /second HTTP/1.1\nHost: example.com\n\n');
  peer.socket.end();
  const text = await peer.closed();
  expect(statuses(text).length).toBeLessThanOrEqual(1);
  expect(at.origin.seen).toEqual([]);
});

describe('shares of the open requests', () => {
  const limits = { requests: 10, requestsPerZone: 3, requestsPerAddress: 2 };
  const other = { ...exampleZone, id: '2'.repeat(32), name: 'b.example', hostnames: ['b.example'] };

  test('of a zone: it is 1200 while another zone is served', async () => {
    const settings = { limits: { ...limits, requestsPerAddress: 10 } };
    const at = await startEdge({ settings, zones: [exampleZone, other] });
    const held = await Promise.all([0, 1, 2].map(() => client(at, 'http')));
    for (const { socket } of held) socket.write(keep('/hang'));
    await expect.poll(() => at.origin.seen.length).toBe(3);
    const refused = await client(at, 'http');
    refused.socket.write(get('example.com', '/'));
    expect(statuses(await refused.closed())).toEqual(['503']);
    const served = await client(at, 'http');
    served.socket.write(get('b.example', '/'));
    expect(statuses(await served.closed())).toEqual(['200']);
    for (const { socket } of held) socket.resetAndDestroy();
    await expect.poll(() => at.front.open()).toBe(0);
  });

  test('of a client, as a trusted proxy names it: it is 1200 while another client is served', async () => {
    const at = await startEdge({ settings: { limits, trustedProxies: ['127.0.0.0/8'] } });
    const from = (address: string, target: string): string =>
      get('example.com', target, [`X-Forwarded-For: ${address}`]);
    const held = await Promise.all([0, 1].map(() => client(at, 'http')));
    for (const { socket } of held) socket.write(from('2001:db8::1', '/hang'));
    await expect.poll(() => at.origin.seen.length).toBe(2);
    const ask = async (address: string): Promise<readonly string[]> => {
      const peer = await client(at, 'http');
      peer.socket.write(from(address, '/'));
      return statuses(await peer.closed());
    };
    expect(await ask('2001:db8::2')).toEqual(['503']);
    expect(await ask('2001:db8:0:1::2')).toEqual(['200']);
    for (const { socket } of held) socket.resetAndDestroy();
    await expect.poll(() => at.front.open()).toBe(0);
  });
});

describe('connections over the limit', () => {
  test.each([
    ['in all', { connections: 3, connectionsPerAddress: 10 }, { all: 1, address: 0 }],
    ['of one address', { connections: 10, connectionsPerAddress: 3 }, { all: 0, address: 1 }],
  ])('%s are told 503 by HTTP and closed by HTTPS, and counted', async (_, limits, refused) => {
    const { log, lines } = logLines();
    const at = await startEdge({ app: { limits, log }, https: true });
    const held = await Promise.all((['http', 'http', 'https'] as const).map((scheme) => client(at, scheme)));
    const over = await client(at, 'http');
    over.socket.write(keep('/'));
    const text = await over.closed();
    expect(statuses(text)).toEqual(['503']);
    expect(at.app.refusedConnections()).toEqual(refused);
    const ray = /Ray-ID: (\w+)/.exec(text)?.[1];
    expect(lines).toContainEqual(
      expect.objectContaining({ msg: 'http refused', ray, status: 503, client: '127.0.0.1' }),
    );
    await expect(client(at, 'https')).rejects.toThrow();
    expect(at.origin.seen).toEqual([]);
    for (const { socket } of held) socket.destroy();
    await expect.poll(() => at.app.open().connections).toBe(0);
    const again = await client(at, 'http');
    again.socket.write(get('example.com', '/'));
    expect(statuses(await again.closed())).toEqual(['200']);
  });

  test('of a trusted proxy are not counted by address', async () => {
    const limits = { connections: 10, connectionsPerAddress: 1 };
    const at = await startEdge({ app: { limits }, settings: { trustedProxies: ['127.0.0.1'] } });
    const peers = await Promise.all([0, 1, 2].map(() => client(at, 'http')));
    for (const { socket } of peers) socket.write(get('example.com', '/'));
    for (const peer of peers) expect(statuses(await peer.closed())).toEqual(['200']);
  });

  test('hundreds at once are not all told: the rest is closed, and all are released', async () => {
    const at = await startEdge({ app: { limits: { connections: 1, connectionsPerAddress: 1 } } });
    const held = await client(at, 'http');
    const over = await Promise.all(Array.from({ length: 200 }, () => client(at, 'http').catch(() => undefined)));
    await expect.poll(() => at.app.refusedConnections().address).toBe(200);
    const texts = await Promise.all(over.map(async (peer) => (await peer?.closed()) ?? ''));
    expect(texts.filter((text) => text.startsWith('HTTP/1.1 503 ')).length).toBeGreaterThan(0);
    held.socket.destroy();
    await expect.poll(() => at.app.open().connections).toBe(0);
  });
});

test('a client that takes nothing of an answer is cut', async () => {
  const at = await startEdge({ app: { clientStallMs: 300 } });
  const peer = await client(at, 'http');
  peer.socket.pause();
  peer.socket.write(keep('/docs', 'localhost').repeat(20_000));
  await expect.poll(() => at.app.open().connections).toBe(1);
  await expect.poll(() => at.app.open().connections, { timeout: 15_000 }).toBe(0);
});
