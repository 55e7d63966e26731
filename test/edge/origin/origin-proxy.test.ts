// What passes through the reverse proxy unchanged, and what it changes (D66; RFC 9110 §7.6, RFC 9112 §6, §9).

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { always, type FaultOrigin, faultOrigin, type OriginSide } from '../../support/fault-origin.ts';
import { clockOf } from '../../support/manual-clock.ts';
import { type FrontOptions, frontRay, marker, type OriginFront, originFront } from '../../support/origin-front.ts';
import { rawAsk, rawHttp } from '../../support/raw-http.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

/** A front before an origin that behaves so. */
async function pair(
  behave: (origin: OriginSide) => Promise<void> | void,
  options: Partial<FrontOptions> = {},
): Promise<{ readonly origin: FaultOrigin; readonly front: OriginFront }> {
  const origin = await faultOrigin(behave);
  const front = await originFront({ origin: `http://127.0.0.1:${origin.port}`, ...options });
  open.push(origin, front);
  return { origin, front };
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

describe('the request that the origin gets', () => {
  test("is the client's: target, Host, order, casing, repeated lines; then our own fields", async () => {
    const { origin, front } = await pair(always(ok));
    await rawAsk(
      front.port,
      'GET /a%20b/../c?x=1&&y=%zz HTTP/1.1\r\nhOsT: Example.COM:8080\r\nX-One: 1\r\nAccept:  */* \r\n' +
        'x-one: 2\r\nVia: 1.0 fred\r\nX-One: caf\xe9\r\nConnection: close\r\n\r\n',
    );
    expect(origin.received()).toEqual([
      'GET /a%20b/../c?x=1&&y=%zz HTTP/1.1\r\nhOsT: Example.COM:8080\r\nX-One: 1\r\nAccept: */*\r\n' +
        'x-one: 2\r\nVia: 1.0 fred\r\nX-One: caf\xe9\r\n' +
        'Via: 1.1 postern\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n' +
        `X-Forwarded-Host: Example.COM:8080\r\nRay-ID: ${frontRay}\r\n\r\n`,
    ]);
  });

  test('tells what trusted proxies say of how the client came', async () => {
    const forwarded = { forwardedProto: 'https', forwardedHost: 'shop.example:8443' } as const;
    const { origin, front } = await pair(always(ok), { forwarded });
    await rawAsk(front.port, 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    expect(origin.received()[0]).toContain('X-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example:8443\r\n');
    expect(origin.received()[0]).toContain('Host: example.com\r\n');
  });

  describe('before an origin with a path', () => {
    test.each([
      ['/app', '/', '/app/'],
      ['/app/', '/x?y=/../z', '/app/x?y=/../z'],
      ['/a%20b/c', '//x', '/a%20b/c//x'],
      ['/', '/x', '/x'],
      ['', '/a/../b', '/a/../b'],
      ['/app', '/a..b/...', '/app/a..b/...'],
    ])('%j: %s is %s', async (path, target, sent) => {
      const origin = await faultOrigin(always(ok));
      const front = await originFront({ origin: `http://127.0.0.1:${origin.port}${path}` });
      open.push(origin, front);
      await rawAsk(front.port, `GET ${target} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n`);
      expect(origin.received()[0]?.split(' ')[1]).toBe(sent);
    });

    test.each(['/..', '/a/../../b', '/%2e%2E/b', '/a%2f..%2Fb', '/a/..%5cb', '/a\\..\\b', '/a/..;x/b'])(
      '%s, which leads out of it, is 400 and never reaches it',
      async (target) => {
        const origin = await faultOrigin(always(ok));
        const front = await originFront({ origin: `http://127.0.0.1:${origin.port}/app` });
        open.push(origin, front);
        const answer = await rawAsk(front.port, `GET ${target} HTTP/1.1\r\nHost: example.com\r\n\r\n`);
        expect(answer).toMatch(/^HTTP\/1\.1 400 /);
        expect(origin.connections()).toBe(0);
      },
    );

    test('OPTIONS for the whole server stays that', async () => {
      const origin = await faultOrigin(always(ok));
      const front = await originFront({ origin: `http://127.0.0.1:${origin.port}/app` });
      open.push(origin, front);
      await rawAsk(front.port, 'OPTIONS * HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
      expect(origin.received()[0]).toMatch(/^OPTIONS \* HTTP/);
    });
  });

  test('has no hop-by-hop field, none that Connection names, and nothing that a client says of itself', async () => {
    const { origin, front } = await pair(always(ok));
    await rawAsk(
      front.port,
      'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close, X-Secret, Keep-Alive, TE\r\nX-Secret: 1\r\n' +
        'Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X-T\r\n' +
        'Proxy-Authorization: Basic eA==\r\nProxy-Authenticate: x\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n' +
        'X-Forwarded-Proto: https\r\nX_Forwarded_For: 1.2.3.4\r\nX-Forwarded-Whatever: x\r\nX-Real-IP: 1.2.3.4\r\n' +
        'Ray-ID: ffffffffffffffff\r\nX-Kept: yes\r\n\r\n',
    );
    expect(origin.received()[0]?.split('\r\n')).toEqual([
      'GET / HTTP/1.1',
      'Host: example.com',
      'X-Kept: yes',
      'Via: 1.1 postern',
      'X-Forwarded-For: 127.0.0.1',
      'X-Forwarded-Proto: http',
      'X-Forwarded-Host: example.com',
      `Ray-ID: ${frontRay}`,
      '',
      '',
    ]);
  });

  test('keeps what frames and routes it, whatever Connection names', async () => {
    const { origin, front } = await pair(async (side) => {
      await side.head();
      await side.octets(5);
      await side.send(ok);
    });
    await rawAsk(
      front.port,
      'POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nContent-Type: text/x\r\nCookie: a=b\r\nAuthorization: c\r\n' +
        'Connection: close, Host, Content-Length, content-type, Cookie, Authorization, Via, X-Forwarded-For, Ray-ID\r\n\r\n12345',
    );
    expect(origin.received()[0]).toMatch(
      /^POST \/ HTTP\/1\.1\r\nHost: example\.com\r\nContent-Length: 5\r\nContent-Type: text\/x\r\nCookie: a=b\r\nAuthorization: c\r\nVia: 1\.1 postern\r\nX-Forwarded-For: 127\.0\.0\.1\r\n[^]*\r\n\r\n12345$/,
    );
  });

  test('tells what trusted peers said of earlier hops, then the peer', async () => {
    const { origin, front } = await pair(always(ok), {
      forwarded: { clientAddress: '198.51.100.9', forwardedFor: ['198.51.100.9', '203.0.113.1'], scheme: 'https' },
    });
    await rawAsk(front.port, 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    expect(origin.received()[0]).toContain('X-Forwarded-For: 198.51.100.9, 203.0.113.1, 127.0.0.1\r\n');
    expect(origin.received()[0]).toContain('X-Forwarded-Proto: https\r\n');
  });

  test('takes the origin form of an absolute target, and OPTIONS * as it is', async () => {
    const { origin, front } = await pair(always(ok));
    const ask = (target: string): Promise<string> =>
      rawAsk(front.port, `OPTIONS ${target} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n`);
    await ask('http://example.com/x?y');
    await ask('http://example.com');
    await ask('http://example.com?q');
    await ask('*');
    const targets = origin.received().flatMap((text) => text.match(/^OPTIONS .*$/gm) ?? []);
    expect(targets).toEqual([
      'OPTIONS /x?y HTTP/1.1',
      'OPTIONS / HTTP/1.1',
      'OPTIONS /?q HTTP/1.1',
      'OPTIONS * HTTP/1.1',
    ]);
  });

  test('that has been here five times is a loop', async () => {
    const { origin, front } = await pair(always(ok));
    const ask = (via: string): Promise<string> =>
      rawAsk(front.port, `GET / HTTP/1.1\r\nHost: example.com\r\n${via}Connection: close\r\n\r\n`);
    const four = 'Via: 1.1 postern, 1.1 other (1.1 postern), HTTP/1.1 Postern\r\nvia: 1.1 postern,1.1 postern\r\n';
    expect(await ask(four)).toMatch(/^HTTP\/1\.1 200 /);
    expect(await ask(`${four}Via: 1.1 postern\r\n`)).toContain(marker(1000));
    expect(origin.connections()).toBe(1);
  });
});

describe('the body of a request', () => {
  test('with a length, and in chunks: whole, framed once, and without trailers', async () => {
    const { origin, front } = await pair(async (side) => {
      const head = await side.head();
      await side.octets(/content-length: 4/i.test(head) ? 4 : '4\r\nwxyz\r\n0\r\n\r\n'.length);
      await side.send(ok.replace('\r\n', '\r\nConnection: close\r\n'));
    });
    await rawAsk(
      front.port,
      'PUT /l HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd',
    );
    await rawAsk(
      front.port,
      'PUT /c HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\nConnection: close\r\n\r\n' +
        '4;ext="a;b"\r\nwxyz\r\n0\r\nX-T: 1\r\n\r\n',
    );
    const [first = '', second = ''] = origin.received();
    expect(first.match(/content-length|transfer-encoding/gi)).toEqual(['Content-Length']);
    expect(first.split('\r\n\r\n')[1]).toBe('abcd');
    expect(second.match(/content-length|transfer-encoding/gi)).toEqual(['Transfer-Encoding']);
    expect(second.slice(second.indexOf('\r\n\r\n'))).toBe('\r\n\r\n4\r\nwxyz\r\n0\r\n\r\n');
    expect(second).not.toContain('X-T');
  });

  test('is asked for only once the origin asks for it', async () => {
    const { origin, front } = await pair(async (side) => {
      await side.head();
      await side.send('HTTP/1.1 100 Continue\r\n\r\n');
      await side.octets(3);
      await side.send(ok);
    });
    const client = await rawHttp(front.port);
    client.send('POST / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n');
    expect(await client.until('\r\n\r\n')).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    expect(origin.received()[0]).toContain('Expect: 100-Continue\r\n');
    client.send('abc');
    await client.until('\r\n\r\nok');
    client.socket.destroy();
  });

  test('that the origin refuses unseen is never asked for, and the connection closes', async () => {
    const { front } = await pair(async (side) => {
      await side.head();
      await side.send('HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n');
    });
    const text = await rawAsk(
      front.port,
      'POST / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n',
    );
    expect(text).toMatch(/^HTTP\/1\.1 417 Expectation Failed\r\n/);
    expect(text).toContain('Connection: close\r\n');
  });

  test('does not keep an answer back that comes before its end: 413, and the origin closes', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { front } = await pair(async (side) => {
        await side.head();
        await side.send('HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo long');
        // Closing with octets unread resets the connection under our next write.
        side.socket.destroy();
      });
      const client = await rawHttp(front.port);
      client.send('POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4000000\r\n\r\n');
      const piece = Buffer.alloc(100_000);
      const pump = (): void => {
        while (!client.socket.destroyed && client.socket.write(piece));
      };
      client.socket.on('drain', pump);
      pump();
      expect(await client.until('too long')).toMatch(/^HTTP\/1\.1 413 Content Too Large\r\n/);
      client.socket.destroy();
      expect(front.failures).toEqual([]);
    }
  });
});

describe('the reply that the client gets', () => {
  test("is the origin's: status, reason, fields in order, casing, repeated lines, body", async () => {
    const { front } = await pair(
      always(
        'HTTP/1.1 503 Sorry, caf\xe9\r\nset-cookie: a=1\r\nX-B: \xff two  words\t\r\nSet-Cookie: b=2\r\nDate: then\r\nX-Empty:\r\n' +
          'SET-COOKIE: c=3\r\nServer: x\r\nContent-Length: 3\r\nRay-ID: feedfeedfeedfeed\r\n\r\n\x00\xff\n',
      ),
    );
    const text = await rawAsk(front.port, 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    expect(text).toBe(
      'HTTP/1.1 503 Sorry, caf\xe9\r\nset-cookie: a=1\r\nX-B: \xff two  words\r\nSet-Cookie: b=2\r\nDate: then\r\nX-Empty: \r\n' +
        `SET-COOKIE: c=3\r\nServer: x\r\nContent-Length: 3\r\nRay-ID: ${frontRay}\r\nConnection: close\r\n\r\n\x00\xff\n`,
    );
  });

  test.each([500, 502, 503, 504, 520, 404, 299])("%d of the origin's own passes", async (status) => {
    const { front } = await pair(always(`HTTP/1.1 ${status} Own\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbody`));
    const text = await rawAsk(front.port, 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} Own\r\nRetry-After: 7\r\nContent-Length: 4\r\n`));
    expect(text.endsWith('\r\n\r\nbody')).toBe(true);
    expect(front.failures).toEqual([]);
  });

  test('has no hop-by-hop field, and none that Connection names but what frames it', async () => {
    const { front } = await pair(
      always(
        'HTTP/1.1 200 OK\r\nConnection: X-Hop, Content-Length, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: x\r\n' +
          'Upgrade: h2c\r\nTrailer: X\r\nProxy-Connection: x\r\nDate: d\r\nContent-Length: 2\r\n\r\nok',
      ),
    );
    const text = await rawAsk(front.port, 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    expect(text).toBe(
      `HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\nRay-ID: ${frontRay}\r\nConnection: close\r\n\r\nok`,
    );
  });

  test('in chunks, or until the origin closes, is chunked for HTTP/1.1 and until the close for HTTP/1.0', async () => {
    const { front } = await pair(async (side) => {
      for (;;) {
        const head = await side.head();
        if (head.startsWith('GET /close')) {
          await side.send('HTTP/1.1 200 OK\r\nDate: d\r\n\r\nuntil the end');
          side.socket.end();
          return;
        }
        await side.send(
          'HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nX-T: 1\r\n\r\n',
        );
      }
    });
    const ask = (path: string, version: string): Promise<string> =>
      rawAsk(front.port, `GET ${path} HTTP/${version}\r\nHost: example.com\r\nConnection: close\r\n\r\n`);
    const fields = `Date: d\r\nRay-ID: ${frontRay}\r\nConnection: close\r\n`;
    // Node may join chunks that come together.
    const joined = (await ask('/chunked', '1.1')).replace('5\r\nhello\r\n1\r\n!', '6\r\nhello!');
    expect(joined).toBe(`HTTP/1.1 200 OK\r\n${fields}Transfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n0\r\n\r\n`);
    expect(await ask('/close', '1.1')).toBe(
      `HTTP/1.1 200 OK\r\n${fields}Transfer-Encoding: chunked\r\n\r\nd\r\nuntil the end\r\n0\r\n\r\n`,
    );
    expect(await ask('/chunked', '1.0')).toBe(`HTTP/1.1 200 OK\r\n${fields}\r\nhello!`);
    expect(await ask('/close', '1.0')).toBe(`HTTP/1.1 200 OK\r\n${fields}\r\nuntil the end`);
  });

  test('has no body for HEAD, 204 and 304, and the connection serves on', async () => {
    const replies: Readonly<Record<string, string>> = {
      'HEAD /': 'HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 1000\r\n\r\n',
      'HEAD /chunked': 'HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n',
      'GET /204': 'HTTP/1.1 204 No Content\r\nDate: d\r\nContent-Length: 0\r\n\r\n',
      'GET /304': 'HTTP/1.1 304 Not Modified\r\nDate: d\r\nContent-Length: 77\r\nETag: "x"\r\n\r\n',
      'GET /last': ok,
    };
    const { origin, front } = await pair(async (side) => {
      for (;;) {
        const head = await side.head();
        await side.send(replies[head.slice(0, head.indexOf(' HTTP'))] ?? '');
      }
    });
    const client = await rawHttp(front.port);
    const seen: string[] = [];
    for (const ask of Object.keys(replies)) {
      const before = client.text().length;
      client.send(`${ask} HTTP/1.1\r\nHost: example.com\r\n\r\n`);
      await client.until(new RegExp(`^[^]{${before}}HTTP/1.1 [^]*\r\n\r\n${ask === 'GET /last' ? 'ok' : ''}$`));
      seen.push(
        client
          .text()
          .slice(before)
          .replaceAll(/(?:Connection|Keep-Alive|Ray-ID): .*\r\n/g, ''),
      );
    }
    client.socket.destroy();
    expect(seen.slice(0, 4)).toEqual([
      'HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 1000\r\n\r\n',
      'HTTP/1.1 200 OK\r\nDate: d\r\n\r\n',
      'HTTP/1.1 204 No Content\r\nDate: d\r\n\r\n',
      'HTTP/1.1 304 Not Modified\r\nDate: d\r\nContent-Length: 77\r\nETag: "x"\r\n\r\n',
    ]);
    expect(origin.connections()).toBe(1);
  });

  test('comes after the informational ones, which an HTTP/1.0 client does not see', async () => {
    const early = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nlink: </b.css>\r\n\r\n';
    const { front } = await pair(always(`HTTP/1.1 100 Continue\r\n\r\n${early}${ok}`));
    const ask = (version: string): Promise<string> =>
      rawAsk(front.port, `GET / HTTP/${version}\r\nHost: example.com\r\nConnection: close\r\n\r\n`);
    expect(await ask('1.1')).toMatch(
      /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a\.css>; rel=preload\r\nlink: <\/b\.css>\r\n\r\nHTTP\/1\.1 200 OK\r\n/,
    );
    expect(await ask('1.0')).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  });
});

describe('connections to the origin', () => {
  test('are kept and used again, unless the origin closes or says that it will', async () => {
    const { origin, front } = await pair(async (side) => {
      for (;;) {
        const head = await side.head();
        await side.send(head.startsWith('GET /last') ? ok.replace('\r\n', '\r\nConnection: close\r\n') : ok);
      }
    });
    const client = await rawHttp(front.port);
    const ask = async (path: string, count: number): Promise<void> => {
      client.send(`GET ${path} HTTP/1.1\r\nHost: example.com\r\n\r\n`);
      await client.until(new RegExp(`(?:\r\n\r\nok[^]*){${count}}`));
    };
    await ask('/1', 1);
    await ask('/2', 2);
    expect(origin.connections()).toBe(1);
    await ask('/last', 3);
    await ask('/4', 4);
    expect(origin.connections()).toBe(2);
    client.socket.destroy();
  });

  test('are not used again after their hint, nor after octets that nobody asked for', async () => {
    let now = 1_000_000;
    const { origin, front } = await pair(
      async (side) => {
        for (;;) {
          const head = await side.head();
          const hint = head.startsWith('GET /hint') ? '\r\nKeep-Alive: timeout=5\r\n' : '\r\n';
          await side.send(ok.replace('\r\n', hint) + (head.startsWith('GET /extra') ? ok : ''));
        }
      },
      { clock: clockOf(() => now) },
    );
    const ask = (path: string): Promise<string> =>
      rawAsk(front.port, `GET ${path} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n`);
    await ask('/hint');
    now += 3999;
    await ask('/');
    expect(origin.connections()).toBe(1);
    await ask('/hint');
    now += 4000;
    await ask('/');
    expect(origin.connections()).toBe(2);
    now += 14_999;
    await ask('/');
    expect(origin.connections()).toBe(2);
    now += 15_000;
    expect(await ask('/extra')).toMatch(/\r\n\r\nok$/);
    expect(origin.connections()).toBe(3);
    expect(await ask('/')).toMatch(/\r\n\r\nok$/);
    expect(origin.connections()).toBe(4);
  });

  test('that die before an octet of the reply are replaced once, for a request that may be repeated', async () => {
    const dying = async (side: OriginSide): Promise<void> => {
      await side.head();
      await side.send(ok);
      await side.head();
      side.socket.destroy();
    };
    const { origin, front } = await pair((side) => (side.number === 1 ? dying(side) : always(ok)(side)));
    const ask = (line: string): Promise<string> =>
      rawAsk(front.port, `${line} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n`);
    expect(await ask('GET /1')).toMatch(/^HTTP\/1\.1 200 /);
    expect(await ask('DELETE /2')).toMatch(/^HTTP\/1\.1 200 /);
    expect(origin.connections()).toBe(2);
    expect(origin.received()[1]).toMatch(/^DELETE \/2 /);
  });

  test.each(['POST / HTTP/1.1\r\n', 'PUT / HTTP/1.1\r\nContent-Length: 1\r\n', 'PATCH / HTTP/1.1\r\n'])(
    'that die under %j are not replaced',
    async (start) => {
      const { origin, front } = await pair(async (side) => {
        await side.head();
        await side.send(ok);
        await side.head();
        side.socket.destroy();
      });
      const ask = (text: string): Promise<string> =>
        rawAsk(
          front.port,
          `${text}Host: example.com\r\nConnection: close\r\n\r\n${text.includes('Length') ? 'x' : ''}`,
        );
      await ask('GET / HTTP/1.1\r\n');
      expect(await ask(start)).toContain(marker(520));
      expect(origin.connections()).toBe(1);
    },
  );

  test('that die at once when fresh, or twice, end it', async () => {
    const { origin, front } = await pair(async (side) => {
      await side.head();
      if (side.number === 1) {
        await side.send(ok);
        await side.head();
      }
      side.socket.destroy();
    });
    const ask = (): Promise<string> =>
      rawAsk(front.port, 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    await ask();
    expect(await ask()).toContain(marker(520));
    expect(origin.connections()).toBe(2);
    expect(await ask()).toContain(marker(520));
    expect(origin.connections()).toBe(3);
  });

  test('close when their client goes', async () => {
    let gone: Promise<void> | undefined;
    const { front } = await pair(async (side) => {
      await side.head();
      gone = side.gone();
      // An end alone may come from a client that still reads.
      client.socket.resetAndDestroy();
    });
    const client = await rawHttp(front.port);
    client.send('GET / HTTP/1.1\r\nHost: example.com\r\n\r\n');
    await client.closed();
    await gone;
    await expect.poll(() => front.proxy.open()).toBe(0);
    expect(front.failures).toEqual([]);
  });
});

describe('stopping', () => {
  test('closes idle connections, lets what is under way end, and cuts the rest', async () => {
    let answer: (() => Promise<void>) | undefined;
    const { origin, front } = await pair(async (side) => {
      for (;;) {
        const head = await side.head();
        if (head.startsWith('GET /slow')) answer = () => side.send(ok);
        else if (head.startsWith('GET /idle')) await side.send(ok);
      }
    });
    const ask = (path: string): Promise<string> =>
      rawAsk(front.port, `GET ${path} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n`);
    await ask('/idle');
    expect(origin.connections()).toBe(1);
    const slow = ask('/slow');
    const never = ask('/never');
    await expect.poll(() => front.proxy.open()).toBe(2);
    await expect.poll(() => answer).toBeDefined();
    const closing = front.proxy.close(300);
    await answer?.();
    expect(await slow).toMatch(/\r\n\r\nok$/);
    expect(await never).toBe('');
    await closing;
    expect(front.proxy.open()).toBe(0);
  });
});

test('an origin given by name, over IPv6 where the name has only that', async () => {
  const server = createServer((_request, response) => response.end('six'));
  server.listen(0, '::1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const front = await originFront({
    origin: `http://origin.test:${port}`,
    lookup: (_name, options, callback) =>
      options.all === true ? callback(null, [{ address: '::1', family: 6 }]) : callback(null, '::1', 6),
  });
  open.push(front);
  const text = await rawAsk(front.port, 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
  expect(text).toMatch(/\r\n\r\nsix$/);
  server.closeAllConnections();
  server.close();
});
