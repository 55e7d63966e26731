// The binding against a peer that plays answers: what it sends, what it makes of each answer, when it tries again.

import { inspect } from 'node:util';
import { runInNewContext } from 'node:vm';
import { afterEach, expect, test } from 'vitest';
import { createEmailBinding, EmailError, type MessageFields, type SendOptions } from '../packages/binding/src/index.ts';
import {
  accepted,
  hangUp,
  json,
  type Play,
  refused,
  type ScriptedApi,
  silence,
  startScriptedApi,
} from './support/scripted-api.ts';

const token = 'secret-token-0123456789';
const account = 'dev';
const message: MessageFields = { from: 'me@example.com', to: 'you@example.net', subject: 'Hi', text: 'Hello' };
const notAllowed = {
  code: 10202,
  message: 'E_HEADER_NOT_ALLOWED: Date is set by the platform',
  pointer: '/headers/Date',
};

let api: ScriptedApi | undefined;
afterEach(async () => {
  await api?.close();
  api = undefined;
});

async function start(...plays: [Play, ...Play[]]): Promise<ScriptedApi> {
  api = await startScriptedApi(plays);
  return api;
}

async function send(given: MessageFields, options?: SendOptions, more: { timeoutMs?: number } = {}) {
  if (!api) throw new Error('No peer is running');
  return await createEmailBinding({ endpoint: api.endpoint, token, account, ...more }).send(given, options);
}

async function failure(sending: Promise<unknown>): Promise<EmailError> {
  const error: unknown = await sending.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof EmailError)) throw new Error(`No EmailError came, but ${inspect(error)}`);
  return error;
}

async function bodyOf(given: MessageFields): Promise<string> {
  const { seen } = await start(accepted);
  await send(given);
  return seen[0]?.body.toString() ?? '';
}

test('a message goes to the account with the token', async () => {
  const { seen } = await start(accepted);
  expect(await send(message)).toEqual({ messageId: 'id-1@platform.example' });
  const [request] = seen;
  expect(request?.method).toBe('POST');
  expect(request?.url).toBe('/client/v4/accounts/dev/email/sending/send');
  expect(request?.headers).toMatchObject({
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': String(request?.body.length),
  });
  expect(request?.headers).not.toHaveProperty('idempotency-key');
  expect(request?.headers).not.toHaveProperty('prefer');
  expect(JSON.parse(request?.body.toString() ?? '')).toEqual(message);
});

test('an endpoint may have a path before ours, and a slash at its end', async () => {
  const { endpoint, seen } = await start(accepted);
  await createEmailBinding({ endpoint: new URL(`${endpoint}/mail/`), token, account }).send(message);
  expect(seen[0]?.url).toBe('/mail/client/v4/accounts/dev/email/sending/send');
});

test('wait asks for it and tells the outcome', async () => {
  const { seen } = await start(accepted);
  expect(await send(message, { wait: 5, idempotencyKey: 'order-7' })).toEqual({
    messageId: 'id-1@platform.example',
    delivered: [],
    queued: ['you@example.net'],
    permanentBounces: [],
  });
  expect(seen[0]?.headers).toMatchObject({ prefer: 'wait=5', 'idempotency-key': 'order-7' });
});

test('names are translated: replyTo, email, contentId; what is undefined stays out', async () => {
  const body = await bodyOf({
    ...message,
    from: { email: 'me@example.com', name: 'Me' },
    to: [{ address: 'a@example.net' }, { email: 'b@example.net', name: 'B' }, 'c@example.net'],
    replyTo: { email: 'r@example.com' },
    cc: undefined,
    html: undefined,
    attachments: [{ content: 'aGk=', filename: 'a.txt', type: 'text/plain', disposition: 'inline', contentId: 'a' }],
  });
  expect(JSON.parse(body)).toEqual({
    ...message,
    from: { address: 'me@example.com', name: 'Me' },
    to: [{ address: 'a@example.net' }, { address: 'b@example.net', name: 'B' }, 'c@example.net'],
    reply_to: { address: 'r@example.com' },
    attachments: [{ content: 'aGk=', filename: 'a.txt', type: 'text/plain', disposition: 'inline', content_id: 'a' }],
  });
});

test('null in an optional field is the same as leaving it out, also beside the other spelling', async () => {
  const body = await bodyOf({
    ...message,
    from: { email: 'me@example.com', name: null },
    cc: null,
    bcc: null,
    replyTo: null,
    reply_to: 'r@example.com',
    html: null,
    headers: null,
    attachments: [
      { content: 'aGk=', filename: null, contentId: null, content_id: 'a' },
      { content: 'aGk=', contentId: 'b', content_id: null },
    ],
  } as MessageFields);
  expect(JSON.parse(body)).toEqual({
    ...message,
    from: { address: 'me@example.com', name: null },
    reply_to: 'r@example.com',
    attachments: [
      { content: 'aGk=', filename: null, content_id: 'a' },
      { content: 'aGk=', content_id: 'b' },
    ],
  });
  expect(await bodyOf({ ...message, from: { email: null, address: 'me@example.com' } as never })).toContain(
    '"from":{"address":"me@example.com"}',
  );
  const without = { ...message, subject: null, attachments: null } as unknown as MessageFields;
  expect(await bodyOf(without)).toContain('"subject":null');
});

test('what has both spellings, or one that no one knows, goes along for the server to name', async () => {
  const odd = {
    ...message,
    from: { email: 'a@example.com', address: 'b@example.com' },
    replyTo: 'a@example.com',
    reply_to: 'b@example.com',
    tags: ['x'],
  };
  const body = await bodyOf(odd);
  expect(body).toContain('"from":{"email":"a@example.com","address":"b@example.com"}');
  expect(body).toContain('"reply_to":"a@example.com","reply_to":"b@example.com","tags":["x"]');
});

test.each([
  ['a Uint8Array', new Uint8Array([0, 1, 254, 255])],
  ['a part of a buffer', new Uint8Array([9, 9, 0, 1, 254, 255, 9]).subarray(2, 6)],
  ['an ArrayBuffer', new Uint8Array([0, 1, 254, 255]).buffer],
  ['a DataView', new DataView(new Uint8Array([9, 0, 1, 254, 255]).buffer, 1)],
  ['a Buffer', Buffer.from([0, 1, 254, 255])],
  ['an ArrayBuffer of another realm', runInNewContext('new Uint8Array([0, 1, 254, 255]).buffer') as ArrayBuffer],
  ['base64', 'AAH+/w=='],
])('an attachment is %s', async (_, content) => {
  const body = await bodyOf({ ...message, attachments: [{ content, filename: 'f' }] });
  expect(JSON.parse(body)).toMatchObject({ attachments: [{ content: 'AAH+/w==', filename: 'f' }] });
});

test('base64 has no seam, whatever the length', async () => {
  const lengths = [0, 1, 2, 3, 12_287, 12_288, 12_289, 24_577, 100_000];
  const contents = lengths.map((length) => Uint8Array.from({ length }, (_, index) => (index * 7) % 256));
  const body = await bodyOf({ ...message, attachments: contents.map((content) => ({ content })) });
  const { attachments } = JSON.parse(body) as { readonly attachments: readonly { readonly content: string }[] };
  expect(attachments.map(({ content }) => content)).toEqual(
    contents.map((content) => Buffer.from(content).toString('base64')),
  );
});

test('an attachment that JSON would turn into nothing is refused before anything is sent', async () => {
  const { seen } = await start(accepted);
  const content = new Blob(['x']) as unknown as string;
  const error = await failure(send({ ...message, attachments: [{ content: 'eA==' }, { content }] }));
  expect(error.code).toBe('E_VALIDATION_ERROR');
  expect(error.violations).toEqual([
    { code: 'E_VALIDATION_ERROR', message: expect.stringContaining('base64'), pointer: '/attachments/1/content' },
  ]);
  expect(seen).toEqual([]);
});

test('headers keep their order, their repetitions and every character', async () => {
  const pairs: [string, string][] = [
    ['X-B', '1'],
    ['7', 'x'],
    ['X-B', '2'],
    ['__proto__', 'p'],
    ['X-S', 'a\ud800"\u2028'],
  ];
  const text = '"headers":{"X-B":"1","7":"x","X-B":"2","__proto__":"p","X-S":"a\\ud800\\"\u2028"}';
  expect(await bodyOf({ ...message, headers: pairs })).toContain(text);
  await api?.close();
  expect(await bodyOf({ ...message, headers: new Map(pairs.slice(0, 2)) })).toContain('{"X-B":"1","7":"x"}');
  await api?.close();
  expect(await bodyOf({ ...message, headers: { 'X-B': '1', 'X-A': '2' } })).toContain('{"X-B":"1","X-A":"2"}');
});

test('a header without a value goes as null, which the server refuses', async () => {
  const headers = { 'X-A': undefined } as unknown as Record<string, string>;
  expect(await bodyOf({ ...message, headers })).toContain('"headers":{"X-A":null}');
});

test('a refusal tells every reason', async () => {
  await start(
    refused(400, [
      notAllowed,
      { code: 10202, message: 'E_HEADER_NAME_INVALID: a: b', pointer: '/headers/a~1b~01' },
      { code: 10001, message: 'E_FIELD_MISSING: subject is missing', pointer: '/subject' },
      { code: 10202, message: 'E_HEADERS_TOO_MANY: 21 allowlisted headers' },
    ]),
  );
  const error = await failure(send(message, { idempotencyKey: 'once' }));
  expect(error).toBeInstanceOf(Error);
  expect(error.code).toBe('E_HEADER_NOT_ALLOWED');
  expect(error.status).toBe(400);
  expect(error.retryAfterSeconds).toBeUndefined();
  expect(error.message).toBe('E_HEADER_NOT_ALLOWED: Date is set by the platform (and 3 more)');
  expect(error.violations).toEqual([
    {
      code: 'E_HEADER_NOT_ALLOWED',
      message: 'Date is set by the platform',
      pointer: '/headers/Date',
      name: 'Date',
      number: 10202,
    },
    { code: 'E_HEADER_NAME_INVALID', message: 'a: b', pointer: '/headers/a~1b~01', name: 'a/b~1', number: 10202 },
    { code: 'E_FIELD_MISSING', message: 'subject is missing', pointer: '/subject', number: 10001 },
    { code: 'E_HEADERS_TOO_MANY', message: '21 allowlisted headers', number: 10202 },
  ]);
  expect(api?.seen.length).toBe(1);
});

const busy = refused(503, [{ code: 10002, message: 'E_INTERNAL_SERVER_ERROR: busy' }]);
const slowDown = (seconds: string): Play =>
  refused(429, [{ code: 10004, message: 'E_RATE_LIMIT_EXCEEDED: slow down' }], { 'retry-after': seconds });
const inFlight = refused(409, [{ code: 10001, message: 'E_IDEMPOTENCY_CONFLICT: in flight' }]);
const htmlPage: Play = (response) => void response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad</h1>');
const cutShort: Play = (response) => {
  response.writeHead(200, { 'content-length': '500' }).write('{"success":true');
  setImmediate(() => response.socket?.resetAndDestroy());
};

test.each([
  ['no answer', hangUp],
  ['half an answer', cutShort],
  ['503', busy],
  ['a page of a proxy', htmlPage],
  ['429 with Retry-After', slowDown('0')],
  ['409, still in flight', inFlight],
])('with a key, %s is tried again, with the same key and message', async (_, first) => {
  const { seen } = await start(first, accepted);
  expect(await send(message, { idempotencyKey: 'k' })).toEqual({ messageId: 'id-1@platform.example' });
  expect(seen.length).toBe(2);
  expect(seen[1]?.body).toEqual(seen[0]?.body);
  expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual(['k', 'k']);
});

test.each([
  ['no answer', hangUp, 'E_NETWORK_ERROR', undefined],
  ['half an answer', cutShort, 'E_NETWORK_ERROR', undefined],
  ['503', busy, 'E_INTERNAL_SERVER_ERROR', 503],
  ['a page of a proxy', htmlPage, 'E_UNEXPECTED_RESPONSE', 502],
  ['429', slowDown('1'), 'E_RATE_LIMIT_EXCEEDED', 429],
  ['409', inFlight, 'E_IDEMPOTENCY_CONFLICT', 409],
] as const)('without a key, %s ends it', async (_, play, code, status) => {
  const { seen } = await start(play);
  const error = await failure(send(message));
  expect([error.code, error.status]).toEqual([code, status]);
  expect(seen.length).toBe(1);
});

test.each([
  ['429 without Retry-After', refused(429, [{ code: 10004, message: 'E_RATE_LIMIT_EXCEEDED: no' }]), undefined],
  ['429 until tomorrow', slowDown('43200'), 43_200],
  ['401', refused(401, [{ code: 10101, message: 'E_UNAUTHORIZED: no' }]), undefined],
  ['422', refused(422, [{ code: 10001, message: 'E_IDEMPOTENCY_CONFLICT: another body' }]), undefined],
  ['a success without an id', json(200, { success: true, result: {} }), undefined],
  ['a redirect', json(307, {}, { location: 'http://127.0.0.1:1/' }), undefined],
])('with a key too, %s ends it', async (_, play, retryAfterSeconds) => {
  const { seen } = await start(play);
  const error = await failure(send(message, { idempotencyKey: 'k' }));
  expect(error.retryAfterSeconds).toBe(retryAfterSeconds);
  expect(seen.length).toBe(1);
});

test('the tries are bounded, and the last answer is told', async () => {
  const { seen } = await start(hangUp, slowDown('0'), busy, busy);
  const error = await failure(send(message, { idempotencyKey: 'k' }));
  expect([error.code, error.status]).toEqual(['E_INTERNAL_SERVER_ERROR', 503]);
  expect(seen.length).toBe(4);
});

test('Retry-After is waited for, in either form', async () => {
  await start(slowDown('2'), accepted);
  const started = performance.now();
  await send(message, { idempotencyKey: 'k' });
  expect(performance.now() - started).toBeGreaterThan(1950);
  await api?.close();
  await start(slowDown(new Date(Date.now() + 3_600_000).toUTCString()));
  const { retryAfterSeconds } = await failure(send(message, { idempotencyKey: 'k' }));
  expect(retryAfterSeconds).toBeGreaterThan(3000);
  expect(retryAfterSeconds).toBeLessThanOrEqual(3600);
});

test('an attempt has its time', async () => {
  await start(silence);
  const error = await failure(send(message, {}, { timeoutMs: 100 }));
  expect(error.code).toBe('E_TIMEOUT');
  expect(error.status).toBeUndefined();
  await api?.close();
  await start(silence, accepted);
  expect(await send(message, { idempotencyKey: 'k' }, { timeoutMs: 1500 })).toHaveProperty('messageId');
});

test('no server is a network error', async () => {
  const { endpoint } = await start(accepted);
  await api?.close();
  api = undefined;
  const error = await failure(createEmailBinding({ endpoint, token, account }).send(message));
  expect(error.code).toBe('E_NETWORK_ERROR');
  const { host, port } = new URL(endpoint);
  expect(error.message).toBe(`E_NETWORK_ERROR: No answer from ${host}: connect ECONNREFUSED 127.0.0.1:${port}`);
});

test.each([
  [
    'the cause of the cause',
    new TypeError('fetch failed', { cause: new Error('wrapped', { cause: new Error('deep') }) }),
    ': deep',
  ],
  [
    'the first of several addresses',
    new TypeError('fetch failed', { cause: new AggregateError([new Error('one'), new Error('two')]) }),
    ': one',
  ],
  ['a code without words', Object.assign(new Error(''), { code: 'EPIPE' }), ': EPIPE'],
  ['what a browser says', new TypeError('Failed to fetch'), ': Failed to fetch'],
  [
    'nothing that quotes the token',
    new TypeError('fetch failed', { cause: new Error(`bad value Bearer ${token}`) }),
    '',
  ],
  ['no end of words', new Error('x'.repeat(5000)), `: ${'x'.repeat(300)}`],
  [
    'a circle',
    Object.assign(new Error('round'), {
      get cause() {
        return this;
      },
    }),
    ': round',
  ],
  ['nothing at all', undefined, ''],
])('a network error names its reason: %s', async (_, thrown, wanted) => {
  const fetch = (): Promise<Response> => Promise.reject(thrown);
  const options = { endpoint: 'http://mail.example', token, account, fetch };
  const error = await failure(createEmailBinding(options).send(message));
  expect(error.message).toBe(`E_NETWORK_ERROR: No answer from mail.example${wanted}`);
});

test('a signal ends it: before, while it waits for the answer, while it waits to try again', async () => {
  const reason = new Error('enough');
  await start(accepted);
  await expect(send(message, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  expect(api?.seen).toEqual([]);
  await api?.close();

  for (const play of [silence, slowDown('30')]) {
    const controller = new AbortController();
    await start((response) => {
      play(response);
      setTimeout(() => controller.abort(reason), 100);
    });
    await expect(send(message, { signal: controller.signal, idempotencyKey: 'k' })).rejects.toBe(reason);
    expect(api?.seen.length).toBe(1);
    await api?.close();
  }
});

test('fetch may be another', async () => {
  const { endpoint } = await start(accepted);
  const urls: string[] = [];
  const fetch: typeof globalThis.fetch = (input, init) => {
    if (typeof input === 'string') urls.push(input);
    return globalThis.fetch(input, init);
  };
  await createEmailBinding({ endpoint, token, account, fetch }).send(message);
  expect(urls).toEqual([`${endpoint}/client/v4/accounts/dev/email/sending/send`]);
});

test('the token shows in no error and in no view of the binding', async () => {
  const { endpoint } = await start(refused(401, [{ code: 10101, message: 'E_UNAUTHORIZED: no such token' }]), hangUp);
  const binding = createEmailBinding({ endpoint, token, account });
  const errors = [await failure(binding.send(message)), await failure(binding.send(message))];
  expect(errors.map(({ code }) => code)).toEqual(['E_UNAUTHORIZED', 'E_NETWORK_ERROR']);
  for (const shown of [binding, ...errors]) {
    expect(inspect(shown, { depth: 9, showHidden: true })).not.toContain(token);
    expect(JSON.stringify(shown)).not.toContain(token);
  }
});
