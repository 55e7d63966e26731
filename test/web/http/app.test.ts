// The HTTP app: authorization, the envelope for every end, bodies, what stands outside /client/v4.

import { connect } from 'node:net';
import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { Guessing } from '../../../src/accounts/guessing.ts';
import { cannotBeUsed } from '../../../src/base/errors.ts';
import { Refusal, succeed } from '../../../src/web/http/envelope.ts';
import { submitterOf, type V4Plugin } from '../../../src/web/http/v4-app.ts';
import { ask, startHttpApp } from '../../support/http-app.ts';
import { logLines } from '../../support/log-lines.ts';

const Thing = Type.Object(
  { name: Type.String({ maxLength: 10 }), size: Type.Optional(Type.Integer({ want: 'a whole number' })) },
  { additionalProperties: false, title: 'Thing' },
);

const things: V4Plugin = (app) => {
  app.post(
    '/accounts/:account_id/things',
    { config: { scope: 'email:send', bodyBytes: 1000 }, schema: { body: Thing } },
    async (request, reply) => {
      if (request.body.name === 'crash') throw new Error('secret detail');
      if (request.body.name === 'none')
        throw new Refusal([{ token: 'E_NOT_FOUND', message: 'No thing', pointer: '/name' }]);
      const { account, credential } = submitterOf(request);
      return succeed(reply, { ...request.body, by: `${account.name}/${credential.name}` });
    },
  );
  app.get('/accounts/:account_id/things', { config: { scope: 'email:send' } }, async (_request, reply) =>
    succeed(reply, []),
  );
};

const path = '/client/v4/accounts/dev/things';

function post(body: string, headers: Readonly<Record<string, string>> = {}): RequestInit {
  return {
    method: 'POST',
    body,
    headers: { Authorization: 'Bearer dev-default', 'Content-Type': 'application/json', ...headers },
  };
}

test('a request of the account, by id or name, gets the submitter', async () => {
  const { base } = await startHttpApp([things]);
  for (const named of ['dev', 'a1'.repeat(16), 'A1'.repeat(16)]) {
    const answer = await ask(`${base}/client/v4/accounts/${named}/things`, post('{"name":"box","size":3}'));
    expect(answer.json).toEqual({
      success: true,
      errors: [],
      messages: [],
      result: { name: 'box', size: 3, by: 'dev/default' },
    });
    expect(answer.headers.get('ray-id')).toMatch(/^[0-9a-f]{16}$/);
  }
});

test.each([
  ['its account, every permission', 'dev', 'Dev@Example.COM', 'global-key-of-dev', 200],
  ['no other account, though it may administer its own', 'other', 'dev@example.com', 'global-key-of-dev', 404],
  ['nothing with a wrong key', 'dev', 'dev@example.com', 'wrong', 401],
  ['nothing with another e-mail address', 'dev', 'other@example.com', 'global-key-of-dev', 401],
])('a global key opens %s (D85)', async (_what, account, email, key, status) => {
  const { base } = await startHttpApp([things]);
  const headers = { 'X-Auth-Email': email, 'X-Auth-Key': key, 'Content-Type': 'application/json' };
  const url = `${base}/client/v4/accounts/${account}/things`;
  const answer = await ask(url, { method: 'POST', body: '{"name":"box"}', headers });
  expect(answer.status).toBe(status);
  if (status === 200) expect(answer.json.result).toEqual({ name: 'box', by: 'dev/global-key' });
  // A bearer token wins: a stale key beside it does no harm.
  const both = await ask(url, {
    ...post('{"name":"box"}'),
    headers: { ...headers, Authorization: 'Bearer dev-default' },
  });
  expect(both.status).toBe(account === 'dev' ? 200 : 404);
});

test.each([
  ['no token', { Authorization: '' }, 401, 10101, 'E_UNAUTHORIZED'],
  ['another scheme', { Authorization: 'Basic ZGV2OmRldg==' }, 401, 10101, 'E_UNAUTHORIZED'],
  ['an unknown token', { Authorization: 'Bearer nobody' }, 401, 10101, 'E_UNAUTHORIZED'],
  ['a missing scope', { Authorization: 'Bearer dev-reader' }, 403, 10102, 'E_FORBIDDEN'],
  ['another account', { Authorization: 'Bearer other-default' }, 404, 10000, 'E_NOT_FOUND'],
  ['another media type', { 'Content-Type': 'text/plain' }, 415, 10001, 'E_UNSUPPORTED_MEDIA_TYPE'],
  [
    'another charset',
    { 'Content-Type': 'application/json; charset=iso-8859-1' },
    415,
    10001,
    'E_UNSUPPORTED_MEDIA_TYPE',
  ],
  ['a compressed body', { 'Content-Encoding': 'gzip' }, 415, 10001, 'E_UNSUPPORTED_MEDIA_TYPE'],
] as const)('%s is refused', async (_what, headers, status, code, token) => {
  const { base } = await startHttpApp([things]);
  const answer = await ask(base + path, post('{"name":"box"}', headers));
  expect([answer.status, answer.json.errors.length, answer.json.errors[0]?.code]).toEqual([status, 1, code]);
  expect(answer.json.errors[0]?.message).toMatch(new RegExp(`^${token}: `));
  expect(answer.json).toMatchObject({ success: false, messages: [], result: null });
  expect(answer.headers.get('www-authenticate')).toBe(status === 401 ? 'Bearer realm="postern"' : null);
});

test('an unknown account is 404 as another one’s is; admin may act for every account', async () => {
  const { base } = await startHttpApp([things]);
  const unknown = await ask(`${base}/client/v4/accounts/nobody/things`, post('{"name":"box"}'));
  const other = await ask(`${base}/client/v4/accounts/other/things`, post('{"name":"box"}'));
  expect([unknown.status, unknown.text]).toEqual([404, other.text]);
  const boss = post('{"name":"box"}', { Authorization: 'Bearer dev-boss' });
  expect((await ask(`${base}/client/v4/accounts/other/things`, boss)).json.result).toMatchObject({ by: 'other/boss' });
  expect((await ask(`${base}/client/v4/accounts/nobody/things`, boss)).status).toBe(404);
});

test.each([
  ['{', 'E_VALIDATION_ERROR: The body is no JSON that can be read: the text is cut off', undefined],
  ['', 'E_VALIDATION_ERROR: The body must be object', ''],
  ['[]', 'E_VALIDATION_ERROR: The body must be object', ''],
  ['{"size":1}', 'E_FIELD_MISSING: "name" is missing', '/name'],
  ['{"name":"box","Size":1}', 'E_VALIDATION_ERROR: "Size" is no field; did you mean "size"?', '/Size'],
  ['{"name":"box","__proto__":{}}', 'E_VALIDATION_ERROR: "__proto__" is no field; there are name, size', '/__proto__'],
  ['{"name":"box","size":"1"}', 'E_VALIDATION_ERROR: size must be a whole number', '/size'],
  ['{"name":"box","name":"box"}', 'E_VALIDATION_ERROR: This name stands twice in its object', '/name'],
  ['{"name":"\\ud800"}', 'E_VALIDATION_ERROR: This text has a lone surrogate, which is no character', '/name'],
  ['{"name":"none"}', 'E_NOT_FOUND: No thing', '/name'],
])('body %j is refused with its place', async (body, message, pointer) => {
  const { base } = await startHttpApp([things]);
  const answer = await ask(base + path, post(body));
  expect(answer.json.errors.map((error) => [error.message, error.source?.pointer])).toEqual([[message, pointer]]);
});

test('all that is wrong comes in one answer', async () => {
  const { base } = await startHttpApp([things]);
  const answer = await ask(base + path, post('{"name":"much too long","colour":1,"size":{},"size":2}'));
  expect(answer.json.errors.map(({ source }) => source?.pointer)).toEqual(['/size', '/colour', '/name', '/size']);
});

test('a fault of our own is 500 with the Ray-ID and without its reason', async () => {
  const { base } = await startHttpApp([things]);
  const answer = await ask(base + path, post('{"name":"crash"}'));
  const message = `E_INTERNAL_SERVER_ERROR: Internal error, Ray ID ${answer.headers.get('ray-id')}`;
  expect([answer.status, answer.json.errors]).toEqual([500, [{ code: 10002, message }]]);
});

test('unknown paths are 404, other methods 405 with Allow, in the envelope', async () => {
  const { base } = await startHttpApp([things]);
  const none = await ask(`${base}/client/v4/nothing`);
  expect([none.status, none.json.errors[0]?.code]).toEqual([404, 10000]);
  for (const method of ['DELETE', 'OPTIONS', 'PUT']) {
    const answer = await ask(base + path, { method });
    expect([answer.status, answer.headers.get('allow'), answer.json.errors[0]?.code]).toEqual([
      405,
      'GET, HEAD, POST',
      10000,
    ]);
    expect(answer.json.errors[0]?.message).toMatch(/^E_METHOD_NOT_ALLOWED: /);
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  }
  expect((await ask(`${base}/client/v4/%zz`)).json.errors[0]?.message).toBe(
    'E_VALIDATION_ERROR: The path has a percent-encoding that is none',
  );
  expect((await ask(`${base}/client/v4/accounts/${'x'.repeat(501)}/things`)).json.errors[0]?.message).toBe(
    'E_VALIDATION_ERROR: A part of the path has more than 500 characters',
  );
});

test('a body over the limit is 413, by its length at once, else as soon as it is over', async () => {
  const { base } = await startHttpApp([things]);
  const name = (length: number): string => JSON.stringify({ name: 'x' }).padEnd(length, ' ');
  expect((await ask(base + path, post(name(1000)))).status).toBe(200);
  const declared = await ask(base + path, post(name(1001)));
  expect([declared.status, declared.json.errors[0]?.code]).toEqual([413, 10200]);
  const stream = new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(400).fill(0x20));
    },
  });
  const chunked = await ask(base + path, { ...post(''), body: stream, duplex: 'half' });
  expect([chunked.status, chunked.json.errors[0]?.message]).toEqual([
    413,
    'E_CONTENT_TOO_LARGE: The request body is over 1000 octets',
  ]);
});

/** Sends octets and reads the answer's head and body as they come. */
function raw(port: number, octets: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' });
    let text = '';
    socket.setEncoding('latin1').on('data', (data: string) => {
      text += data;
      if (text.includes('\r\n\r\n') && text.endsWith('\n')) socket.end();
      if (text.endsWith('}')) socket.end();
    });
    socket.once('error', reject).once('close', () => resolve(text));
    socket.write(octets, 'latin1');
  });
}

test('who expects 100-continue is refused before the body, or asked for it', async () => {
  const { port } = await startHttpApp([things]);
  const head = (length: number): string =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev-default\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`;
  expect(await raw(port, head(100_000_000))).toMatch(/^HTTP\/1\.1 413 /);
  expect(await raw(port, `${head(14)}{"name":"box"}`)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
});

test('a body that does not come is 408, and the connection ends', async () => {
  const { port } = await startHttpApp([things], { bodyTimeoutMs: 100 });
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev-default\r\n`;
  const socket = connect(port, '127.0.0.1', () => {
    socket.write(`${head}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"name":`);
  });
  const all = await new Promise<string>((resolve) => {
    let text = '';
    socket.on('data', (data) => (text += data.toString())).on('close', () => resolve(text));
  });
  expect(all).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\nRay-ID: [0-9a-f]{16}\r\n/);
  expect(all.match(/HTTP\/1\.1 /g)?.length).toBe(1);
});

test('a missing, repeated or bad Host is a plain 400; what is no HTTP too', async () => {
  const { port } = await startHttpApp([things]);
  for (const hosts of ['', 'Host: a.test\r\nHost: a.test\r\n', 'Host: a/b\r\n', 'Host:\r\n']) {
    const answer = await raw(port, `GET /livez HTTP/1.1\r\n${hosts}\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\nRay-ID: [0-9a-f]{16}\r\nContent-Type: text\/plain/);
  }
  expect(await raw(port, 'NONSENSE\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 Bad Request\r\nRay-ID: [0-9a-f]{16}\r\n/);
});

test('a valid token or key passes at once, whatever wrong ones come from its address (D92)', async () => {
  const guessing = new Guessing({ firstDelayMs: 3_600_000, maxDelayMs: 3_600_000, pauseMs: 1 });
  const { base, app } = await startHttpApp([things], { guessing });
  const withKey = (email: string, key: string): RequestInit => ({
    method: 'POST',
    body: '{"name":"box"}',
    headers: { 'Content-Type': 'application/json', 'X-Auth-Email': email, 'X-Auth-Key': key },
  });
  const wrong = [post('{}', { Authorization: 'Bearer guess' }), withKey('dev@example.com', 'guess')];
  const guesses = Array.from({ length: 31 }, (_, index) => ask(base + path, wrong[index % 2]));
  await expect.poll(() => app.authFailures()).toBe(31);
  await expect.poll(() => guessing.waiting).toBe(8);
  expect((await ask(base + path, post('{"name":"box"}'))).status).toBe(200);
  expect((await ask(base + path, withKey('dev@example.com', 'global-key-of-dev'))).status).toBe(200);
  const refused = await ask(base + path, wrong[0]);
  expect([refused.status, refused.json.errors[0]?.code, refused.headers.get('retry-after')]).toEqual([
    429,
    10004,
    '3600',
  ]);
  guessing.close();
  const statuses = (await Promise.all(guesses)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 401)).toHaveLength(5 + 8);
  expect(statuses.filter((status) => status === 429)).toHaveLength(31 - 13);
  expect(guessing.waiting).toBe(0);
});

test('a route without a scope keeps the API from being served', async () => {
  const open: V4Plugin = (app) => {
    app.get('/open', async (_request, reply) => succeed(reply, null));
  };
  const { log, lines } = logLines();
  const { base } = await startHttpApp([open], { log });
  const answer = await ask(`${base}/client/v4/open`);
  expect([answer.status, answer.json.errors[0]?.message]).toEqual([
    500,
    expect.stringContaining('Internal error, Ray ID'),
  ]);
  expect(JSON.stringify(lines)).toMatch(/names no scope/);
});

test('readyz follows readiness, livez does not, metrics are served as given', async () => {
  let ready = false;
  const { base } = await startHttpApp([], { ready: () => Promise.resolve(ready) });
  expect((await ask(`${base}/readyz`)).status).toBe(503);
  expect((await ask(`${base}/livez`)).status).toBe(200);
  ready = true;
  const answer = await ask(`${base}/readyz?verbose`);
  expect([answer.status, answer.text]).toEqual([200, 'ready\n']);
  expect(answer.headers.get('ray-id')).toMatch(/^[0-9a-f]{16}$/);
  const metrics = await ask(`${base}/metrics`);
  expect([metrics.headers.get('content-type'), metrics.text]).toEqual(['text/plain; version=0.0.4', 'up 1\n']);
});

test('outside /client/v4 errors are one line of text', async () => {
  const { base } = await startHttpApp([], { metrics: () => Promise.reject(new Error('secret detail')) });
  const none = await ask(`${base}/nothing`);
  expect([none.status, none.text]).toEqual([404, 'Not found\n']);
  const post = await ask(`${base}/readyz`, { method: 'POST', body: 'x', headers: { 'Content-Type': 'a/b' } });
  expect([post.status, post.text, post.headers.get('allow')]).toEqual([405, 'Method not allowed\n', 'GET, HEAD']);
  const failed = await ask(`${base}/metrics`);
  expect([failed.status, failed.text]).toEqual([500, 'Internal error\n']);
});

test('while the store is away that the first request to the API needs, the API refuses in its own form, and serves behind it', async () => {
  let isAway = true;
  const load = async (): Promise<readonly V4Plugin[]> => {
    if (isAway) throw cannotBeUsed(new Error('connect ECONNREFUSED 192.0.2.1:5432'));
    return [things];
  };
  const { base } = await startHttpApp([], { plugins: load });
  const refused = await ask(base + path, post('{"name":"box"}'));
  expect(refused).toMatchObject({ status: 503, json: { success: false, messages: [], result: null } });
  expect(refused.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(refused.headers.get('retry-after')).toBe('2');
  const ray = refused.headers.get('ray-id') ?? '';
  const said = `The database cannot be written at the moment, Ray ID ${ray}; try again in 2 s`;
  expect(refused.json.errors).toEqual([expect.objectContaining({ message: expect.stringContaining(said) })]);
  const page = await ask(`${base}/openapi.json`);
  expect([page.status, page.text]).toEqual([
    503,
    expect.stringMatching(/^The database cannot be written at the moment/),
  ]);
  expect(refused.text + page.text).not.toContain('192.0.2.1');
  isAway = false;
  expect((await ask(base + path, post('{"name":"box"}'))).status).toBe(200);
});
