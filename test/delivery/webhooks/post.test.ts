// Where a request of a webhook may lead, and what an endpoint can do to the one who asks (D54).

import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type LookupFunction } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Poster, type PosterParts } from '../../../src/delivery/webhooks/post.ts';
import { makeSecret, readSecretOctets, signatureOf } from '../../../src/delivery/webhooks/secret.ts';
import { createAddressGuard, urlFault } from '../../../src/delivery/webhooks/webhook-url.ts';
import { testCertificate } from '../../support/certificate.ts';
import { type HookAnswer, startHookEndpoint } from '../../support/hook-endpoint.ts';

const loopback = createAddressGuard({ allowNetworks: ['127.0.0.0/8'] });
const closed = createAddressGuard({ allowNetworks: [] });

function poster(parts: Partial<PosterParts> = {}) {
  const made = new Poster({ refuse: loopback, timeoutMs: 60_000, ...parts });
  onTestFinished(() => made.close());
  return (url: string, signal = new AbortController().signal, owner = 'dev') =>
    made.post({ owner, url, headers: {}, body: '{}', signal });
}

/** A resolver that answers with these addresses, one after another. */
function resolver(...answers: readonly string[]): LookupFunction {
  let asked = 0;
  return (_name, _options, callback) => {
    const address = answers[Math.min(asked, answers.length - 1)] ?? '';
    asked += 1;
    callback(null, [{ address, family: address.includes(':') ? 6 : 4 }]);
  };
}

describe('addresses', () => {
  test.each([
    ...['127.0.0.1', '127.8.9.1', '0.0.0.0', '10.1.2.3', '172.16.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1'],
    ...[
      '192.0.2.1',
      '198.51.100.7',
      '203.0.113.9',
      '198.18.0.1',
      '192.0.0.8',
      '224.0.0.1',
      '240.0.0.1',
      '255.255.255.255',
    ],
    ...['::1', '::', '::ffff:127.0.0.1', '::ffff:7f00:1', '::127.0.0.1', '64:ff9b::7f00:1', '64:ff9b:1::7f00:1'],
    ...[
      '2002:7f00:1::',
      '2002:a00:1::1',
      'fe80::1',
      'fc00::1',
      'fd12::1',
      'fec0::1',
      'ff02::1',
      '2001:db8::1',
      '3fff::1',
    ],
    ...['2001::1', '100::1', 'fe80::1%lo', 'no address', ''],
  ])('%s is not called', (address) => {
    expect(closed(address, 443)).toMatch(/\S/);
  });

  test.each(['8.8.8.8', '1.1.1.1', '2606:4700::1111', '2a00:1450:4001::1', '64:ff9b::808:808', '::ffff:8.8.8.8'])(
    '%s is called',
    (address) => {
      expect(closed(address, 443)).toBeUndefined();
    },
  );

  test('what operators allow is called, but never Postern itself', () => {
    const guard = createAddressGuard({
      allowNetworks: ['10.0.0.0/8', '127.0.0.0/8'],
      isOwn: (address, port) => address === '127.0.0.1' && port === 8080,
    });
    expect(guard('10.1.1.1', 8080)).toBeUndefined();
    expect(guard('192.168.0.1', 8080)).toMatch(/no public address/);
    expect(guard('127.0.0.1', 9090)).toBeUndefined();
    for (const own of ['127.0.0.1', '0.0.0.0', '::ffff:127.0.0.1', '2002:7f00:1::'])
      expect(guard(own, 8080), own).toMatch(/Postern itself/);
  });
});

describe('URLs', () => {
  const fault = (url: string, allowHttp = false) => urlFault(url, { allowHttp, refuse: closed });

  test.each([
    ...['http://hooks.example/', 'ftp://hooks.example/', 'hooks.example', '', 'https://', 'https://a b.example/'],
    ...['https://user@hooks.example/', 'https://user:word@hooks.example/', 'https://hooks.example/#part'],
    ...['https://127.0.0.1/', 'https://127.1/', 'https://2130706433/', 'https://0x7f.1/', 'https://0177.0.0.1/'],
    ...[
      'https://[::1]/',
      'https://[::ffff:7f00:1]/',
      'https://[::ffff:127.0.0.1]/',
      'https://0/',
      'https://10.0.0.1:8443/',
    ],
    ...['https://hooks.example:0/', `https://hooks.example/${'a'.repeat(2000)}`, 'https://hooks.example/\r\nX: y'],
    'https://hooks.example\\@127.0.0.1/ ',
  ])('%j is refused', (url) => {
    expect(fault(url)).toMatch(/\S/);
  });

  test('others are taken, plain HTTP where it is allowed', () => {
    expect(fault('https://hooks.example/in?a=b')).toBeUndefined();
    expect(fault('https://hooks.example:8443/')).toBeUndefined();
    expect(fault('http://hooks.example/', true)).toBeUndefined();
  });
});

describe('a request', () => {
  test('to a name goes only where the address may be called, at each connection', async () => {
    const endpoint = await startHookEndpoint();
    const url = `http://hooks.example:${endpoint.port}/`;
    expect(await poster({ lookup: resolver('127.0.0.1') })(url)).toEqual({ status: 200 });
    const moved = poster({ refuse: closed, lookup: resolver('127.0.0.1') });
    // The error stands in the account's log, and tells nothing of the addresses that names of this network have.
    const error = 'may not be called: the name leads to no address that may be called';
    expect(await moved(url)).toEqual({ error });
    const mapped = poster({ refuse: closed, lookup: resolver('::ffff:127.0.0.1') });
    expect(await mapped(url)).toEqual({ error: expect.stringMatching(/^may not be called/) });
    expect(await poster({ refuse: closed })(`http://localhost:${endpoint.port}/`)).toEqual({
      error: expect.stringMatching(/^may not be called/),
    });
    expect(endpoint.requests).toHaveLength(1);
  });

  test('to a name that means another address at the second look does not follow it', async () => {
    const endpoint = await startHookEndpoint((_, index) =>
      index === 0 ? (_request, response) => response.writeHead(200, { connection: 'close' }).end() : 200,
    );
    // The first answer may be called, the second is loopback too, but in a range that may not.
    const refuse = createAddressGuard({ allowNetworks: ['127.0.0.1/32'] });
    const post = poster({ refuse, lookup: resolver('127.0.0.1', '127.0.0.2') });
    const url = `http://rebinding.example:${endpoint.port}/`;
    expect(await post(url)).toEqual({ status: 200 });
    expect(await post(url)).toEqual({ error: expect.stringMatching(/^may not be called: the name leads to no/) });
    expect(endpoint.requests).toHaveLength(1);
  });

  test('on a connection that is still open is judged by the settings of now', async () => {
    const endpoint = await startHookEndpoint();
    let isAllowed = true;
    const post = poster({ refuse: (address) => (isAllowed ? undefined : `${address} is forbidden now`) });
    const url = `http://localhost:${endpoint.port}/`;
    expect(await post(url)).toEqual({ status: 200 });
    isAllowed = false;
    expect(await post(url)).toEqual({ error: expect.stringContaining('forbidden now') });
    expect(endpoint.requests).toHaveLength(1);
  });

  test('does not follow redirects', async () => {
    const target = await startHookEndpoint();
    const endpoint = await startHookEndpoint(() => (_request, response) => {
      response.writeHead(307, { location: target.url }).end();
    });
    expect(await poster()(endpoint.url)).toEqual({ status: 307 });
    expect(target.requests).toEqual([]);
  });

  const endless: readonly [string, HookAnswer, unknown][] = [
    ['hangs', () => undefined, { error: 'no answer within 0.5 s' }],
    [
      'drips its head',
      (_request, response) => {
        response.socket?.write('HTTP/1.1 200 OK\r\n');
        const drip = setInterval(() => response.socket?.write('X: y\r\n'), 20);
        response.socket?.on('close', () => clearInterval(drip));
      },
      { error: 'no answer within 0.5 s' },
    ],
    [
      'sends an endless head',
      (_request, response) => {
        const flood = (): void => {
          while (response.socket?.write(`X-Long: ${'a'.repeat(1000)}\r\n`) === true);
        };
        response.socket?.write('HTTP/1.1 200 OK\r\n');
        response.socket?.on('drain', flood);
        response.socket?.on('error', () => undefined);
        flood();
      },
      { error: expect.stringMatching(/overflow|HPE_HEADER/i) },
    ],
    [
      'sends an endless body',
      (_request, response) => {
        const flood = (): void => {
          while (!response.destroyed && response.write(Buffer.alloc(65_536)));
        };
        response.writeHead(200);
        response.on('drain', flood);
        response.on('error', () => undefined);
        flood();
      },
      { status: 200 },
    ],
    [
      'drips its body',
      (_request, response) => {
        response.writeHead(200);
        const drip = setInterval(() => response.write('.'), 20);
        response.on('close', () => clearInterval(drip));
      },
      { status: 200 },
    ],
    [
      'resets',
      (_request, response) => response.socket?.resetAndDestroy(),
      { error: expect.stringContaining('ECONNRESET') },
    ],
    [
      'changes to another protocol',
      (_request, response) => {
        response.socket?.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n');
      },
      { status: 101 },
    ],
    [
      'sends informational answers without an end',
      (_request, response) => {
        const flood = setInterval(() => response.socket?.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)), 1);
        response.on('close', () => clearInterval(flood));
      },
      { error: 'too many informational answers' },
    ],
    [
      'sends some informational answers',
      (_request, response) => {
        for (let count = 0; count < 32; count += 1) response.writeEarlyHints({ link: '</a>; rel=preload' });
        response.writeHead(204).end();
      },
      { status: 204 },
    ],
    ['speaks nonsense', (_request, response) => response.socket?.end('no HTTP\r\n\r\n'), { error: expect.any(String) }],
  ];

  /** What goes on until the time of a request is over; all else ends by itself, and is given the time that it takes. */
  const endsByTime = new Set(['hangs', 'drips its head', 'drips its body']);

  test.each(endless)('ends in time where the endpoint %s', async (name, answer, expected) => {
    const endpoint = await startHookEndpoint(() => answer);
    const post = poster(endsByTime.has(name) ? { timeoutMs: 500 } : {});
    expect(await post(endpoint.url)).toEqual(expected);
  });

  test('waits for no requests of another account to the same host, however many of those hang', async () => {
    const endpoint = await startHookEndpoint((_, index) => (index < 64 ? () => undefined : 200));
    const post = poster();
    const ending = new AbortController();
    const hanging = Array.from({ length: 100 }, () => post(endpoint.url, ending.signal));
    await expect.poll(() => endpoint.requests.length).toBe(64);
    expect(await post(endpoint.url, undefined, 'other')).toEqual({ status: 200 });
    ending.abort();
    await Promise.all(hanging);
  });

  test('ends where nobody listens, and where the process ends', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    expect(await poster()(`http://127.0.0.1:${port}/`)).toEqual({ error: expect.stringContaining('ECONNREFUSED') });
    const endpoint = await startHookEndpoint(() => () => undefined);
    const ending = new AbortController();
    const posted = poster()(endpoint.url, ending.signal);
    await expect.poll(() => endpoint.requests.length).toBe(1);
    ending.abort();
    expect(await posted).toEqual({ error: expect.any(String) });
  });

  test('by https takes only a certificate that is valid for the name', async () => {
    const made = await testCertificate(['hooks.example']);
    const server = createHttpsServer(made, (request, response) => {
      request.resume();
      response.end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const parts = { lookup: resolver('127.0.0.1') };
    const trusting = poster({ ...parts, ca: made.cert });
    expect(await trusting(`https://hooks.example:${port}/`)).toEqual({ status: 200 });
    expect(await trusting(`https://other.example:${port}/`)).toEqual({ error: expect.stringMatching(/ALTNAME/) });
    expect(await poster(parts)(`https://hooks.example:${port}/`)).toEqual({
      error: expect.stringMatching(/SELF_SIGNED/),
    });
  });
});

test('secrets are whsec_ and base64 of 24 to 64 octets, and two sign side by side', () => {
  const [one, two] = [makeSecret(), makeSecret()];
  expect(readSecretOctets(one)).toHaveLength(32);
  const wrong = [
    '',
    'whsec_',
    'whsec_AAAA',
    one.slice(6),
    `${one}A`,
    `whsec_${'*'.repeat(44)}`,
    `whsec_${'A'.repeat(120)}`,
  ];
  for (const secret of wrong) expect(readSecretOctets(secret), secret).toBeUndefined();
  const request = { id: 'evt_1', timestamp: 5, body: '{}' };
  expect(signatureOf([one, two], request)).toBe(`${signatureOf([one], request)} ${signatureOf([two], request)}`);
  expect(() => signatureOf(['whsec_short'], request)).toThrow(/whsec_/);
});
