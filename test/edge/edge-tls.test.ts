// HTTPS (D68): the same routes, certificates by the name asked for, names that do not fit Host; and how listeners end.

import { X509Certificate } from 'node:crypto';
import { connect } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { get, type Reached, readAnswer, speak, speakTls, startEdge } from '../support/edge-app.ts';

function open(port: number, options: ConnectionOptions): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options }, () =>
      resolve(socket),
    );
    socket.on('error', reject);
    onTestFinished(() => void socket.destroy());
  });
}

/** Everything until the connection closes. */
function untilClosed(socket: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve) => {
    let all = '';
    socket.on('data', (data: Buffer) => (all += data.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(all));
  });
}

describe('the certificate', () => {
  test.each([
    ['example.com', 'example.com'],
    ['EXAMPLE.com', 'example.com'],
    ['www.example.com', 'www.example.com'],
    ['mx.example', 'mx.example'],
    ['nobody.example', 'example.com'],
    ['', 'example.com'],
  ])('for SNI %j is that of %s', async (servername, host) => {
    const { tlsPort } = await startEdge({ https: true });
    const socket = await open(tlsPort, { servername });
    expect(socket.getPeerX509Certificate()?.checkHost(host)).toBe(host);
    expect(socket.alpnProtocol).toBe(false);
  });

  test('verifies for who trusts it', async () => {
    const { tlsPort, certificates } = await startEdge({ https: true });
    const ca = certificates.get('www.example.com') ?? '';
    expect(new X509Certificate(ca).checkHost('www.example.com')).toBe('www.example.com');
    const socket = await open(tlsPort, { servername: 'www.example.com', ca, rejectUnauthorized: true });
    expect(socket.authorized).toBe(true);
  });

  test('TLS 1.2 and 1.3 are spoken, 1.1 is not; http/1.1 and no other protocol', async () => {
    const { tlsPort } = await startEdge({ https: true });
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = await open(tlsPort, {
        minVersion: version,
        maxVersion: version,
        ALPNProtocols: ['h2', 'http/1.1'],
      });
      expect([socket.getProtocol(), socket.alpnProtocol]).toEqual([version, 'http/1.1']);
    }
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    await expect(open(tlsPort, old)).rejects.toThrow(/protocol version|unsupported protocol|handshake/i);
    await expect(open(tlsPort, { ALPNProtocols: ['h2'] })).rejects.toThrow(/alpn|no application protocol/i);
  });

  test('who speaks no TLS there is cut off, and the others go on', async () => {
    const { tlsPort } = await startEdge({ https: true });
    const plain = await speak(tlsPort, get('example.com'));
    expect(plain.all).not.toMatch(/^HTTP\/1\.1 2/);
    expect((await speakTls(tlsPort, get('example.com'), 'example.com')).status).toBe(200);
  });
});

describe('routing', () => {
  test.each([
    ['example.com', 'example.com', '/', 200, undefined],
    ['example.com', 'EXAMPLE.com.:8443', '/', 200, undefined],
    ['', 'example.com', '/', 200, undefined],
    ['www.example.com', 'example.com', '/', 421, 1013],
    ['nobody.example', 'example.com', '/cdn-cgi/error/522', 421, 1013],
    ['example.com', 'nobody.example', '/', 421, 1013],
    ['nobody.example', 'nobody.example', '/', 409, 1004],
    ['', 'nobody.example', '/', 409, 1004],
    ['', '127.0.0.2:8443', '/', 403, 1003],
    ['', '127.0.0.1:8443', '/livez', 200, undefined],
    ['example.com', 'localhost', '/livez', 200, undefined],
    ['example.com', 'nobody.example', '/client/v4/zones', 404, undefined],
    ['', 'localhost', '/nothing', 404, undefined],
  ])('SNI %j, Host %s %s: %i', async (servername, host, target, status, code) => {
    const { tlsPort } = await startEdge({ https: true });
    const answer = await speakTls(tlsPort, get(host, target, ['Accept: application/json']), servername);
    expect(answer.status).toBe(status);
    expect(answer.headers['ray-id']).toMatch(/^[0-9a-f]{16}$/);
    if (code !== undefined) expect(JSON.parse(answer.body)).toMatchObject({ error_code: code, status });
  });

  test('an origin learns that the client came by HTTPS; both listeners share what they know', async () => {
    const { port, tlsPort, origin } = await startEdge({ https: true });
    const byTls = JSON.parse((await speakTls(tlsPort, get('example.com', '/s'), 'example.com')).body) as Reached;
    const inTheClear = JSON.parse((await speak(port, get('example.com', '/p'))).body) as Reached;
    expect([byTls.scheme, inTheClear.scheme]).toEqual(['https', 'http']);
    expect(byTls.clientAddress).toBe('127.0.0.1');
    expect(origin.seen.map(({ target }) => target)).toEqual(['/s', '/p']);
  });

  test('a WebSocket by TLS', async () => {
    const { tlsPort } = await startEdge({ https: true });
    const socket = await open(tlsPort, { servername: 'example.com' });
    const echoed = new Promise<string>((resolve) => {
      let all = '';
      socket.on('data', (data) => {
        all += data.toString('latin1');
        if (all.includes('early')) resolve(all);
      });
    });
    socket.write('GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly');
    expect(readAnswer(await echoed).status).toBe(101);
  });
});

describe('a client that ends its side', () => {
  test('within the handshake is closed at once, while one that is silent still has its time', async () => {
    const { tlsPort } = await startEdge({ https: true });
    const silent = connect(tlsPort, '127.0.0.1');
    const first = untilClosed(silent).then(() => 'silent');
    // The head of a TLS record of 512 octets, and no octet of it. Several, as the end may come before Node has begun TLS, or behind.
    const closed = Array.from({ length: 8 }, () => {
      const ended = connect({ port: tlsPort, host: '127.0.0.1', allowHalfOpen: true }, () =>
        ended.end(Buffer.from('1603010200', 'hex')),
      );
      return untilClosed(ended);
    });
    expect(await Promise.race([Promise.all(closed).then(() => 'ended'), first])).toBe('ended');
    silent.destroy();
  });

  test('behind its requests is still answered', async () => {
    const { tlsPort } = await startEdge({ https: true });
    const socket = await open(tlsPort, { servername: 'example.com' });
    const answer = untilClosed(socket);
    socket.end('GET / HTTP/1.1\r\nHost: example.com\r\n\r\n'.repeat(3));
    expect((await answer).match(/HTTP\/1\.1 200/g)).toHaveLength(3);
  });
});

describe('the end', () => {
  test('whoever has asked nothing is cut, on both listeners; a request under way is answered, and the last', async () => {
    const { app, port, tlsPort, origin } = await startEdge({
      https: true,
      plugins: [
        (v4) =>
          v4.get('/accounts/:account_id/slow', { config: { scope: 'email:send' } }, async () => {
            origin.seen.push({ ...placeholder, target: 'slow' });
            await new Promise<void>((resolve) => (release = resolve));
            return { success: true };
          }),
      ],
    });
    let release: () => void = () => undefined;
    const placeholder: Reached = {
      method: '',
      target: '',
      hosts: [],
      zone: '',
      clientAddress: '',
      forwardedFor: [],
      scheme: '',
    };
    const silent = connect(port, '127.0.0.1');
    const half = connect(port, '127.0.0.1', () => half.write('GET / HTTP/1.1\r\nHo'));
    const handshaking = connect(tlsPort, '127.0.0.1');
    const silentTls = await open(tlsPort, { servername: 'example.com' });
    const asking = connect(port, '127.0.0.1', () => {
      const head = 'GET /client/v4/accounts/dev/slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev-default';
      asking.write(`${head}\r\n\r\n`);
    });
    const answered = untilClosed(asking);
    const others = Promise.all([silent, half, handshaking, silentTls].map(untilClosed));
    await expect.poll(() => origin.seen.length, { timeout: 10_000 }).toBe(1);
    const closed = app.close(60_000);
    expect(await others).toEqual(['', '', '', '']);
    release();
    const answer = readAnswer(await answered);
    expect([answer.status, answer.headers['connection']]).toEqual([200, 'close']);
    await closed;
  });

  test('what does not end is cut when the time is over: a request, and a WebSocket', async () => {
    const { app, port, tlsPort, origin } = await startEdge({ https: true });
    const hanging = connect(port, '127.0.0.1', () => hanging.write(get('example.com', '/hang')));
    const webSocket = await open(tlsPort, { servername: 'example.com' });
    webSocket.write('GET /ws HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    const both = Promise.all([untilClosed(hanging), untilClosed(webSocket)]);
    await expect.poll(() => origin.seen.length, { timeout: 10_000 }).toBe(2);
    await app.close(50);
    const [nothing, upgraded] = await both;
    expect([nothing, readAnswer(upgraded).status]).toEqual(['', 101]);
  });

  test('a port that is taken is told with its scheme', async () => {
    const { app, port } = await startEdge();
    await expect(app.listen({ host: '127.0.0.1', port })).rejects.toThrow(
      `Cannot listen on http 127.0.0.1:${port}: listen EADDRINUSE`,
    );
  });
});
