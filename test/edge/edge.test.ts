// The edge over real sockets: routing by Host before the API, zones, their errors, lists and limits (D60, D66, D67).

import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { compilePage } from '../../src/edge/custom/error-page.ts';
import type { ErrorRequest } from '../../src/edge/errors/catalogue.ts';
import type { EdgeCount } from '../../src/edge/exchange.ts';
import { OriginProxy } from '../../src/edge/origin/origin-proxy.ts';
import type { EdgeZone } from '../../src/edge/zone/zone.ts';
import { succeed } from '../../src/web/http/envelope.ts';
import type { V4Plugin } from '../../src/web/http/v4-app.ts';
import { exampleZone, get, type RawAnswer, type Reached, readAnswer, speak, startEdge } from '../support/edge-app.ts';
import { always, faultOrigin } from '../support/fault-origin.ts';
import { logLines } from '../support/log-lines.ts';
import { clockOf } from '../support/manual-clock.ts';
import fc from '../support/properties.ts';

const things: V4Plugin = (app) => {
  app.get('/accounts/:account_id/things', { config: { scope: 'email:send' } }, async (request, reply) =>
    succeed(reply, { host: request.headers.host, url: request.raw.url }),
  );
};
const things4 = '/client/v4/accounts/dev/things';
const bearer = 'Authorization: Bearer dev-default';

/** What makes an answer what it is. */
function kindOf({ status, headers, body }: RawAnswer): string {
  if (headers['content-type']?.startsWith('text/plain')) return `${status} ${body.trim()}`;
  const code = /Error (\d+)/.exec(body)?.[1];
  if (code !== undefined) return `${status} error ${code}`;
  if (body.startsWith('{"success"')) return `${status} v4`;
  return body.startsWith('{"method"') ? `${status} origin` : `${status} ${headers['content-type']}`;
}

function told({ body }: RawAnswer): Reached {
  return JSON.parse(body) as Reached;
}

describe('who answers', () => {
  test.each([
    ['example.com', '/', '200 origin'],
    ['EXAMPLE.COM.:8080', '/', '200 origin'],
    ['www.example.com', '/', '200 origin'],
    ['example.com', things4, '200 origin'],
    ['example.com', '/livez', '200 origin'],
    ['example.com', '/errors/522', '200 origin'],
    ['nobody.example', things4, '200 v4'],
    ['nobody.example', '/client/v4/none', '404 v4'],
    ['192.0.2.1', things4, '200 v4'],
    ['nobody.example', '/livez', '200 live'],
    ['nobody.example', '/errors/522', '200 error 522'],
    ['localhost', '/errors/522', '200 error 522'],
    ['localhost', '/errors', '200 text/html; charset=utf-8'],
    ['localhost', '/errors/523x', '404 Not found'],
    ['localhost', '/errors/9999', '404 Not found'],
    ['localhost', '/errors/0522', '404 Not found'],
    ['localhost', '/errors/', '404 Not found'],
    ['localhost', '/nothing', '404 Not found'],
    ['127.0.0.1', '/cdn-cgi/error/522', '404 Not found'],
    ['127.0.0.2', '/', '403 error 1003'],
    ['[::1]', '/', '403 error 1003'],
    ['nobody.example', '/', '409 error 1004'],
    ['nobody.example', '/cdn-cgi/error/522', '409 error 1004'],
    ['xexample.com', '/', '409 error 1004'],
    ['a&b.example', '/', '409 error 1004'],
    ['exa mple.com', '/', '400 Bad Host header'],
    ['', '/', '400 Bad Host header'],
    ['<b>', '/client/v4/x', '400 Bad Host header'],
  ])('%s %s: %s', async (host, target, wanted) => {
    const { port } = await startEdge({ plugins: [things] });
    const answer = await speak(port, get(host, target, [bearer]));
    expect(kindOf(answer)).toBe(wanted);
    expect(answer.headers['ray-id']).toMatch(/^[0-9a-f]{16}$/);
  });

  test.each([
    ['GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 'no Host'],
    ['GET / HTTP/1.0\r\n\r\n', 'no Host by HTTP/1.0'],
    ['GET / HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\nConnection: close\r\n\r\n', 'two'],
    ['GET /client/v4/x HTTP/1.1\r\nHost: a\r\nhost: example.com\r\nConnection: close\r\n\r\n', 'two spellings'],
  ])('%j is 400 (%s), and the connection ends', async (text) => {
    const { port, origin } = await startEdge();
    const answer = await speak(port, text.replace('Connection: close\r\n', ''));
    expect(kindOf(answer)).toBe('400 Bad Host header');
    expect(answer.headers).toMatchObject({ connection: 'close', 'ray-id': expect.any(String) });
    expect(origin.seen).toEqual([]);
  });

  test('thousands of fields hide no second Host', async () => {
    const { port, origin } = await startEdge({ settings: { maxHeaderBytes: 262_144, trustedProxies: [] } });
    const many = Array.from({ length: 3000 }, (_, index) => `X-${index}: 1`);
    expect(kindOf(await speak(port, get('example.com', '/', [...many, 'Host: nobody.example'])))).toBe(
      '400 Bad Host header',
    );
    expect(origin.seen).toEqual([]);
  });

  test('an absolute target counts before Host, for the API and for the origin', async () => {
    const { port } = await startEdge({ plugins: [things] });
    const api = await speak(port, get('nobody.example', `http://localhost:8080${things4}?a=b`, [bearer]));
    expect(JSON.parse(api.body)).toMatchObject({ result: { host: 'localhost:8080', url: `${things4}?a=b` } });
    const edge = await speak(port, get('localhost', 'http://EXAMPLE.com/x?y'));
    expect(told(edge)).toMatchObject({ target: '/x?y', hosts: ['EXAMPLE.com'], zone: 'example.com' });
    expect(kindOf(await speak(port, get('example.com', `http://nobody.example${things4}`, [bearer])))).toBe('200 v4');
    expect(kindOf(await speak(port, get('example.com', 'http://a@example.com/')))).toBe('400 Bad request target');
    expect(kindOf(await speak(port, get('example.com', '/a#b')))).toBe('400 Bad request target');
  });

  test('what is not read is 405 at /errors', async () => {
    const { port } = await startEdge();
    const answer = await speak(port, get('localhost', '/errors/522', ['Content-Length: 0'], 'POST'));
    expect([kindOf(answer), answer.headers['allow']]).toEqual(['405 Method not allowed', 'GET, HEAD']);
    const head = await speak(port, get('localhost', '/errors/522', [], 'HEAD'));
    expect([head.status, head.body]).toEqual([200, '']);
    expect(Number(head.headers['content-length'])).toBeGreaterThan(500);
  });

  test('an unknown expectation is 417, and 431 stays the API’s own limit', async () => {
    const { port } = await startEdge({ plugins: [things] });
    expect(kindOf(await speak(port, get('example.com', '/', ['Expect: a-miracle'])))).toBe('417 Expectation failed');
    const long = (octets: number) => [bearer, `X: ${'x'.repeat(octets)}`];
    const large = await speak(port, get('localhost', things4, long(32_768)));
    expect(kindOf(large)).toBe('431 v4');
    expect(kindOf(await speak(port, get('localhost', things4, long(32_000))))).toBe('200 v4');
    expect(kindOf(await speak(port, get('localhost', '/livez', long(32_768))))).toBe(
      '431 Request Header Fields Too Large',
    );
  });
});

describe('/cdn-cgi/error', () => {
  const limited: EdgeZone = {
    ...exampleZone,
    block: ['127.0.0.1'],
    rateLimit: { requests: 1, perSeconds: 60, retryAfterSeconds: 17 },
  };
  const json = 'Accept: application/json';

  test('gives what the failure gives, but for ray and time', async () => {
    const { port } = await startEdge();
    const asked = await speak(port, get('example.com', '/cdn-cgi/error/522?a=b', [json]));
    const real = await speak(port, get('example.com', '/fail/522', [json]));
    const parse = ({ body }: RawAnswer): Record<string, unknown> => JSON.parse(body) as Record<string, unknown>;
    const same = (body: Record<string, unknown>) => ({ ...body, ray_id: '', instance: '', timestamp: '' });
    expect(same(parse(asked))).toEqual(same(parse(real)));
    expect(parse(asked)).toMatchObject({
      error_code: 522,
      status: 522,
      zone: 'example.com',
      type: 'http://docs.example/errors/522',
      ray_id: asked.headers['ray-id'],
      instance: asked.headers['ray-id'],
    });
    const sameHeaders = ({ headers }: RawAnswer) => ({ ...headers, 'ray-id': '', date: '' });
    expect(sameHeaders(asked)).toEqual(sameHeaders(real));
    expect(asked.headers).toMatchObject({ 'retry-after': expect.any(String), vary: 'Accept' });
    expect(asked.statusLine).toBe('HTTP/1.1 522 Origin Connection Timeout');
  });

  test('several Accept lines are one list', async () => {
    const { port } = await startEdge();
    const lines = ['Accept: text/html;q=0.1', json];
    const answer = await speak(port, get('example.com', '/cdn-cgi/error/522', lines));
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  });

  test('1015 has the limiter’s own value, here and for real, and the rate limit holds here, lists do not', async () => {
    const { port } = await startEdge({ zones: [{ ...limited, block: [] }] });
    const answers = [
      await speak(port, get('example.com', '/cdn-cgi/error/1015', [json])),
      await speak(port, get('example.com', '/', [json])),
      await speak(port, get('example.com', '/cdn-cgi/error/522', [json])),
    ];
    expect(answers.map(({ status, headers }) => [status, headers['retry-after']])).toEqual([
      [429, '17'],
      [429, '17'],
      [429, '17'],
    ]);
    for (const { status, body } of answers) {
      if (status === 429) expect(JSON.parse(body)).toMatchObject({ retry_after: 17, error_code: 1015 });
    }
    const { port: other } = await startEdge({ zones: [limited] });
    expect(kindOf(await speak(other, get('example.com', '/cdn-cgi/error/522')))).toBe('522 error 522');
    expect(kindOf(await speak(other, get('example.com', '/cdn-cgi/x')))).toBe('404 Not found');
    expect(kindOf(await speak(other, get('example.com', '/')))).toBe('403 error 1006');
  });

  test('a real 1015 tells the time to the end of the window, and who waits so long is served', async () => {
    let now = 1_000_000;
    const clock = clockOf(() => now);
    const rateLimit = { requests: 1, perSeconds: 60 };
    const { port } = await startEdge({ zones: [{ ...exampleZone, rateLimit }], clock });
    const ask = async () => speak(port, get('example.com', '/', [json]));
    expect((await ask()).status).toBe(200);
    now += 12_500;
    const over = await ask();
    expect([over.status, over.headers['retry-after']]).toEqual([429, '48']);
    expect(JSON.parse(over.body)).toMatchObject({ error_code: 1015, retry_after: 48 });
    now += 48_000;
    expect((await ask()).status).toBe(200);
    const refused = await speak(port, get('example.com', '/cdn-cgi/error/522', [json]));
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '60']);
    now += 60_000;
    const shown = await speak(port, get('example.com', '/cdn-cgi/error/1015', [json]));
    expect(shown.headers['retry-after']).toBe('30');
  });

  test('HEAD has the fields of GET and no body', async () => {
    const { port } = await startEdge();
    const head = await speak(port, get('example.com', '/cdn-cgi/error/1015', [json], 'HEAD'));
    const whole = await speak(port, get('example.com', '/cdn-cgi/error/1015', [json]));
    expect(head.body).toBe('');
    const { date: _, 'ray-id': __, ...fields } = head.headers;
    expect(whole.headers).toMatchObject(fields);
    expect(head.headers['content-length']).toBe(`${whole.body.length}`);
  });

  test.each([
    ['GET', '/cdn-cgi/error/999', '404 Not found', undefined],
    ['POST', '/cdn-cgi/error/522', '405 Method not allowed', 'GET, HEAD'],
    ['TRACE', '/cdn-cgi/error/522', '405 Method not allowed', 'GET, HEAD'],
    ['GET', '/cdn-cgi/trace', '404 Not found', undefined],
    ['GET', '/cdn%2dcgi/error/522', '404 Not found', undefined],
    ['GET', '//cdn-cgi/error/522', '404 Not found', undefined],
    ['GET', '/./cdn-cgi/error/522', '404 Not found', undefined],
    ['TRACE', '/', '405 Method not allowed', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'],
  ])('%s %s: %s', async (method, target, wanted, allow) => {
    const { port, origin } = await startEdge();
    const answer = await speak(port, get('example.com', target, [], method));
    expect([kindOf(answer), answer.headers['allow']]).toEqual([wanted, allow]);
    expect(origin.seen).toEqual([]);
  });

  test('custom errors are asked with the request, and never for a host of nobody', async () => {
    const asked: ErrorRequest[] = [];
    const { port } = await startEdge({
      customAnswer: (_zone, occurrence, request) => {
        asked.push(request);
        if (occurrence.error.code === 523) throw new Error('a fault of rules is no reason to say nothing');
        return request.path === '/fail/521'
          ? { status: 418, headers: { 'Content-Type': 'text/xml' }, body: Buffer.from(`<a>${occurrence.rayId}</a>`) }
          : undefined;
      },
    });
    const answer = await speak(port, get('EXAMPLE.com', '/fail/521', ['X-A: 1', 'x-a: 2']));
    expect([answer.status, answer.headers['content-type'], answer.body]).toEqual([
      418,
      'text/xml',
      `<a>${answer.headers['ray-id']}</a>`,
    ]);
    const [request] = asked;
    expect(request).toMatchObject({
      method: 'GET',
      path: '/fail/521',
      host: 'example.com',
      clientAddress: '127.0.0.1',
    });
    expect(request?.header('x-a')).toEqual(['1', '2']);
    expect(request?.header('x-b')).toEqual([]);
    await speak(port, get('nobody.example', '/fail/521'));
    expect(asked.length).toBe(1);
    expect(kindOf(await speak(port, get('example.com', '/cdn-cgi/error/523')))).toBe('523 error 523');
  });
});

describe('what a zone lets through', () => {
  const behindProxy = { maxHeaderBytes: 32_768, trustedProxies: ['127.0.0.1/32'] };

  test.each([
    [undefined, '200 origin', '127.0.0.1'],
    ['X-Forwarded-For: 192.0.2.66', '403 error 1006', ''],
    ['X-Forwarded-For: 198.51.100.1, 192.0.2.66', '403 error 1006', ''],
    ['X-Forwarded-For: 192.0.2.66, 198.51.100.1', '200 origin', '198.51.100.1'],
    ['X-Forwarded-For: ::ffff:192.0.2.66', '403 error 1006', ''],
    ['X-Forwarded-For: rubbish', '200 origin', '127.0.0.1'],
  ])('%s: %s', async (line, wanted, client) => {
    const { port, origin } = await startEdge({
      zones: [{ ...exampleZone, block: ['192.0.2.66'] }],
      settings: behindProxy,
    });
    const answer = await speak(port, get('example.com', '/', line === undefined ? [] : [line]));
    expect(kindOf(answer)).toBe(wanted);
    expect(origin.seen.map(({ clientAddress }) => clientAddress)).toEqual(client === '' ? [] : [client]);
  });

  test('nobody else is believed', async () => {
    const { port } = await startEdge({ zones: [{ ...exampleZone, allow: ['198.51.100.0/24'] }] });
    const line = 'X-Forwarded-For: 198.51.100.1';
    expect(kindOf(await speak(port, get('example.com', '/', [line])))).toBe('403 error 1020');
    const { port: other } = await startEdge({
      zones: [{ ...exampleZone, allow: ['198.51.100.0/24'] }],
      settings: behindProxy,
    });
    const answer = await speak(other, get('example.com', '/', [line]));
    expect(told(answer)).toMatchObject({
      clientAddress: '198.51.100.1',
      forwardedFor: ['198.51.100.1'],
      scheme: 'http',
    });
  });

  test('the limit is a zone’s and a client’s', async () => {
    const rateLimit = { requests: 2, perSeconds: 600 };
    const other: EdgeZone = {
      ...exampleZone,
      id: '2'.repeat(32),
      name: 'b.example',
      hostnames: ['b.example'],
      rateLimit,
    };
    const { port } = await startEdge({ zones: [{ ...exampleZone, rateLimit }, other], settings: behindProxy });
    const ask = async (host: string, client: string) =>
      kindOf(await speak(port, get(host, '/', [`X-Forwarded-For: ${client}`])));
    expect(await ask('example.com', '192.0.2.1')).toBe('200 origin');
    expect(await ask('www.example.com', '192.0.2.1')).toBe('200 origin');
    expect(await ask('example.com', '192.0.2.1')).toBe('429 error 1015');
    expect(await ask('example.com', '192.0.2.2')).toBe('200 origin');
    expect(await ask('b.example', '192.0.2.1')).toBe('200 origin');
  });

  test('header sections: 1038 above the zone’s limit, a bare 431 above the parser’s', async () => {
    const { port } = await startEdge();
    const ask = async (octets: number) => {
      const rest = octets - 'Host: example.com\r\nX: \r\nConnection: close\r\n'.length;
      return kindOf(await speak(port, get('example.com', '/', [`X: ${'x'.repeat(rest)}`])));
    };
    expect(await ask(32_768)).toBe('200 origin');
    expect(await ask(32_769)).toBe('431 error 1038');
    expect(await ask(250_000)).toBe('431 error 1038');
    expect(await ask(300_000)).toBe('431 Request Header Fields Too Large');
  });

  test('more requests at once than there is room for: 1200', async () => {
    const limits = { requests: 2, requestsPerZone: 1000, requestsPerAddress: 1000 };
    const { port, origin } = await startEdge({ settings: { limits } });
    const held = [0, 1].map(() => connect(port, '127.0.0.1').on('error', () => undefined));
    for (const socket of held) socket.write(get('example.com', '/hang'));
    await expect.poll(() => origin.seen.length, { timeout: 10_000 }).toBe(2);
    const full = await speak(port, get('example.com', '/'));
    expect([kindOf(full), full.headers['retry-after']]).toEqual(['503 error 1200', expect.any(String)]);
    expect(kindOf(await speak(port, get('example.com', '/cdn-cgi/error/522')))).toBe('522 error 522');
    for (const socket of held) socket.resetAndDestroy();
    await expect
      .poll(async () => kindOf(await speak(port, get('example.com', '/'))), { timeout: 10_000 })
      .toBe('200 origin');
  });

  test('without an origin: 1004', async () => {
    const { origin: _, ...bare } = exampleZone;
    const { port } = await startEdge({ zones: [bare] });
    expect(kindOf(await speak(port, get('example.com', '/')))).toBe('409 error 1004');
  });

  test('a fault of our own is 500 without its reason', async () => {
    const { log, lines } = logLines();
    const { port } = await startEdge({ log });
    const answer = await speak(port, get('example.com', '/crash'));
    expect(kindOf(answer)).toBe('500 error 500');
    expect(answer.all).not.toContain('secret');
    expect(lines.find(({ msg }) => msg === 'edge request failed')).toMatchObject({ ray: answer.headers['ray-id'] });
    const broken = await startEdge({
      docsBaseUrl: () => {
        throw new Error('secret detail');
      },
    });
    const plain = await speak(broken.port, get('example.com', '/fail/522'));
    expect(kindOf(plain)).toBe('500 Internal error');
  });
});

describe('CONNECT and requests to upgrade', () => {
  const upgrade = (host: string, target: string, protocol = 'websocket', method = 'GET') =>
    `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;

  test.each(['example.com', 'localhost', 'nobody.example'])('CONNECT to %s is 405', async (host) => {
    const { port, origin } = await startEdge();
    const answer = await speak(port, `CONNECT example.com:443 HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    expect(kindOf(answer)).toBe('405 Method not allowed');
    expect(answer.headers).toMatchObject({
      allow: expect.any(String),
      'ray-id': expect.any(String),
      connection: 'close',
    });
    expect(origin.seen).toEqual([]);
  });

  test('CONNECT without a Host is 400', async () => {
    const { port } = await startEdge();
    expect(kindOf(await speak(port, 'CONNECT example.com:443 HTTP/1.1\r\n\r\n'))).toBe('400 Bad Host header');
  });

  test('a WebSocket of a zone goes to its origin, with what came behind the request', async () => {
    const { port, origin } = await startEdge();
    const socket = connect(port, '127.0.0.1', () => socket.write(`${upgrade('example.com', '/chat?x')}early`));
    const text = await new Promise<string>((resolve) => {
      let all = '';
      socket.on('data', (data) => {
        all += data.toString('latin1');
        if (all.endsWith('early')) resolve(all);
      });
    });
    socket.destroy();
    expect(readAnswer(text).status).toBe(101);
    expect(origin.seen).toMatchObject([{ target: '/chat?x', zone: 'example.com', hosts: ['example.com'] }]);
  });

  test.each([
    ['example.com', '/fail/521', '521 error 521'],
    ['example.com', '/cdn-cgi/x', '404 Not found'],
    ['example.com', '/cdn-cgi/error/522', '522 error 522'],
    ['example.com', '/crash', '500 error 500'],
    ['nobody.example', '/', '409 error 1004'],
  ])('%s %s: %s', async (host, target, wanted) => {
    const { port } = await startEdge();
    const asked = upgrade(host, target).replace('Connection: Upgrade', 'Connection: Upgrade, close');
    const answer = await speak(port, asked);
    expect(kindOf(answer)).toBe(wanted);
    expect(answer.body.length).toBe(Number(answer.headers['content-length']));
    expect(answer.headers['ray-id']).toMatch(/^[0-9a-f]{16}$/);
  });

  test('lists hold for them', async () => {
    const { port } = await startEdge({ zones: [{ ...exampleZone, block: ['127.0.0.1'] }] });
    expect(kindOf(await speak(port, upgrade('example.com', '/')))).toBe('403 error 1006');
  });

  test.each([
    ['example.com', '/', 'h2c', 'GET', '200 origin'],
    ['example.com', '/', 'websocket', 'POST', '200 origin'],
    ['localhost', '/livez', 'websocket', 'GET', '200 live'],
    ['localhost', things4, 'h2c', 'GET', '401 v4'],
  ])('%s %s to %s by %s is an ordinary request: %s', async (host, target, protocol, method, wanted) => {
    const { port } = await startEdge({ plugins: [things] });
    const text = upgrade(host, target, protocol, method).replace('Connection: Upgrade', 'Connection: Upgrade, close');
    expect(kindOf(await speak(port, text))).toBe(wanted);
  });
});

describe('an Error Page with tokens', () => {
  const html = `<p>${'\u00e4'.repeat(100_000)}::RAY_ID::</p>::CLIENT_IP::::RAY_ID::`;
  const page = compilePage(html);
  const startPage = () => startEdge({ customAnswer: (_zone, ...of) => page.answer(...of) });
  const lines = 'HTTP/1.1\r\nHost: example.com\r\n';

  test.each([
    ['GET', 'Connection: close'],
    ['HEAD', 'Connection: close'],
    ['GET', 'Connection: Upgrade, close\r\nUpgrade: websocket'],
  ])('%s with %s has its length and all its pieces', async (method, fields) => {
    const { port } = await startPage();
    const answer = await speak(port, `${method} /fail/521 ${lines}${fields}\r\n\r\n`);
    const rayId = String(answer.headers['ray-id']);
    const wanted = html.replaceAll('::RAY_ID::', rayId).replace('::CLIENT_IP::', '127.0.0.1');
    expect(answer.status).toBe(521);
    expect(Number(answer.headers['content-length'])).toBe(Buffer.byteLength(wanted));
    expect(Buffer.from(answer.body, 'latin1').toString()).toBe(method === 'HEAD' ? '' : wanted);
  });
});

describe('smuggling', () => {
  const second = 'GET /second HTTP/1.1\r\nHost: example.com\r\n\r\n';

  test.each([
    ['two lengths', `Content-Length: 0\r\nContent-Length: ${second.length}\r\n\r\n${second}`],
    [
      'length and chunked',
      `Content-Length: ${second.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${second}`,
    ],
    ['chunked not last', `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${second}`],
    ['a coding of a blank', `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${second}`],
    ['a bad length', `Content-Length: +5\r\n\r\n01234${second}`],
    ['a bare LF', `X: y\nContent-Length: 5\r\n\r\n01234${second}`],
    ['a bare CR', `X: y\rContent-Length: 5\r\n\r\n01234${second}`],
    ['a NUL', `X: y\0\r\n\r\n${second}`],
    ['a blank before a colon', `X : y\r\n\r\n${second}`],
  ])('%s is refused, and nothing behind it is read', async (_, rest) => {
    const { port, origin } = await startEdge();
    for (const [host, target] of [
      ['example.com', '/'],
      ['localhost', things4],
    ] as const) {
      const answer = await speak(port, `POST ${target} HTTP/1.1\r\nHost: ${host}\r\n${rest}`);
      expect(answer.status).toBe(400);
      expect(answer.all.match(/^HTTP\/1\.1 /gm)?.length).toBe(1);
    }
    expect(origin.seen.map(({ target }) => target)).not.toContain('/second');
  });

  test.each(['xchunked', 'gzip, chunked', 'identity'])('Transfer-Encoding: %s is 501', async (coding) => {
    const { port, origin } = await startEdge();
    for (const host of ['example.com', 'localhost']) {
      const head = `POST ${things4} HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: ${coding}\r\n\r\n`;
      const answer = await speak(port, `${head}0\r\n\r\n${second}`);
      expect([answer.status, answer.headers['connection']]).toEqual([501, 'close']);
      expect(answer.all.match(/^HTTP\/1\.1 /gm)?.length).toBe(1);
    }
    expect(origin.seen).toEqual([]);
  });

  test('a coding in HTTP/1.0 is 400, and nothing behind it is read', async () => {
    const { port, origin } = await startEdge();
    const head = 'POST / HTTP/1.0\r\nHost: example.com\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n';
    const { all } = await speak(port, `${head}0\r\n\r\n${second}`);
    expect(all.match(/^HTTP\/1\.1 .*/gm)).toEqual(['HTTP/1.1 400 Bad Request']);
    expect(origin.seen).toEqual([]);
  });

  test('requests one behind another each go where their Host says', async () => {
    const { port, origin } = await startEdge({ plugins: [things] });
    const { all } = await speak(
      port,
      [
        'GET /1 HTTP/1.1\r\nHost: example.com\r\n\r\n',
        'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n',
        'POST /2 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\n\r\nabc',
        get('nobody.example'),
      ].join(''),
    );
    expect([...all.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status)).toEqual(['200', '200', '200', '409']);
    expect(origin.seen.map(({ target }) => target)).toEqual(['/1', '/2']);
    const rays = [...all.matchAll(/^Ray-ID: (.+)\r$/gm)].map(([, ray]) => ray);
    expect(new Set(rays).size).toBe(4);
  });

  test('an answer that comes before the end of a body is not lost by closing on it', async () => {
    const taking: V4Plugin = (app) => {
      app.post('/accounts/:account_id/things', { config: { scope: 'email:send' } }, async (_, reply) =>
        succeed(reply, {}),
      );
    };
    const { port } = await startEdge({ plugins: [taking] });
    for (const [host, framing, status] of [
      ['nobody.example', 'Content-Length: 8000000', 409],
      ['nobody.example', 'Transfer-Encoding: chunked', 409],
      ['a b', 'Content-Length: 8000000', 400],
      ['localhost', 'Content-Length: 8000000', 413],
      ['localhost', 'Transfer-Encoding: chunked', 413],
    ] as const) {
      const target = host === 'localhost' ? things4 : '/';
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      let all = '';
      socket.setEncoding('latin1').on('data', (text: string) => (all += text));
      const fields = [`Host: ${host}`, framing, 'Content-Type: application/json', bearer, 'Connection: close'];
      socket.write(`POST ${target} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`);
      if (framing.startsWith('T')) socket.write('7a1200\r\n');
      // Rejects where the connection is reset.
      const written = once(socket, 'drain');
      socket.write(Buffer.alloc(8_000_000, ' '));
      await written;
      socket.end();
      await once(socket, 'close');
      expect([host, framing, readAnswer(all).status]).toEqual([host, framing, status]);
    }
  });

  test('a body nobody asked for does not hold the connection', async () => {
    const { port } = await startEdge();
    const socket = connect(port, '127.0.0.1', () => {
      socket.write('POST /cdn-cgi/x HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1000000\r\n\r\nx');
    });
    const all = await new Promise<string>((resolve) => {
      let text = '';
      socket.on('data', (data) => (text += data.toString('latin1'))).on('error', () => undefined);
      socket.on('close', () => resolve(text));
    });
    expect(readAnswer(all).status).toBe(404);
  });
});

test('no octets in Host or target are a fault of ours', async () => {
  const { log, lines } = logLines();
  const { port } = await startEdge({ plugins: [things], log });
  const octets = (maxLength: number) =>
    fc.string({ unit: fc.nat(255).map((octet) => String.fromCharCode(octet)), maxLength });
  const host = fc.oneof(
    octets(40),
    fc.constantFrom('example.com', 'localhost', '[::1]', 'nobody.example', '192.0.2.1'),
  );
  const start = fc.constantFrom(
    '/',
    '/client/v4/',
    '/errors/',
    '/cdn-cgi/',
    '/cdn-cgi/error/',
    'http://example.com/',
    '',
  );
  await fc.assert(
    fc.asyncProperty(host, start, octets(40), fc.boolean(), async (name, prefix, rest, isUpgrade) => {
      const lines = isUpgrade ? ['Upgrade: websocket', 'Connection: Upgrade'] : [];
      const text = `GET ${prefix}${rest} HTTP/1.1\r\nHost: ${name}\r\n${lines.join('\r\n')}${lines.length ? '\r\n' : ''}`;
      const socket = connect(port, '127.0.0.1', () => socket.write(`${text}\r\n`, 'latin1'));
      const first = await new Promise<string>((resolve) => {
        socket.once('data', (data) => resolve(data.toString('latin1'))).on('error', () => resolve(''));
        socket.once('close', () => resolve(''));
        // A head that these octets have cut short waits for its end: the end of the connection is one.
        setTimeout(() => socket.end(), 500).unref();
      });
      socket.destroy();
      if (first !== '') expect(first).toMatch(/^HTTP\/1\.1 (?!500)\d{3} /);
    }),
    { numRuns: 300 },
  );
  expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
}, 60_000);

test('one line and one count for each request', async () => {
  const { log, lines } = logLines();
  const counts: EdgeCount[] = [];
  const { port } = await startEdge({ log, onRequest: (count) => counts.push(count) });
  const paths = ['/', '/fail/522', '/cdn-cgi/error/523', `/${'x'.repeat(300)}?secret`];
  for (const path of paths) await speak(port, get('example.com', path));
  await speak(port, get('nobody.example'));
  await speak(port, get('localhost', '/errors/522'));
  await expect.poll(() => lines.length, { timeout: 10_000 }).toBe(6);
  expect(lines).toMatchObject([
    { msg: 'edge request', zone: 'example.com', host: 'example.com', method: 'GET', path: '/', status: 200 },
    { path: '/fail/522', status: 522, code: 522, client: '127.0.0.1', ms: expect.any(Number) },
    { path: '/cdn-cgi/error/523', status: 523, code: 523, asked: true },
    { path: `/${'x'.repeat(199)}`, status: 200 },
    { host: 'nobody.example', status: 409, code: 1004 },
    { host: 'localhost', path: '/errors/522', status: 200 },
  ]);
  expect(lines[0]).toHaveProperty('ray', expect.stringMatching(/^[0-9a-f]{16}$/));
  expect(lines[4]).not.toHaveProperty('zone');
  expect(JSON.stringify(lines)).not.toContain('secret');
  expect(counts).toEqual([
    { zone: 'example.com', status: 200 },
    { zone: 'example.com', status: 522, code: 522 },
    { zone: 'example.com', status: 523 },
    { zone: 'example.com', status: 200 },
    { zone: '', status: 409, code: 1004 },
  ]);
});

test('an answer of the origin’s own passes with its fields as they came: order, casing, repeated lines', async () => {
  const fields = 'X-A: 1\r\nSet-Cookie: a\r\nx-a: 2\r\nset-cookie: b\r\nDate: d\r\nContent-Length: 4\r\n';
  const site = await faultOrigin(always(`HTTP/1.1 503 Not Now\r\n${fields}\r\noops`));
  const settings = {
    maxHeaderBytes: 32_768,
    connectTimeoutSeconds: 5,
    responseTimeoutSeconds: 5,
    afterCloseSeconds: 5,
    originDownSeconds: 1,
    trustedProxies: [],
    limits: { requests: 10, requestsPerZone: 10, requestsPerAddress: 10 },
  };
  const origins = new OriginProxy({ settings, log: silentLog });
  onTestFinished(async () => {
    await origins.close(0);
    await site.close();
  });
  const zone = { ...exampleZone, origin: `http://127.0.0.1:${site.port}` };
  const { port } = await startEdge({ zones: [zone], origins });
  expect((await speak(port, get('example.com'))).all.replace(/Ray-ID: [0-9a-f]{16}/, 'Ray-ID: R')).toBe(
    `HTTP/1.1 503 Not Now\r\n${fields}Ray-ID: R\r\nConnection: close\r\n\r\noops`,
  );
});
