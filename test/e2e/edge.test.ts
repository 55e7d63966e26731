// The edge in a running gateway: every code in every format, real failures, lists and limits, HTTP and HTTPS (D60-D68).

import { readFileSync } from 'node:fs';
import { request as askHttp, createServer, type IncomingMessage } from 'node:http';
import { request as askHttps } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { parse } from 'yaml';
import { allEdgeErrors } from '../../src/edge/errors/catalogue.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { startPostern, testToken } from '../support/postern-process.ts';

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The name asked for by TLS, and whom to trust; absent: without TLS. */
  readonly tls?: { readonly servername: string; readonly ca: string };
}

function listen(server: ReturnType<typeof createServer>): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

const origin = createServer((request, response) => {
  if (request.url === '/teapot') {
    response.writeHead(503, { 'Content-Type': 'text/plain', 'X-Origin': 'yes' }).end('the origin’s own');
    return;
  }
  if (request.url === '/cookies') {
    response.sendDate = false;
    response.writeHead(502, 'Mine', [
      'Set-COOKIE',
      'a=1',
      'X-B',
      '1',
      'set-cookie',
      'b=2',
      'x-b',
      '2',
      'Content-Length',
      '0',
    ]);
    response.end();
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const { method, url, headers } = request;
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }));
  });
});
const webSockets = new WebSocketServer({ server: origin });
webSockets.on('connection', (socket) => socket.on('message', (data) => socket.send(data)));

let postern: PosternHere;

function configuration(originPort: number): object {
  const zone = (name: string, digit: string, more: object) => ({ name, id: digit.repeat(32), account: 'dev', ...more });
  const url = `http://127.0.0.1:${originPort}`;
  return {
    development: {},
    smtp: { listeners: [] },
    http: { listen: '127.0.0.1:0' },
    edge: { trustedProxies: ['127.0.0.1/32'] },
    platform: { dkim: [{ selector: 'p1', algorithm: 'ed25519' }] },
    accounts: [
      {
        name: 'dev',
        id: 'a'.repeat(32),
        customErrors: {
          rules: [{ expression: 'error_code eq 1042', content: 'account rule', contentType: 'text/plain' }],
        },
      },
    ],
    zones: [
      zone('example.com', '1', { origin: url, hostnames: ['example.com', 'www.example.com'] }),
      zone('limited.example', '2', {
        origin: url,
        block: ['192.0.2.66'],
        rateLimit: { requests: 2, perSeconds: 3600, retryAfterSeconds: 17 },
      }),
      zone('allowed.example', '3', { origin: url, allow: ['198.51.100.0/24'] }),
      zone('bare.example', '4', {}),
      zone('down.example', '5', { origin: 'http://127.0.0.1:1' }),
      zone('page.example', '6', { customErrors: { errorPage: { html: '<html><body>PAGE ::RAY_ID::</body></html>' } } }),
    ],
  };
}

beforeAll(async () => {
  postern = await startHere({ config: configuration(await listen(origin)) });
}, 60_000);
afterAll(async () => {
  await postern?.cleanUp();
  webSockets.close();
  origin.closeAllConnections();
  origin.close();
});

function ask(host: string, path: string, { method = 'GET', headers = {}, body, tls }: Asked = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port: postern.ports[tls ? 'https' : 'http'],
      path,
      method,
      headers: { Host: host, ...headers },
      agent: false,
      ...tls,
    };
    const sent = (tls ? askHttps : askHttp)(options, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const json = { Accept: 'application/json' };
const certificate = (host: string) => readFileSync(join(postern.certsDir, 'tls', host, 'fullchain.pem'), 'utf8');

describe('every code at /cdn-cgi/error', () => {
  const custom = new Set([1042]);

  test.each(allEdgeErrors.filter(({ code }) => !custom.has(code)).map((error) => [error.code, error] as const))(
    '%i',
    async (code, error) => {
      const path = `/cdn-cgi/error/${code}`;
      const formats = [
        ['application/json', 'application/json; charset=utf-8'],
        ['application/problem+json', 'application/problem+json; charset=utf-8'],
        ['text/markdown', 'text/markdown; charset=utf-8'],
        ['text/html', 'text/html; charset=utf-8'],
        ['*/*', 'text/html; charset=utf-8'],
      ] as const;
      for (const [accept, type] of formats) {
        const answer = await ask('example.com', path, { headers: { Accept: accept } });
        expect(answer.status).toBe(error.status);
        expect(answer.headers).toMatchObject({
          'content-type': type,
          'cache-control': 'private, no-store',
          vary: 'Accept',
          'ray-id': expect.stringMatching(/^[0-9a-f]{16}$/),
          'content-length': `${Buffer.byteLength(answer.text)}`,
        });
        const retryAfter = error.retryAfterSeconds === undefined ? undefined : `${error.retryAfterSeconds}`;
        expect(answer.headers['retry-after']).toBe(retryAfter);
        expect(answer.text).toContain(answer.headers['ray-id']);
        const head = await ask('example.com', path, { method: 'HEAD', headers: { Accept: accept } });
        expect([head.status, head.text]).toEqual([error.status, '']);
        expect(Math.abs(Number(head.headers['content-length']) - Buffer.byteLength(answer.text))).toBeLessThan(3);
        // A ray id that YAML would read as a number is longer by its quotation marks.
        const own = { date: '', 'ray-id': '', 'content-length': '' };
        expect({ ...head.headers, ...own }).toEqual({ ...answer.headers, ...own });
      }
    },
  );

  test('what is the same in all three formats', async () => {
    const [asJson, asMarkdown] = await Promise.all(
      ['application/json', 'text/markdown'].map((Accept) =>
        ask('EXAMPLE.com.', '/cdn-cgi/error/1015', { headers: { Accept } }),
      ),
    );
    const body: unknown = JSON.parse(asJson?.text ?? '');
    const front: unknown = parse(/^---\n([\s\S]*?)\n---\n/.exec(asMarkdown?.text ?? '')?.[1] ?? '');
    expect(body).toMatchObject({
      type: `http://127.0.0.1:${postern.ports['http']}/errors/1015`,
      zone: 'example.com',
      error_code: 1015,
      error_name: 'rate_limited',
      platform_error: true,
      retryable: true,
    });
    const { zone, error_code, retry_after } = body as Record<string, unknown>;
    expect(front).toMatchObject({ zone, error_code, retry_after });
    const { pathname } = new URL((body as { type: string }).type);
    const page = await ask('localhost', pathname);
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.text).toContain('Error 1015');
  });

  test('custom errors come first: a rule of the account, and a page for every format', async () => {
    const rule = await ask('example.com', '/cdn-cgi/error/1042', { headers: json });
    expect([rule.headers['content-type'], rule.text]).toEqual([expect.stringMatching(/^text\/plain/), 'account rule']);
    const page = await ask('page.example', '/cdn-cgi/error/522', { headers: json });
    expect([page.status, page.headers['content-type']]).toEqual([522, 'text/html; charset=utf-8']);
    expect(/PAGE ([0-9a-f]{16})/.exec(page.text)?.[1]).toBe(page.headers['ray-id']);
  });
});

describe('real requests', () => {
  test('go to the origin and back', async () => {
    const answer = await ask('www.example.com', '/a?b=c', {
      method: 'POST',
      headers: { 'X-Mine': 'yes', 'X-Forwarded-For': '203.0.113.9, 198.51.100.1' },
      body: 'hello',
    });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({
      method: 'POST',
      url: '/a?b=c',
      body: 'hello',
      headers: {
        host: 'www.example.com',
        'x-mine': 'yes',
        via: '1.1 postern',
        'x-forwarded-proto': 'http',
        'x-forwarded-for': '198.51.100.1, 127.0.0.1',
      },
    });
    expect(answer.headers['ray-id']).toMatch(/^[0-9a-f]{16}$/);
  });

  test('an origin’s own error is its own', async () => {
    const answer = await ask('example.com', '/teapot');
    expect([answer.status, answer.headers['x-origin'], answer.text]).toEqual([503, 'yes', 'the origin’s own']);
  });

  test('an origin’s fields keep their order, casing and repeated lines through the whole gateway', async () => {
    const rawHeaders = await new Promise<readonly string[]>((resolve, reject) => {
      askHttp({ port: postern.ports['http'], path: '/cookies', headers: { Host: 'example.com' } }, (response) => {
        response.resume();
        resolve([String(response.statusMessage), ...response.rawHeaders]);
      })
        .on('error', reject)
        .end();
    });
    const theirs = ['Set-COOKIE', 'a=1', 'X-B', '1', 'set-cookie', 'b=2', 'x-b', '2', 'Content-Length', '0'];
    expect(rawHeaders.slice(0, theirs.length + 2)).toEqual(['Mine', ...theirs, 'Ray-ID']);
  });

  test('the API’s paths are the origin’s under a zone’s name, and the API’s under any other', async () => {
    const path = `/client/v4/zones/${'1'.repeat(32)}/custom_pages/error_page`;
    const headers = { Authorization: `Bearer ${testToken}` };
    expect(JSON.parse((await ask('example.com', path, { headers })).text)).toMatchObject({ url: path });
    expect(JSON.parse((await ask('nobody.example', path, { headers })).text)).toMatchObject({ success: true });
  });

  test.each([
    ['down.example', 521, 521],
    ['bare.example', 409, 1004],
    ['nobody.example', 409, 1004],
    ['192.0.2.1', 403, 1003],
  ])('%s: %i, %i', async (host, status, code) => {
    const answer = await ask(host, '/', { headers: json });
    expect([answer.status, JSON.parse(answer.text)]).toEqual([
      status,
      expect.objectContaining({ error_code: code, status, zone: host, ray_id: answer.headers['ray-id'] }),
    ]);
  });

  test('1006 and 1020 by the address that a trusted proxy names', async () => {
    const from = (client: string) => ({ headers: { ...json, 'X-Forwarded-For': client } });
    const codes = await Promise.all([
      ask('limited.example', '/', from('192.0.2.66')),
      ask('allowed.example', '/', from('192.0.2.1')),
      ask('allowed.example', '/', from('198.51.100.1')),
    ]);
    expect(codes.map(({ status, text }) => [status, (JSON.parse(text) as { error_code?: number }).error_code])).toEqual(
      [
        [403, 1006],
        [403, 1020],
        [200, undefined],
      ],
    );
  });

  test('1015 with the limiter’s own wait, as /cdn-cgi/error says', async () => {
    const headers = { ...json, 'X-Forwarded-For': '203.0.113.15' };
    const statuses = [];
    for (let count = 0; count < 3; count += 1) statuses.push((await ask('limited.example', '/', { headers })).status);
    expect(statuses).toEqual([200, 200, 429]);
    for (const path of ['/', '/cdn-cgi/error/1015']) {
      const answer = await ask('limited.example', path, { headers });
      expect([answer.status, answer.headers['retry-after']]).toEqual([429, '17']);
      expect(JSON.parse(answer.text)).toMatchObject({ error_code: 1015, retry_after: 17 });
    }
  });

  test('a WebSocket goes through', async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${postern.ports['http']}/`, { headers: { Host: 'example.com' } });
    onTestFinished(() => socket.terminate());
    const echoed = await new Promise<string>((resolve, reject) => {
      socket.on('error', reject).on('open', () => socket.send('hello'));
      socket.on('message', (data: Buffer) => resolve(data.toString()));
    });
    expect(echoed).toBe('hello');
  });

  test('header sections of 40,000 octets are 1038', async () => {
    const answer = await ask('example.com', '/', { headers: { ...json, 'X-Large': 'x'.repeat(40_000) } });
    expect([answer.status, JSON.parse(answer.text)]).toEqual([431, expect.objectContaining({ error_code: 1038 })]);
  });
});

describe('HTTPS', () => {
  test('each zone hostname has a certificate of its own, made at start', async () => {
    for (const host of ['example.com', 'www.example.com', 'bare.example']) {
      const tls = { servername: host, ca: certificate(host) };
      const answer = await ask(host, '/cdn-cgi/error/522', { headers: json, tls });
      expect(JSON.parse(answer.text)).toMatchObject({ error_code: 522, zone: host });
    }
    const tls = { servername: 'example.com', ca: certificate('example.com') };
    expect(JSON.parse((await ask('example.com', '/x', { tls })).text)).toMatchObject({
      headers: { 'x-forwarded-proto': 'https' },
    });
  });

  test('another name than Host’s is 1013; the API is there by address', async () => {
    const ca = certificate('example.com');
    const astray = await ask('bare.example', '/', { headers: json, tls: { servername: 'example.com', ca } });
    expect([astray.status, JSON.parse(astray.text)]).toEqual([421, expect.objectContaining({ error_code: 1013 })]);
    const ready = await ask(`127.0.0.1:${postern.ports['https']}`, '/readyz', { tls: { servername: '', ca } });
    expect([ready.status, ready.text]).toEqual([200, 'ready\n']);
  });

  test('POSTERN_HTTPS_PORT: empty is off', async () => {
    const off = await startHere({ config: configuration(1), env: { POSTERN_HTTPS_PORT: '' } });
    onTestFinished(() => off.cleanUp());
    expect(Object.keys(off.ports)).toEqual(['http']);
    expect(off.log().filter(({ file }) => typeof file === 'string' && file.includes('/tls/'))).toEqual([]);
  }, 60_000);
});

test('requests are logged and counted', async () => {
  await ask('down.example', '/a/path?secret=1', { headers: json });
  const line = await postern.until(() =>
    postern
      .log()
      .find(({ msg, path, zone }) => msg === 'edge request' && path === '/a/path' && zone === 'down.example'),
  );
  expect(line).toMatchObject({ level: 'info', host: 'down.example', method: 'GET', status: 521, code: 521 });
  expect(postern.output()).not.toContain('secret=1');
  const { text } = await ask('localhost', '/metrics');
  expect(text).toMatch(/^postern_edge_requests_total\{zone="down\.example",status="5xx"\} \d+$/m);
  expect(text).toMatch(/^postern_edge_requests_total\{zone="",status="4xx"\} \d+$/m);
  expect(text).toMatch(/^postern_edge_errors_total\{code="521"\} \d+$/m);
  expect(text).not.toMatch(/postern_edge_errors_total\{code="1101"\}/);
});

test('it ends while connections are open, and says nothing more', async () => {
  const ending = await startPostern({ config: configuration(1) });
  onTestFinished(() => ending.cleanUp());
  const socket = new WebSocket(`ws://127.0.0.1:${ending.ports['http']}/`, { headers: { Host: 'example.com' } });
  await new Promise((resolve) => socket.once('error', resolve));
  expect(await ending.end('SIGTERM')).toBe(0);
  expect(ending.log().filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
}, 60_000);
