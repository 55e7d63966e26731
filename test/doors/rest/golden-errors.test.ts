// Every E_ token that REST answers with, reached by a request: status, number, token and pointer (D45).

import { expect, test } from 'vitest';
import { restAnswers } from '../../../src/pipeline/submit.ts';
import { goodMessage, type PostOptions, startRest } from '../../support/rest-gateway.ts';

interface Golden {
  readonly what: string;
  readonly endpoint?: string;
  readonly body: unknown;
  readonly options?: PostOptions;
  readonly status: number;
  /** `number token pointer`, all of them in their order. */
  readonly errors: readonly string[];
}

const good = goodMessage;
const raw = {
  from: 'shop@example.com',
  recipients: ['you@example.net'],
  mime_message: 'From: shop@example.com\r\n\r\nHi.\r\n',
};
const headers = (custom: object): object => ({ ...good, headers: custom });
const manyHeaders = Object.fromEntries(
  [
    'Thread-Index',
    'Thread-Topic',
    'List-Id',
    'List-Archive',
    'List-Help',
    'List-Owner',
    'List-Post',
    'List-Subscribe',
    'Keywords',
    'Comments',
    'Organization',
    'Expires',
    'Reply-By',
    'Archived-At',
    'Content-Language',
    'References',
    'In-Reply-To',
    'Require-Recipient-Valid-Since',
  ].map((name) => [name, 'x']),
);
const sized = (count: number): object =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`X-${index}`, 'v'.repeat(2000)]));

const goldens: readonly Golden[] = [
  {
    what: 'a platform header',
    body: headers({ Date: 'x' }),
    status: 400,
    errors: ['10202 E_HEADER_NOT_ALLOWED /headers/Date'],
  },
  {
    what: 'a header with a field of its own',
    body: headers({ 'Reply-To': 'a@b.test' }),
    status: 400,
    errors: ['10202 E_HEADER_USE_API_FIELD /headers/Reply-To'],
  },
  {
    what: 'an invalid value',
    body: headers({ Precedence: 'urgent' }),
    status: 400,
    errors: ['10202 E_HEADER_VALUE_INVALID /headers/Precedence'],
  },
  {
    what: 'a value too long',
    body: headers({ 'X-Long': 'x'.repeat(2049) }),
    status: 400,
    errors: ['10202 E_HEADER_VALUE_TOO_LONG /headers/X-Long'],
  },
  {
    what: 'an invalid name',
    body: headers({ 'X-a/b~c': 'x' }),
    status: 400,
    errors: ['10202 E_HEADER_NAME_INVALID /headers/X-a~1b~0c'],
  },
  { what: 'headers too large', body: headers(sized(9)), status: 400, errors: ['10202 E_HEADERS_TOO_LARGE /headers'] },
  {
    what: 'headers too many',
    body: headers({ ...manyHeaders, Importance: 'high', Priority: 'urgent', Sensitivity: 'private' }),
    status: 400,
    errors: ['10202 E_HEADERS_TOO_MANY /headers'],
  },
  { what: 'a schema fault', body: { ...good, text: 5 }, status: 400, errors: ['10001 E_VALIDATION_ERROR /text'] },
  {
    what: 'a missing field',
    body: { from: good.from, to: good.to, text: 'x' },
    status: 400,
    errors: ['10001 E_FIELD_MISSING /subject'],
  },
  {
    what: 'neither html nor text',
    body: { from: good.from, to: good.to, subject: 'x' },
    status: 400,
    errors: ['10001 E_FIELD_MISSING /text'],
  },
  { what: 'no recipient', body: { ...good, to: [] }, status: 400, errors: ['10001 E_FIELD_MISSING /to'] },
  {
    what: 'an empty object',
    body: {},
    status: 400,
    errors: [
      '10001 E_FIELD_MISSING /from',
      '10001 E_FIELD_MISSING /to',
      '10001 E_FIELD_MISSING /subject',
      '10001 E_FIELD_MISSING /text',
    ],
  },
  {
    what: 'recipients too many',
    body: { ...good, to: Array(40).fill('a@b.test'), cc: Array(10).fill('a@b.test'), bcc: 'a@b.test' },
    status: 400,
    errors: ['10202 E_TOO_MANY_RECIPIENTS /bcc'],
  },
  {
    what: 'attachments too many',
    body: { ...good, attachments: Array.from({ length: 33 }, () => ({ content: 'AAAA' })) },
    status: 400,
    errors: ['10202 E_TOO_MANY_ATTACHMENTS /attachments'],
  },
  {
    what: 'another one’s domain',
    body: { ...good, from: 'a@elsewhere.test' },
    status: 403,
    errors: ['10203 E_SENDER_NOT_VERIFIED /from'],
  },
  {
    what: 'a domain without a key',
    body: { ...good, from: 'a@keyless.example' },
    status: 403,
    errors: ['10203 E_SENDER_NOT_VERIFIED /from'],
  },
  {
    what: 'suppressed recipients',
    body: { ...good, to: ['you@example.net', 'gone@example.net'], cc: 'gone@example.net' },
    status: 400,
    errors: ['10202 E_RECIPIENT_SUPPRESSED /to/1', '10202 E_RECIPIENT_SUPPRESSED /cc'],
  },
  {
    what: 'a message too large',
    body: { ...good, text: 'x'.repeat(20_000) },
    status: 400,
    errors: ['10200 E_CONTENT_TOO_LARGE '],
  },
  {
    what: 'a request too large',
    body: { ...good, text: 'x'.repeat(50_000) },
    status: 413,
    errors: ['10200 E_CONTENT_TOO_LARGE '],
  },
  {
    what: 'no token',
    body: good,
    options: { headers: { Authorization: '' } },
    status: 401,
    errors: ['10101 E_UNAUTHORIZED '],
  },
  {
    what: 'a token without the scope',
    body: good,
    options: { credential: 'reader' },
    status: 403,
    errors: ['10102 E_FORBIDDEN '],
  },
  {
    what: 'another one’s account',
    body: good,
    options: { account: 'slow', headers: { Authorization: 'Bearer dev-default' } },
    status: 404,
    errors: ['10000 E_NOT_FOUND '],
  },
  { what: 'an unknown endpoint', endpoint: 'sent', body: good, status: 404, errors: ['10000 E_NOT_FOUND '] },
  {
    what: 'another media type',
    body: good,
    options: { headers: { 'Content-Type': 'text/html' } },
    status: 415,
    errors: ['10001 E_UNSUPPORTED_MEDIA_TYPE '],
  },
  {
    what: 'a key that is none',
    body: good,
    options: { headers: { 'Idempotency-Key': 'a b' } },
    status: 400,
    errors: ['10001 E_VALIDATION_ERROR '],
  },
  {
    what: 'mixed faults: fields, then sender, then headers',
    body: { ...good, from: 'a@elsewhere.test', cc: 'nobody', subject: 'a\nb', headers: { Date: 'x', 'X-A': '' } },
    status: 400,
    errors: [
      '10001 E_VALIDATION_ERROR /cc',
      '10001 E_VALIDATION_ERROR /subject',
      '10203 E_SENDER_NOT_VERIFIED /from',
      '10202 E_HEADER_NOT_ALLOWED /headers/Date',
      '10202 E_HEADER_VALUE_INVALID /headers/X-A',
    ],
  },
  {
    what: 'raw: an envelope that is none',
    endpoint: 'send_raw',
    body: { ...raw, from: 'nobody', recipients: ['a@b.test', 'x@'] },
    status: 400,
    errors: ['10001 E_VALIDATION_ERROR /from', '10001 E_VALIDATION_ERROR /recipients/1'],
  },
  {
    what: 'raw: a header that is refused',
    endpoint: 'send_raw',
    body: { ...raw, mime_message: `User-Agent: x\r\n${raw.mime_message}` },
    status: 400,
    errors: ['10202 E_HEADER_NOT_ALLOWED /mime_message'],
  },
  {
    what: 'raw: a loop’s trace from an ordinary client',
    endpoint: 'send_raw',
    body: { ...raw, mime_message: `Received: x\r\n${raw.mime_message}` },
    status: 400,
    errors: ['10202 E_HEADER_NOT_ALLOWED /mime_message'],
  },
  {
    what: 'raw: another one’s reverse-path',
    endpoint: 'send_raw',
    body: { ...raw, from: 'a@elsewhere.test' },
    status: 403,
    errors: ['10203 E_SENDER_NOT_VERIFIED /from'],
  },
  {
    what: 'raw: no message',
    endpoint: 'send_raw',
    body: { from: raw.from, recipients: raw.recipients },
    status: 400,
    errors: ['10001 E_FIELD_MISSING /mime_message'],
  },
  {
    what: 'raw: too large',
    endpoint: 'send_raw',
    body: { ...raw, mime_message: raw.mime_message.padEnd(10_001, 'x') },
    status: 400,
    errors: ['10200 E_CONTENT_TOO_LARGE /mime_message'],
  },
  {
    what: 'raw: suppressed',
    endpoint: 'send_raw',
    body: { ...raw, recipients: ['gone@example.net'] },
    status: 400,
    errors: ['10202 E_RECIPIENT_SUPPRESSED /recipients/0'],
  },
];

function said(answer: Awaited<ReturnType<Awaited<ReturnType<typeof startRest>>['post']>>): string[] {
  return answer.json.errors.map(
    ({ code, message, source }) => `${code} ${message.split(':', 1)[0]} ${source?.pointer ?? ''}`,
  );
}

test.each(goldens)('$what', async ({ endpoint = 'send', body, options, status, errors }) => {
  const rest = await startRest({
    limits: { messageBytes: 10_000, requestBytes: 40_000 },
    suppressed: (_account, recipient) => recipient === 'gone@example.net',
  });
  const answer = await rest.post(endpoint, body, options);
  expect(said(answer)).toEqual(errors);
  expect(answer.status).toBe(status);
  expect(answer.json).toMatchObject({ success: false, messages: [], result: null });
  expect(await rest.queued()).toBe(0);
});

test('rates: 429 with Retry-After, a minute’s and a day’s; what is refused costs nothing', async () => {
  const rest = await startRest();
  const slow = (body: object) => rest.post('send', { ...body }, { account: 'slow' });
  const mine = { ...good, from: 'a@slow.example' };
  expect((await slow({ ...mine, headers: { Date: 'x' } })).status).toBe(400);
  expect((await slow(mine)).status).toBe(200);
  const limited = await slow(mine);
  expect([limited.status, ...said(limited)]).toEqual([429, '10004 E_RATE_LIMIT_EXCEEDED ']);
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
  const daily = await rest.post(
    'send',
    { ...good, from: 'a@small.example', to: ['a@b.test', 'b@b.test', 'c@b.test'] },
    { account: 'small' },
  );
  expect([daily.status, ...said(daily)]).toEqual([429, '10004 E_DAILY_LIMIT_EXCEEDED ']);
  expect(Number(daily.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await rest.queued()).toBe(1);
});

test('the goldens reach every token but those with tests of their own', () => {
  const reached = new Set(goldens.flatMap(({ errors }) => errors.map((error) => error.split(' ')[1])));
  const missing = Object.keys(restAnswers).filter((token) => !reached.has(token));
  // Rates above; 405 and 500 in test/web/http/app.test.ts; room in test/e2e/spool-room.test.ts; keys in idempotency.test.ts; loops below, for a trusted hop only.
  expect(missing.sort()).toEqual([
    'E_DAILY_LIMIT_EXCEEDED',
    'E_IDEMPOTENCY_CONFLICT',
    'E_INTERNAL_SERVER_ERROR',
    'E_MAIL_LOOP',
    'E_METHOD_NOT_ALLOWED',
    'E_NO_ROOM',
    'E_RATE_LIMIT_EXCEEDED',
  ]);
});

test('a trusted hop’s message with 51 Received fields is a loop', async () => {
  const rest = await startRest();
  const loop = (count: number): object => ({
    ...raw,
    mime_message: 'Received: from a by b; x\r\n'.repeat(count) + raw.mime_message,
  });
  const answer = await rest.post('send_raw', loop(51), { credential: 'hop' });
  expect([answer.status, ...said(answer)]).toEqual([400, '10202 E_MAIL_LOOP /mime_message']);
  expect((await rest.post('send_raw', loop(50), { credential: 'hop' })).status).toBe(200);
});
