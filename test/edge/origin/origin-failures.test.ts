// Each way an origin can fail, produced for real on loopback, and the code it gets (D66).

import { once } from 'node:events';
import { connect, type LookupFunction } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { generate } from 'selfsigned';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type TestCertificate, testCertificate } from '../../support/certificate.ts';
import { always, faultOrigin, type OriginSide } from '../../support/fault-origin.ts';
import { freePort } from '../../support/free-port.ts';
import { logLines } from '../../support/log-lines.ts';
import { manualClock } from '../../support/manual-clock.ts';
import { type FrontOptions, marker, type OriginFront, originFront } from '../../support/origin-front.ts';
import { rawAsk, rawHttp } from '../../support/raw-http.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

const get = 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n';
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

async function frontOf(options: FrontOptions): Promise<OriginFront> {
  const front = await originFront(options);
  open.push(front);
  return front;
}

async function frontBefore(
  behave: (origin: OriginSide) => Promise<void> | void,
  options: Partial<FrontOptions> = {},
): Promise<OriginFront> {
  const origin = await faultOrigin(behave);
  open.push(origin);
  return frontOf({ origin: `http://127.0.0.1:${origin.port}`, ...options });
}

/** Listens in a thread that never accepts, and fills the queue of connections that wait to be accepted. */
async function fullBacklog(): Promise<number> {
  const worker = new Worker(
    `const { createServer } = require('node:net');
     const { parentPort } = require('node:worker_threads');
     const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
     });`,
    { eval: true },
  );
  const [port] = (await once(worker, 'message')) as [number];
  const waiting = Array.from({ length: 12 }, () => connect({ port, host: '127.0.0.1' }).on('error', () => undefined));
  open.push({
    close: async () => {
      for (const socket of waiting) socket.destroy();
      await worker.terminate();
    },
  });
  await once(waiting[1] ?? worker, 'connect');
  return port;
}

describe('no connection', () => {
  test('521: refused', async () => {
    const front = await frontOf({ origin: `http://127.0.0.1:${await freePort()}` });
    expect(await rawAsk(front.port, get)).toContain(marker(521));
    expect(front.failures).toEqual([521]);
  });

  test('521: every address of a name refuses', async () => {
    const lookup: LookupFunction = (_name, options, callback) =>
      options.all === true
        ? callback(null, [
            { address: '127.0.0.2', family: 4 },
            { address: '127.0.0.3', family: 4 },
          ])
        : callback(null, '127.0.0.2', 4);
    const front = await frontOf({ origin: `http://origin.test:${await freePort()}`, lookup });
    expect(await rawAsk(front.port, get)).toContain(marker(521));
  });

  test('522: nobody accepts within the connect timeout', async () => {
    const front = await frontOf({ origin: `http://127.0.0.1:${await fullBacklog()}`, connectTimeoutSeconds: 0.5 });
    expect(await rawAsk(front.port, get)).toContain(marker(522));
    expect(front.failures).toEqual([522]);
  });

  test('523: no way to the address', async () => {
    // A stream to a group of hosts: every system refuses it as unreachable, whatever its routes are.
    const front = await frontOf({ origin: 'http://224.0.0.1:80' });
    expect(await rawAsk(front.port, get)).toContain(marker(523));
    expect(front.failures).toEqual([523]);
  });

  test('1016: the name does not resolve', async () => {
    // RFC 6761 §6.4: nothing ever resolves below `invalid`.
    const front = await frontOf({ origin: 'http://origin.invalid', connectTimeoutSeconds: 15 });
    expect(await rawAsk(front.port, get)).toContain(marker(1016));
    expect(front.failures).toEqual([1016]);
  });

  test('1016: the answer to the lookup does not come', async () => {
    const front = await frontOf({ origin: 'http://origin.test', connectTimeoutSeconds: 0.3, lookup: () => undefined });
    expect(await rawAsk(front.port, get)).toContain(marker(1016));
  });

  test('is told to the log with its cause, without what the client sent', async () => {
    const { log, lines } = logLines();
    const front = await frontOf({ origin: `http://127.0.0.1:${await freePort()}`, log });
    await rawAsk(front.port, get.replace('GET /', 'GET /?secret').replace('\r\n', '\r\nAuthorization: secret\r\n'));
    expect(lines).toMatchObject([{ code: 521, cause: 'connect: ECONNREFUSED', begun: false, zone: 'example.com' }]);
    expect(JSON.stringify(lines)).not.toContain('secret');
  });
});

describe('TLS', () => {
  let good: TestCertificate;
  let stranger: TestCertificate;
  let otherName: TestCertificate;
  let expired: TestCertificate;

  beforeAll(async () => {
    good = await testCertificate(['example.com']);
    stranger = await testCertificate(['example.com']);
    otherName = await testCertificate(['other.example']);
    const day = 86_400_000;
    const made = await generate([{ name: 'commonName', value: 'example.com' }], {
      algorithm: 'sha256',
      notBeforeDate: new Date(Date.now() - 10 * day),
      notAfterDate: new Date(Date.now() - day),
      extensions: [
        { name: 'basicConstraints', cA: true },
        { name: 'subjectAltName', altNames: [{ type: 2, value: 'example.com' }] },
      ],
    });
    expired = { key: made.private, cert: made.cert };
  });

  async function secureFront(
    certificate: TestCertificate,
    options: { readonly ca?: readonly string[]; readonly tls?: 'strict' | 'full'; readonly server?: TlsOptions },
    behave: (origin: OriginSide) => Promise<void> | void = always(ok),
  ): Promise<OriginFront> {
    const origin = await faultOrigin(behave, { tls: { ...certificate, ...options.server } });
    open.push(origin);
    const url = `https://127.0.0.1:${origin.port}`;
    return frontOf({
      origin: options.tls ? { url, tls: options.tls } : url,
      ...(options.ca ? { ca: options.ca } : {}),
    });
  }

  test('a certificate for the requested host name, by SNI, is taken; the connection is used again', async () => {
    const names: string[] = [];
    const front = await secureFront(good, { ca: [good.cert] }, async (side) => {
      names.push(String((side.socket as { servername?: unknown }).servername));
      await always(ok)(side);
    });
    const ask = get.replace('Host: example.com', 'Host: EXAMPLE.com.:1');
    expect(await rawAsk(front.port, ask)).toMatch(/\r\n\r\nok$/);
    expect(await rawAsk(front.port, ask)).toMatch(/\r\n\r\nok$/);
    expect(names).toEqual(['example.com']);
  });

  test("a certificate for the host in the origin's URL is taken too", async () => {
    const own = await testCertificate(['backend.test', '127.0.0.1']);
    const front = await secureFront(own, { ca: [own.cert] });
    expect(await rawAsk(front.port, get)).toMatch(/\r\n\r\nok$/);
  });

  test('526: self-signed, or of an unknown authority', async () => {
    expect(await rawAsk((await secureFront(good, {})).port, get)).toContain(marker(526));
    expect(await rawAsk((await secureFront(stranger, { ca: [good.cert] })).port, get)).toContain(marker(526));
  });

  test('526: expired', async () => {
    const front = await secureFront(expired, { ca: [expired.cert] });
    expect(await rawAsk(front.port, get)).toContain(marker(526));
  });

  test('526: for another name; nothing of the request is sent, and a second attempt fails as well', async () => {
    const origin = await faultOrigin(always(ok), { tls: { ...otherName } });
    open.push(origin);
    const front = await frontOf({ origin: `https://127.0.0.1:${origin.port}`, ca: [otherName.cert] });
    expect(await rawAsk(front.port, get)).toContain(marker(526));
    expect(await rawAsk(front.port, get)).toContain(marker(526));
    expect(origin.received().join('')).toBe('');
  });

  test('full takes any certificate', async () => {
    for (const certificate of [good, expired, otherName]) {
      const front = await secureFront(certificate, { tls: 'full' });
      expect(await rawAsk(front.port, get)).toMatch(/\r\n\r\nok$/);
    }
  });

  test('strict and full do not share connections, nor do host names', async () => {
    const origin = await faultOrigin(always(ok), { tls: { ...good } });
    open.push(origin);
    const front = await frontOf({
      origin: `https://127.0.0.1:${origin.port}`,
      ca: [good.cert],
      hostnames: ['example.com', 'www.example.com'],
    });
    expect(await rawAsk(front.port, get)).toMatch(/\r\n\r\nok$/);
    expect(await rawAsk(front.port, get.replace('Host: ', 'Host: www.'))).toContain(marker(526));
  });

  test('525: plain text on the port', async () => {
    const origin = await faultOrigin((side) => side.send('HTTP/1.1 400 Bad Request\r\n\r\n'));
    open.push(origin);
    for (const tls of ['strict', 'full'] as const) {
      const front = await frontOf({ origin: { url: `https://127.0.0.1:${origin.port}`, tls } });
      expect(await rawAsk(front.port, get)).toContain(marker(525));
    }
  });

  test('525: no common protocol version', async () => {
    const front = await secureFront(good, {
      ca: [good.cert],
      server: { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' },
    });
    expect(await rawAsk(front.port, get)).toContain(marker(525));
  });

  test('525: closed, or reset, in the handshake', async () => {
    for (const end of ['end', 'resetAndDestroy'] as const) {
      const origin = await faultOrigin(async (side) => {
        await side.octets(1);
        side.socket[end]();
      });
      open.push(origin);
      const front = await frontOf({ origin: `https://127.0.0.1:${origin.port}` });
      expect(await rawAsk(front.port, get)).toContain(marker(525));
    }
  });

  test('525: no answer to the handshake within the connect timeout', async () => {
    const origin = await faultOrigin(() => undefined);
    open.push(origin);
    const front = await frontOf({ origin: `https://127.0.0.1:${origin.port}`, connectTimeoutSeconds: 0.3 });
    expect(await rawAsk(front.port, get)).toContain(marker(525));
  });

  test('521 and 1016 come before TLS', async () => {
    const refused = await frontOf({ origin: `https://127.0.0.1:${await freePort()}` });
    expect(await rawAsk(refused.port, get)).toContain(marker(521));
    const unknown = await frontOf({ origin: 'https://origin.invalid' });
    expect(await rawAsk(unknown.port, get)).toContain(marker(1016));
  });
});

describe('no head', () => {
  test('524: nothing within the response timeout', async () => {
    const front = await frontBefore(() => undefined, { responseTimeoutSeconds: 0.3 });
    expect(await rawAsk(front.port, get)).toContain(marker(524));
    expect(front.failures).toEqual([524]);
  });

  test('524: a head that comes octet by octet and never ends', async () => {
    const front = await frontBefore(
      async (side) => {
        await side.head();
        await side.send('HTTP/1.1 200 OK\r\nX: ');
        const drip = setInterval(() => side.socket.write('x'), 50);
        side.socket.once('close', () => clearInterval(drip));
      },
      { responseTimeoutSeconds: 0.4 },
    );
    expect(await rawAsk(front.port, get)).toContain(marker(524));
  });

  test('524: the body was taken and nothing came, or was not taken at all', async () => {
    const taken = await frontBefore(() => undefined, { responseTimeoutSeconds: 0.3 });
    const post = 'POST / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\nContent-Length: ';
    expect(await rawAsk(taken.port, `${post}3\r\n\r\nabc`)).toContain(marker(524));
    const stuck = await frontBefore((side) => void side.socket.pause(), { responseTimeoutSeconds: 0.3 });
    const client = await rawHttp(stuck.port);
    client.send(`${post}50000000\r\n\r\n`);
    client.send(Buffer.alloc(50_000_000));
    expect(await client.until('edge error')).toContain(marker(524));
    client.socket.destroy();
  });

  test('524: a client that waits for 100, and an origin that says nothing', async () => {
    const front = await frontBefore(() => undefined, { responseTimeoutSeconds: 0.3 });
    const ask = 'POST / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n';
    expect(await rawAsk(front.port, ask)).toContain(marker(524));
  });

  test("a client that sends its body slowly is not the origin's fault", async () => {
    const front = await frontBefore(
      async (side) => {
        await side.head();
        await side.octets(11);
        await side.send(ok);
      },
      { responseTimeoutSeconds: 1 },
    );
    const client = await rawHttp(front.port);
    client.send('POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 11\r\nConnection: close\r\n\r\n');
    for (const letter of 'very slowly') {
      client.send(letter);
      // Longer than the timeout altogether, on purpose, in steps far shorter.
      await new Promise((resolve) => setTimeout(resolve, 110));
    }
    expect((await client.closed()).text).toMatch(/\r\n\r\nok$/);
    expect(front.failures).toEqual([]);
  });

  test.each(['Content-Length: 10', 'Transfer-Encoding: chunked'])(
    'a body that stops (%s) is 408, and closes the connections of client and origin',
    async (framing) => {
      let gone: Promise<void> | undefined;
      const front = await frontBefore(
        async (side) => {
          await side.head();
          gone = side.gone();
        },
        { responseTimeoutSeconds: 0.3 },
      );
      const client = await rawHttp(front.port);
      client.send(`POST / HTTP/1.1\r\nHost: example.com\r\n${framing}\r\n\r\n4\r\nab`);
      const text = await client.until('Request Timeout\n');
      expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
      expect(text).toContain('Connection: close');
      await gone;
      client.socket.end();
      expect((await client.closed()).text.match(/HTTP\/1\.1/g)).toHaveLength(1);
      expect(front.proxy.open()).toBe(0);
    },
  );

  /** Sends a minute of a body, a piece every ten seconds, and one octet more. */
  async function drip(options: { readonly octetsEachTenSeconds: number; readonly early?: boolean }) {
    const clock = manualClock();
    let gone: Promise<void> | undefined;
    const origin = await faultOrigin(async (side) => {
      await side.head();
      gone = side.gone();
      if (options.early === true) await side.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n');
    });
    open.push(origin);
    const front = await frontOf({ origin: `http://127.0.0.1:${origin.port}`, clock, responseTimeoutSeconds: 60 });
    const client = await rawHttp(front.port);
    client.send('POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 100000\r\n\r\n');
    if (options.early === true) await client.until('\r\n\r\n');
    const bodyOctets = (): number => origin.received()[0]?.split('\r\n\r\n')[1]?.length ?? 0;
    for (let sent = 0; sent < 6; sent += 1) {
      client.send('x'.repeat(options.octetsEachTenSeconds));
      await expect.poll(bodyOctets).toBe((sent + 1) * options.octetsEachTenSeconds);
      clock.pass(10);
    }
    client.send('x');
    return { client, front, bodyOctets, gone: () => gone };
  }

  test('a body of under 100 octets a second over a minute is 408, and closes the connections of client and origin', async () => {
    const { client, front, gone } = await drip({ octetsEachTenSeconds: 999 });
    const text = await client.until('Request Timeout\n');
    expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    await gone();
    client.socket.end();
    await client.closed();
    expect(front.failures).toEqual([]);
    expect(front.proxy.open()).toBe(0);
  });

  test.each([
    ['100 octets a second', { octetsEachTenSeconds: 1000 }],
    ['a slow body whose answer has begun', { octetsEachTenSeconds: 1, early: true }],
  ])('%s goes on', async (_what, options) => {
    const { client, bodyOctets } = await drip(options);
    await expect.poll(bodyOctets).toBe(6 * options.octetsEachTenSeconds + 1);
    expect(client.text()).not.toContain('408');
    client.socket.destroy();
  });

  test('a body that stops once the head was passed on closes both connections, and nothing is appended', async () => {
    let gone: Promise<void> | undefined;
    const front = await frontBefore(
      async (side) => {
        await side.head();
        gone = side.gone();
        await side.send('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab');
      },
      { responseTimeoutSeconds: 0.3 },
    );
    const client = await rawHttp(front.port);
    client.send('POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 10\r\n\r\nab');
    const { text } = await client.closed();
    expect(text.split('\r\n\r\n')).toHaveLength(2);
    expect(text).toMatch(/\r\n\r\nab$/);
    await gone;
    await expect.poll(() => front.proxy.open()).toBe(0);
  });

  const long = 'x'.repeat(70_000);
  const bad: Readonly<Record<string, string>> = {
    'an empty reply': '',
    garbage: '\x16\x03\x01 hello\r\n\r\n',
    'another protocol, without an empty line': 'SSH-2.0-OpenSSH_9.2\r\n',
    'a body without a head (HTTP/0.9)': '<html><body>hello</body></html>',
    'half a head': 'HTTP/1.1 200 OK\r\nContent-Le',
    'HTTP/2': 'HTTP/2 200\r\nContent-Length: 0\r\n\r\n',
    'another version': 'HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n',
    'a status of two digits': 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n',
    'a status of four digits': 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n',
    'a status below 100': 'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n',
    'no blank before the reason': 'HTTP/1.1 200OK\r\nContent-Length: 0\r\n\r\n',
    'a control in the reason': 'HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n',
    'lines that end in a bare LF': 'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
    'one line that ends in a bare LF': 'HTTP/1.1 200 OK\r\nX: 1\nY: 2\r\nContent-Length: 0\r\n\r\n',
    'a bare CR in a value': 'HTTP/1.1 200 OK\r\nX: 1\rY: 2\r\nContent-Length: 0\r\n\r\n',
    'NUL in a value': 'HTTP/1.1 200 OK\r\nX: 1\x00\r\nContent-Length: 0\r\n\r\n',
    'a blank before the colon': 'HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n',
    'a line without a colon': 'HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n',
    'a field without a name': 'HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n',
    'a folded line': 'HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\nContent-Length: 0\r\n\r\n',
    'a folded first line': 'HTTP/1.1 200 OK\r\n X: 1\r\nContent-Length: 0\r\n\r\n',
    'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    'two lengths in a line': 'HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab',
    'a signed length': 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab',
    'a negative length': 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
    'a length in hex': 'HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nab',
    'a length that is too large': 'HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\nab',
    'an empty length': 'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nab',
    'a length and chunks':
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n',
    'another coding': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'chunked twice': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'something like chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    'chunks in HTTP/1.0': 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'a change of protocol that nobody asked for': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n',
    'a head that is too large': `HTTP/1.1 200 OK\r\nX: ${long}\r\n\r\n`,
    'a head without an end': `HTTP/1.1 200 OK\r\n${`X: ${'x'.repeat(1000)}\r\n`.repeat(70)}`,
    'too many fields': `HTTP/1.1 200 OK\r\n${'a:\r\n'.repeat(1001)}\r\n`,
    'informational replies without end': 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(40),
  };

  test.each(Object.entries(bad))('520: %s', async (_name, reply) => {
    // In one piece, and with every octet in a piece of its own as far as that can be had.
    for (const split of [false, true]) {
      const front = await frontBefore(async (side) => {
        await side.head();
        const bytes = Buffer.from(reply, 'latin1');
        if (split) for (const octet of bytes.subarray(0, 60)) await side.send(Buffer.of(octet));
        await side.send(split ? bytes.subarray(60) : bytes);
        side.socket.end();
      });
      const text = await rawAsk(front.port, get);
      expect(text.slice(text.indexOf('HTTP/1.1 530'))).toContain(marker(520));
      expect(front.failures).toEqual([520]);
    }
  });

  test('520: garbage and an open connection are told at once, not by a timeout', async () => {
    for (const reply of [
      'SSH-2.0-OpenSSH_9.2\r\n',
      'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
      'HTTP/1.1 200 OK\r\nX: 1\n',
    ]) {
      const front = await frontBefore(always(reply), { responseTimeoutSeconds: 3600 });
      expect(await rawAsk(front.port, get)).toContain(marker(520));
    }
  });

  test('520: reset before the head', async () => {
    const front = await frontBefore(async (side) => {
      await side.head();
      side.socket.resetAndDestroy();
    });
    expect(await rawAsk(front.port, get)).toContain(marker(520));
  });

  test('520: a fault right behind the head, which is not sent on alone', async () => {
    const front = await frontBefore(async (side) => {
      await side.head();
      await side.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n');
    });
    expect(await rawAsk(front.port, get)).toContain(marker(520));
    expect(front.failures).toEqual([520]);
  });

  test('a head of just the limit passes, in one piece or many', async () => {
    const head = `HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ${'x'.repeat(65_536 - 43)}\r\n\r\n`;
    expect(head.length).toBe(65_536);
    for (const size of [100_000, 1000]) {
      const front = await frontBefore(async (side) => {
        await side.head();
        for (let at = 0; at < head.length; at += size) await side.send(head.slice(at, at + size));
        await side.send('ok');
      });
      const text = await rawAsk(front.port, get);
      expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nok$/);
    }
  });
});

describe('after the head', () => {
  const broken: Readonly<Record<string, { readonly body: string; readonly reset?: true }>> = {
    'a length that is not reached': { body: 'Content-Length: 10\r\n\r\n12345' },
    'chunks that stop': { body: 'Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n' },
    'a chunk that stops': { body: 'Transfer-Encoding: chunked\r\n\r\nff\r\n12345' },
    'chunks without the last empty line': { body: 'Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n' },
    'a bad chunk size': { body: 'Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nxyz\r\n' },
    'a chunk size with a sign': { body: 'Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n+1\r\nx\r\n0\r\n\r\n' },
    'a chunk longer than it says': { body: 'Transfer-Encoding: chunked\r\n\r\n5\r\n123456\r\n0\r\n\r\n' },
    'chunk lines that end in a bare LF': { body: 'Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n1\nx\n0\n\n' },
    'a bad trailer': { body: 'Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\nbad trailer\r\n\r\n' },
    'endless trailers': {
      body: `Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n${`X: ${'x'.repeat(1000)}\r\n`.repeat(20)}\r\n`,
    },
    'an endless chunk extension': {
      body: `Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n5;${'x'.repeat(5000)}\r\n12345\r\n0\r\n\r\n`,
    },
    'a reset': { body: 'Content-Length: 10\r\n\r\n12345', reset: true },
    'a reset where the end is the close': { body: '\r\n12345', reset: true },
  };

  test.each(Object.entries(broken))(
    "%s: the client's connection closes, and nothing is added",
    async (_name, fault) => {
      const front = await frontBefore(async (side) => {
        await side.head();
        await side.send(`HTTP/1.1 200 OK\r\nDate: d\r\n${fault.body}`);
        if (fault.reset) {
          await received;
          side.socket.resetAndDestroy();
        } else side.socket.end();
      });
      let tell: () => void = () => undefined;
      const received = new Promise<void>((resolve) => (tell = resolve));
      const client = await rawHttp(front.port);
      client.send('GET / HTTP/1.1\r\nHost: example.com\r\n\r\n');
      await client.until('12345');
      tell();
      const { text } = await client.closed();
      expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(text).toMatch(/12345(?:6)?(?:\r\n)?$/);
      expect(text).not.toContain('\r\n0\r\n');
      expect(text).not.toContain('edge error');
      expect(front.failures).toEqual([]);
      await expect.poll(() => front.proxy.open()).toBe(0);
    },
  );

  test('where the close ends the body, a reset tells an HTTP/1.0 client that it is not whole', async () => {
    const front = await frontBefore(async (side) => {
      await side.head();
      await side.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n');
      await received;
      side.socket.destroy();
    });
    let tell: () => void = () => undefined;
    const received = new Promise<void>((resolve) => (tell = resolve));
    const client = await rawHttp(front.port);
    client.send('GET / HTTP/1.0\r\nHost: example.com\r\n\r\n');
    await client.until('12345');
    tell();
    expect(await client.closed()).toMatchObject({ reset: true });
  });

  test('an idle body closes', async () => {
    const front = await frontBefore(
      async (side) => {
        await side.head();
        await side.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345');
      },
      { responseTimeoutSeconds: 0.3 },
    );
    expect(await rawAsk(front.port, get)).toMatch(/\r\n\r\n12345$/);
  });

  test('a body that goes on, however slowly, does not', async () => {
    const front = await frontBefore(
      async (side) => {
        await side.head();
        await side.send('HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n');
        for (const octet of '12345678') {
          await new Promise((resolve) => setTimeout(resolve, 150));
          await side.send(octet);
        }
      },
      { responseTimeoutSeconds: 1 },
    );
    expect(await rawAsk(front.port, get)).toMatch(/\r\n\r\n12345678$/);
  });

  test('a client that does not read is no idle origin', async () => {
    const body = Buffer.alloc(20_000_000, 'x');
    const front = await frontBefore(
      async (side) => {
        await side.head();
        await side.send(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`);
        await side.send(body);
      },
      { responseTimeoutSeconds: 0.6 },
    );
    const client = await rawHttp(front.port);
    client.send(get);
    await client.until('\r\n\r\n');
    client.socket.pause();
    // Twice the timeout, on purpose: what is shown is that nothing happens meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 1200));
    expect(front.proxy.open()).toBe(1);
    client.socket.resume();
    const { text } = await client.closed();
    expect(text.length - text.indexOf('\r\n\r\n') - 4).toBe(body.length);
  });

  test('a client that takes nothing at all is given up, and its origin connection closed', async () => {
    let gone: (() => Promise<void>) | undefined;
    const front = await frontBefore(
      async (side) => {
        await side.head();
        gone = () => side.gone();
        await side.send('HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n');
        while (!side.socket.destroyed) await side.send(Buffer.alloc(1_000_000));
      },
      { clientStallMs: 500 },
    );
    const client = await rawHttp(front.port);
    client.send(get);
    await client.until('\r\n\r\n');
    client.socket.pause();
    await expect.poll(() => front.proxy.open(), { timeout: 10_000 }).toBe(0);
    await gone?.();
    client.socket.destroy();
  });
});

test('a client that goes in the middle of its body takes the origin connection with it, and nobody is told an error', async () => {
  let gone: (() => Promise<void>) | undefined;
  const front = await frontBefore(async (side) => {
    gone = () => side.gone();
    await side.head();
  });
  for (const framing of ['Content-Length: 100', 'Transfer-Encoding: chunked']) {
    const client = await rawHttp(front.port);
    client.send(`POST / HTTP/1.1\r\nHost: example.com\r\n${framing}\r\n\r\n5\r\nhello\r\n`);
    await expect.poll(() => gone !== undefined).toBe(true);
    client.socket.resetAndDestroy();
    await gone?.();
    gone = undefined;
    await expect.poll(() => front.proxy.open()).toBe(0);
  }
  expect(front.failures).toEqual([]);
});
