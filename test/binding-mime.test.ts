// The binding with a finished message: the request of send_raw that it becomes, and what is refused before it.

import { afterEach, expect, test } from 'vitest';
import { createEmailBinding, EmailError, EmailMessage, type MimeMessage } from '../packages/binding/src/index.ts';
import { accepted, refused, type ScriptedApi, startScriptedApi } from './support/scripted-api.ts';

const raw = 'From: me@example.com\r\nTo: you@example.net\r\nSubject: Gr\u00fc\u00dfe\r\n\r\nHello\r\n';
const mime: MimeMessage = { from: 'me@example.com', to: 'you@example.net', raw };

let api: ScriptedApi | undefined;
afterEach(async () => {
  await api?.close();
  api = undefined;
});

async function requestOf(message: MimeMessage) {
  await api?.close();
  api = await startScriptedApi([accepted]);
  const binding = createEmailBinding({ endpoint: api.endpoint, token: 't', account: 'dev' });
  expect(await binding.send(message, { idempotencyKey: 'k', wait: 1 })).toMatchObject({
    messageId: 'id-1@platform.example',
    queued: ['you@example.net'],
  });
  return api.seen[0];
}

async function bodyOf(message: MimeMessage): Promise<unknown> {
  return JSON.parse((await requestOf(message))?.body.toString() ?? '');
}

const expected = { from: 'me@example.com', recipients: ['you@example.net'], mime_message: raw };

test('it goes to send_raw, with the options of any message', async () => {
  const request = await requestOf(mime);
  expect(request?.url).toBe('/client/v4/accounts/dev/email/sending/send_raw');
  expect(request?.headers).toMatchObject({
    'idempotency-key': 'k',
    prefer: 'wait=1',
    'content-type': 'application/json',
  });
  expect(JSON.parse(request?.body.toString() ?? '')).toEqual(expected);
});

test.each([
  ['a Uint8Array', new TextEncoder().encode(raw)],
  ['an ArrayBuffer', new TextEncoder().encode(raw).buffer],
  ['a part of a buffer', new TextEncoder().encode(`xx${raw}`).subarray(2)],
])('raw is %s', async (_, bytes) => {
  expect(await bodyOf({ ...mime, raw: bytes })).toEqual(expected);
});

test('a byte order mark stays: what arrives is what was given', async () => {
  expect(await bodyOf({ ...mime, raw: new TextEncoder().encode(`\ufeff${raw}`) })).toMatchObject({
    mime_message: `\ufeff${raw}`,
  });
});

test('an EmailMessage is sent like an object', async () => {
  expect(await bodyOf(new EmailMessage('me@example.com', 'you@example.net', raw))).toEqual(expected);
});

test('a class of another runtime, whose members are accessors, is sent too', async () => {
  const other = new (class {
    get from() {
      return 'me@example.com';
    }
    get to() {
      return ['you@example.net'];
    }
    get raw() {
      return raw;
    }
  })();
  expect(await bodyOf(other)).toEqual(expected);
});

test('the envelope takes the address of each address, one or many', async () => {
  const to = ['a@example.net', { address: 'b@example.net', name: 'B' }, { email: 'c@example.net' }];
  expect(await bodyOf({ ...mime, from: { email: 'me@example.com', name: 'Me' }, to })).toMatchObject({
    from: 'me@example.com',
    recipients: ['a@example.net', 'b@example.net', 'c@example.net'],
  });
  expect(await bodyOf({ ...mime, from: '' })).toMatchObject({ from: '' });
});

test('what a finished message has no room for goes along for the server to name, unless it has no value', async () => {
  const odd = { ...mime, subject: 'Another', text: undefined, html: null, cc: ['c@example.net'] };
  expect(await bodyOf(odd)).toEqual({ ...expected, subject: 'Another', cc: ['c@example.net'] });
});

test('a member of the request beside the one that becomes it goes along as well, so that the server refuses the two', async () => {
  const odd = { ...mime, recipients: ['c@example.net'], mime_message: 'x', ['__proto__']: 'y' };
  expect((await requestOf(odd))?.body.toString()).toBe(
    `{"from":"me@example.com","recipients":["you@example.net"],"mime_message":${JSON.stringify(raw)},` +
      '"recipients":["c@example.net"],"mime_message":"x","__proto__":"y"}',
  );
});

test.each([
  ['octets that are no UTF-8', new Uint8Array([0x46, 0xe9, 0x0d, 0x0a]), /UTF-8.*quoted-printable or base64/],
  ['a Blob', new Blob([raw]), /string, a Uint8Array or an ArrayBuffer/],
  ['a number', 5, /string, a Uint8Array or an ArrayBuffer/],
])('raw that is %s is refused before anything is sent', async (_, given, why) => {
  api = await startScriptedApi([accepted]);
  const binding = createEmailBinding({ endpoint: api.endpoint, token: 't', account: 'dev' });
  const error: unknown = await binding.send({ ...mime, raw: given as never }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(EmailError);
  expect(error).toMatchObject({
    code: 'E_VALIDATION_ERROR',
    violations: [{ pointer: '/raw', message: expect.stringMatching(why) }],
  });
  expect(api.seen).toEqual([]);
});

test('a refusal tells every reason', async () => {
  api = await startScriptedApi([
    refused(400, [
      {
        code: 10202,
        message: 'E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist',
        pointer: '/mime_message',
      },
    ]),
  ]);
  const binding = createEmailBinding({ endpoint: api.endpoint, token: 't', account: 'dev' });
  await expect(binding.send(mime)).rejects.toMatchObject({
    code: 'E_HEADER_NOT_ALLOWED',
    status: 400,
    violations: [{ pointer: '/mime_message', number: 10202 }],
  });
});
