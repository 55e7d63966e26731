// What of a request is judged before anything of it reaches an origin: the version of its request line, and all of its head.

import { connect, createServer, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { OriginProxy } from '../../src/edge/origin/origin-proxy.ts';
import { exampleZone, get, speak, startEdge } from '../support/edge-app.ts';

/** An edge before an origin that keeps every octet it is sent, and answers 200. */
async function start() {
  let sent = '';
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (octets) => {
      sent += octets.toString('latin1');
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const settings = {
    maxHeaderBytes: 32_768,
    connectTimeoutSeconds: 5,
    responseTimeoutSeconds: 5,
    afterCloseSeconds: 5,
    originDownSeconds: 1,
    trustedProxies: [],
    limits: { requests: 100, requestsPerZone: 100, requestsPerAddress: 100 },
  };
  const origins = new OriginProxy({ settings, log: silentLog });
  onTestFinished(() => origins.close(0));
  const zone = { ...exampleZone, origin: `http://127.0.0.1:${port}` };
  const edge = await startEdge({ zones: [zone], origins });
  return { port: edge.port, sent: () => sent };
}

const host = 'Host: example.com';

describe('the version of a request line (RFC 9112 §2.3)', () => {
  test.each([
    ['HTTP/2.0', `GET / HTTP/2.0\r\n${host}\r\n\r\n`, 505],
    ['HTTP/0.9', `GET / HTTP/0.9\r\n${host}\r\n\r\n`, 505],
    ['none', `GET /\r\n${host}\r\n\r\n`, 505],
    ['none, and no field', 'GET /\r\n\r\n', 505],
    ['HTTP/1.2', `GET / HTTP/1.2\r\n${host}\r\n\r\n`, 400],
    ['HTTP/3.0', `GET / HTTP/3.0\r\n${host}\r\n\r\n`, 400],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['RTSP/1.0', `GET / RTSP/1.0\r\n${host}\r\n\r\n`, 505],
    ['RTSP/1.1', `DESCRIBE / RTSP/1.1\r\n${host}\r\n\r\n`, 505],
    ['ICE/1.0', `SOURCE / ICE/1.0\r\n${host}\r\n\r\n`, 505],
    [
      'ICE/1.0 behind an empty line, of HTTP/1.1 in a field',
      `\r\nSOURCE / ICE/1.0\r\n${host}\r\nX: HTTP/1.1\r\n\r\n`,
      505,
    ],
    ['RTSP/1.0 of an upgrade', `GET / RTSP/1.0\r\n${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 505],
    ['HTTP/2.0 of an upgrade', `GET / HTTP/2.0\r\n${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 505],
    ['HTTP/2.0 of a CONNECT', `CONNECT example.com:443 HTTP/2.0\r\n${host}\r\n\r\n`, 505],
    ['HTTP/2.0 for the API', 'GET /livez HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n', 505],
    ['HTTP/0.9 for the API', 'GET /livez HTTP/0.9\r\nHost: 127.0.0.1\r\n\r\n', 505],
  ])('%s is refused, and nothing behind it is read', async (_, text, status) => {
    const { port, sent } = await start();
    const answer = await speak(port, `${text}${get('example.com', '/second')}`);
    expect([answer.status, answer.headers['connection']]).toEqual([status, 'close']);
    expect(answer.headers['ray-id']).toMatch(/^[0-9a-f]{16}$/);
    expect(answer.all.split('HTTP/1.1 ')).toHaveLength(2);
    expect(sent()).toBe('');
  });

  test('RTSP behind a request of HTTP, cut anywhere, is refused; HTTP cut anywhere is taken', async () => {
    const { port, sent } = await start();
    const text = `GET / HTTP/1.1\r\n${host}\r\n\r\n\r\nGET /b RTSP/1.0\r\n${host}\r\n\r\n`;
    for (let cut = 1; cut < text.length; cut += 1) {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      const all = new Promise<string>((resolve) => {
        let answers = '';
        socket.on('data', (octets) => (answers += octets.toString('latin1')));
        socket.on('close', () => resolve(answers));
      });
      socket.write(text.slice(0, cut), () => setImmediate(() => socket.write(text.slice(cut))));
      expect([cut, (await all).match(/HTTP\/1\.1 \d+/g)]).toEqual([cut, ['HTTP/1.1 200', 'HTTP/1.1 505']]);
    }
    expect(sent()).not.toContain('/b');
  });

  test.each(['HTTP/1.0', 'HTTP/1.1'])('%s is taken', async (version) => {
    const { port, sent } = await start();
    const answer = await speak(port, `GET / ${version}\r\n${host}\r\nConnection: close\r\n\r\n`);
    expect(answer.status).toBe(200);
    expect(sent()).toMatch(/^GET \/ HTTP\/1\.1\r\n/);
  });
});

describe('a head reaches an origin once all of it is judged', () => {
  test.each([
    'Transfer-Encoding: chunked\t',
    'Transfer-Encoding: \tchunked',
    'Transfer-Encoding:\tchunked',
    'Transfer-Encoding: chunked ',
    'Transfer-Encoding: chunked\t \t',
    'Transfer-Encoding: CHUNKED\t',
    'Transfer-Encoding: chunked,',
    'Transfer-Encoding: ,chunked',
    'Transfer-Encoding: chunked, chunked',
    'Transfer-Encoding: gzip, chunked',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding: \t',
    'Transfer-Encoding:',
    'Transfer-Encoding: chunked\r\nContent-Length: 5',
    'Content-Length: 5\t',
    'Content-Length: +5',
    'Content-Length: 5\r\nContent-Length: 5',
  ])('%j', async (line) => {
    const { port, sent } = await start();
    const answer = await speak(
      port,
      `POST /a HTTP/1.1\r\n${host}\r\nConnection: close\r\n${line}\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    );
    if (answer.status === 200) {
      // Taken: then the origin got the whole of one request, framed as one.
      expect(sent()).toMatch(/\r\n\r\n5\r\nhello\r\n0\r\n\r\n$|\r\n\r\n5\r\nhe$/);
      return;
    }
    expect([400, 501]).toContain(answer.status);
    expect([line, sent()]).toEqual([line, '']);
  });
});
