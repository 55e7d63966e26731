// The binding and a running gateway: messages, the outcome, keys, refusals.

import { simpleParser } from 'mailparser';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createEmailBinding,
  type EmailBinding,
  EmailError,
  EmailMessage,
  type MessageFields,
} from '../../packages/binding/src/index.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';

let postern: PosternHere;
let endpoint: string;
let binding: EmailBinding;
beforeAll(async () => {
  postern = await startHere();
  endpoint = `http://127.0.0.1:${postern.ports['http']}`;
  binding = createEmailBinding({ endpoint, token: testToken, account: 'dev' });
}, 60_000);
afterAll(() => postern?.cleanUp());

const message: MessageFields = { from: 'app@example.com', to: 'a@example.net', subject: 'Hi', text: 'Hello' };

async function failure(sending: Promise<unknown>): Promise<EmailError> {
  const error: unknown = await sending.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EmailError);
  return error as EmailError;
}

/** How many captured messages carry a Message-ID. */
function copies(messageId: string): readonly Buffer[] {
  return postern.captured().filter((captured) => captured.includes(`Message-ID: <${messageId}>`));
}

test('a whole message arrives, and the outcome is told to whoever waits', async () => {
  const { messageId, delivered, queued, permanentBounces } = await binding.send(
    {
      from: { email: 'app@example.com', name: 'The App, Inc.' },
      to: [{ address: 'a@example.net', name: 'Ann' }, 'b@example.net'],
      cc: { email: 'c@example.net' },
      bcc: 'd@example.net',
      replyTo: { email: 'help@example.com', name: 'Help' },
      subject: 'Gr\u00fc\u00dfe',
      text: 'Hello\n',
      html: '<p>Hello <img src="cid:logo"></p>\n',
      headers: { 'X-Campaign-ID': 'spring' },
      attachments: [
        { content: new Uint8Array([0, 255]), filename: 'a.bin', type: 'application/x-bin' },
        { content: new Uint8Array([1, 2]).buffer, type: 'image/png', disposition: 'inline', contentId: 'logo' },
      ],
    },
    { wait: 30 },
  );
  const everyone = ['a@example.net', 'b@example.net', 'c@example.net', 'd@example.net'];
  expect([[...(delivered ?? [])].sort(), queued, permanentBounces]).toEqual([everyone, [], []]);
  const [captured = Buffer.alloc(0)] = copies(messageId);
  expect(captured.includes('d@example.net')).toBe(false);
  const mail = await simpleParser(captured);
  expect(mail.from?.value).toEqual([{ name: 'The App, Inc.', address: 'app@example.com' }]);
  expect(mail.replyTo?.value).toEqual([{ name: 'Help', address: 'help@example.com' }]);
  expect(mail.subject).toBe('Gr\u00fc\u00dfe');
  expect(mail.headers.get('x-campaign-id')).toBe('spring');
  expect(mail.attachments.map(({ filename, cid, content }) => [filename, cid, [...content]])).toEqual(
    expect.arrayContaining([
      ['a.bin', undefined, [0, 255]],
      [undefined, 'logo', [1, 2]],
    ]),
  );
});

test('under one key a message is sent once, however many ask at once', async () => {
  const once = { idempotencyKey: 'order-1' };
  const results = await Promise.all(Array.from({ length: 4 }, () => binding.send(message, once)));
  const [first] = results;
  expect(new Set(results.map(({ messageId }) => messageId)).size).toBe(1);
  expect(await binding.send(message, once)).toEqual(first);
  const found = await postern.until(() => {
    const captured = copies(first?.messageId ?? '');
    return captured.length > 0 ? captured : undefined;
  });
  expect(found.length).toBe(1);
  const other = await failure(binding.send({ ...message, subject: 'Another' }, once));
  expect([other.code, other.status]).toEqual(['E_IDEMPOTENCY_CONFLICT', 422]);
});

test('a finished message arrives at the recipients of its envelope, and is judged like any other', async () => {
  const raw =
    'From: app@example.com\nTo: list@example.net\nSubject: Finished\nX-Campaign-ID: spring\n\nGr\u00fc\u00dfe\n';
  const to = [{ email: 'a@example.net', name: 'Ann' }, 'b@example.net'];
  const once = { idempotencyKey: 'mime-1', wait: 30 };
  const { messageId, delivered } = await binding.send({ from: 'app@example.com', to, raw }, once);
  expect([...(delivered ?? [])].sort()).toEqual(['a@example.net', 'b@example.net']);
  const [captured = Buffer.alloc(0)] = copies(messageId);
  const mail = await simpleParser(captured);
  expect([mail.subject, mail.text?.trim(), mail.headers.get('x-campaign-id')]).toEqual([
    'Finished',
    'Gr\u00fc\u00dfe',
    'spring',
  ]);
  expect(
    (await binding.send({ from: 'app@example.com', to, raw: new TextEncoder().encode(raw) }, once)).messageId,
  ).toBe(messageId);
  const refused = `User-Agent: mailer\n${raw}`;
  const error = await failure(binding.send(new EmailMessage('app@elsewhere.example', ['nobody'], refused)));
  expect(error.violations.map(({ code, pointer, name }) => [code, pointer, name])).toEqual([
    ['E_VALIDATION_ERROR', '/recipients/0', undefined],
    ['E_SENDER_NOT_VERIFIED', '/from', undefined],
    ['E_HEADER_NOT_ALLOWED', '/mime_message', undefined],
  ]);
});

test('refusals come with every reason in its place', async () => {
  const odd = { ...message, tags: [], headers: { Date: 'now', 'X-A': '' }, from: 'app@elsewhere.example' };
  const error = await failure(binding.send(odd));
  expect(error.status).toBe(400);
  expect(error.violations.map(({ code, pointer, name }) => [code, pointer, name])).toEqual([
    ['E_VALIDATION_ERROR', '/tags', undefined],
    ['E_SENDER_NOT_VERIFIED', '/from', undefined],
    ['E_HEADER_NOT_ALLOWED', '/headers/Date', 'Date'],
    ['E_HEADER_VALUE_INVALID', '/headers/X-A', 'X-A'],
  ]);
  const pages = error.violations.map(({ ruleUrl }) => ruleUrl && new URL(ruleUrl).pathname);
  expect(pages).toEqual([undefined, '/headers/From', '/headers/Date', '/headers/X-A']);
});

test('a wrong token, another account and too large a message are told apart', async () => {
  const wrong = createEmailBinding({ endpoint, token: 'wrong', account: 'dev' });
  const elsewhere = createEmailBinding({ endpoint, token: testToken, account: 'nobody' });
  const content = Buffer.alloc(9 * 1024 * 1024);
  const errors = [
    await failure(wrong.send(message)),
    await failure(elsewhere.send(message)),
    await failure(binding.send({ ...message, attachments: [{ content }] })),
  ];
  expect(errors.map(({ code, status }) => [code, status])).toEqual([
    ['E_UNAUTHORIZED', 401],
    ['E_NOT_FOUND', 404],
    ['E_CONTENT_TOO_LARGE', 413],
  ]);
});
