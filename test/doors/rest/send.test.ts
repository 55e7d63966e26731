// What REST accepts, and what leaves for it: address forms, bodies, headers in their order, the result (D43, D44, D46, D47).

import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { goodMessage, type RestGateway, startRest } from '../../support/rest-gateway.ts';

const good = goodMessage;

function headOf(rest: RestGateway, index = 0): string {
  return rest.sent[index]?.head.toString('latin1') ?? '';
}

async function parsed(rest: RestGateway, index = 0) {
  const entry = rest.sent[index];
  return simpleParser(Buffer.concat([entry?.head ?? Buffer.alloc(0), entry?.body ?? Buffer.alloc(0)]));
}

test('a message in its smallest form is queued, and the answer names it', async () => {
  const rest = await startRest();
  const answer = await rest.post('send', good);
  expect(answer.status).toBe(200);
  const [entry] = rest.sent;
  expect(answer.json).toEqual({
    success: true,
    errors: [],
    messages: [],
    result: {
      delivered: [],
      permanent_bounces: [],
      queued: ['you@example.net'],
      message_id: entry?.messageId.slice(1, -1),
    },
  });
  expect(entry?.sessionId).toBe(answer.headers.get('ray-id'));
  // D23: only where the account asks for the repair of threads is it kept which id stands for the client's.
  expect(entry).not.toHaveProperty('keepsClientId');
  expect(entry?.senderPath).toBe('shop@example.com');
  expect(headOf(rest)).toMatch(/^Received: by mx\.platform\.example \(Postern\) with HTTP id\r\n /);
  expect(headOf(rest)).not.toContain('127.0.0.1');
  expect(await rest.queued()).toBe(1);
});

test('every address form leaves right, and Bcc leaves no trace', async () => {
  const rest = await startRest();
  const answer = await rest.post('send', {
    ...good,
    from: { address: 'shop@EXAMPLE.com', name: 'Müller, "Söhne" \\ Co' },
    to: [
      'plain@example.net',
      'Jo Doe <jo@example.net>',
      '"Doe, Jo" <doe@example.net>',
      { address: 'nameless@example.net' },
    ],
    cc: { address: 'ana@bücher.example', name: '山田, 太郎' },
    bcc: ['secret@example.net', 'Plain@example.net', 'plain@example.net'],
    reply_to: ['help@example.com', { address: 'öffice@example.com', name: 'عربى' }],
  });
  expect(answer.status).toBe(200);
  expect(answer.json.result).toMatchObject({
    queued: [
      'plain@example.net',
      'jo@example.net',
      'doe@example.net',
      'nameless@example.net',
      'ana@xn--bcher-kva.example',
      'secret@example.net',
      'Plain@example.net',
    ],
  });
  const message = await parsed(rest);
  expect(message.from?.value).toEqual([{ address: 'shop@example.com', name: 'Müller, "Söhne" \\ Co' }]);
  expect([message.to].flat().flatMap((list) => list?.value.map(({ address, name }) => [address, name]) ?? [])).toEqual([
    ['plain@example.net', ''],
    ['jo@example.net', 'Jo Doe'],
    ['doe@example.net', 'Doe, Jo'],
    ['nameless@example.net', ''],
  ]);
  expect([message.cc].flat()[0]?.value[0]?.name).toBe('山田, 太郎');
  expect(headOf(rest)).toContain('<ana@xn--bcher-kva.example>');
  expect(message.replyTo?.value[1]).toMatchObject({ name: 'عربى' });
  expect(rest.sent[0]?.head.toString('latin1') + String(rest.sent[0]?.body)).not.toMatch(/secret|^bcc/im);
  expect(rest.sent[0]?.smtputf8).toBe(true);
});

test('an IDN sender is the account’s own by its A-label; a bare local part gets the credential’s domain', async () => {
  const rest = await startRest();
  expect((await rest.post('send', { ...good, from: 'Ana <ana@Bücher.example>' })).status).toBe(200);
  expect(headOf(rest)).toContain('\r\nFrom: Ana <ana@xn--bcher-kva.example>\r\n');
  expect((await rest.post('send', { ...good, from: 'cron', to: 'root' }, { credential: 'cron' })).status).toBe(200);
  expect(rest.sent[1]).toMatchObject({ senderPath: 'cron@example.com', recipients: ['root@example.com'] });
});

test('text, html, inline and attached parts are read back as they were', async () => {
  const rest = await startRest();
  const octets = Buffer.from(Array.from({ length: 5000 }, (_, index) => (index * 7) % 256));
  const answer = await rest.post('send', {
    ...good,
    subject: 'Grüße 👋 こんにちは',
    text: 'Zeile 1\r\nZeile ü\n.\nFrom here',
    html: '<p>Hé <img src="cid:logo@example.com"></p>',
    attachments: [
      { content: octets.toString('base64'), filename: 'данные, 1.bin' },
      {
        content: 'R0lGODlhAQABAAAAACw=',
        filename: 'logo.gif',
        type: 'image/gif',
        disposition: 'inline',
        content_id: 'logo@example.com',
      },
      { content: '' },
    ],
  });
  expect(answer.status).toBe(200);
  const message = await parsed(rest);
  expect(message.subject).toBe('Grüße 👋 こんにちは');
  expect(message.text?.trim()).toBe('Zeile 1\nZeile ü\n.\nFrom here');
  expect(
    message.attachments

      .map(({ filename, contentType, cid, contentDisposition }) =>
        [filename, contentType, cid, contentDisposition].join(' '),
      )
      .sort(),
  ).toEqual([
    ' application/octet-stream  attachment',
    'logo.gif image/gif logo@example.com inline',
    'данные, 1.bin application/octet-stream  attachment',
  ]);
  expect(message.attachments.find(({ filename }) => filename === 'данные, 1.bin')?.content.equals(octets)).toBe(true);
});

test('custom headers leave in the order of the text, integer-like names too', async () => {
  const rest = await startRest();
  const body = `{"headers":{"X-b":"1","references":"<a@b>","X-10":"ten","X-1":"one","list-id":"<l.example>"},"from":"shop@example.com","to":"a@b.test","subject":"x","text":"x"}`;
  expect((await rest.post('send', body)).status).toBe(200);
  const names = headOf(rest)
    .split(/\r\n(?![ \t])/)
    .map((line) => line.split(':', 1)[0]);
  expect(names.slice(names.indexOf('Message-ID') + 1, names.indexOf('Feedback-ID'))).toEqual([
    'X-b',
    'References',
    'X-10',
    'X-1',
    'List-Id',
  ]);
});

test('null in an optional field is the same as leaving it out, and an empty array of headers too', async () => {
  const rest = await startRest();
  const none = { cc: null, bcc: null, reply_to: null, html: null, attachments: null, headers: null };
  for (const body of [
    { ...good, ...none },
    { ...good, headers: [] },
    { ...good, to: { address: 'you@example.net', name: null } },
    { ...good, to: [{ address: 'you@example.net', name: null }] },
    { ...good, attachments: [{ content: 'AA==', filename: null, type: null, disposition: null, content_id: null }] },
  ]) {
    const answer = await rest.post('send', body);
    expect([answer.status, answer.json.errors]).toEqual([200, []]);
    const verdict = await rest.post('validate', body);
    expect(verdict.json.result).toMatchObject({ valid: true });
  }
  expect(rest.sent[1]?.head.toString()).toEqual(expect.not.stringContaining('null'));
});

test('null in a required field, in an unknown one and as a header value is refused by name', async () => {
  const rest = await startRest();
  const cases: readonly (readonly [object, readonly string[]])[] = [
    [{ ...good, to: null, subject: null }, ['/subject', '/to']],
    [{ ...good, text: null }, ['/text']],
    [{ ...good, replyTo: null }, ['/replyTo']],
    [{ ...good, attachments: [{ content: null }, null] }, ['/attachments/0/content', '/attachments/1']],
    [{ ...good, headers: { 'X-A': null } }, ['/headers/X-A']],
  ];
  for (const [body, pointers] of cases) {
    const answer = await rest.post('send', body);
    expect([answer.status, answer.json.errors.map(({ source }) => source?.pointer)]).toEqual([400, pointers]);
  }
  const raw = await rest.post('send_raw', { from: null, recipients: null, mime_message: null });
  expect(raw.json.errors.map(({ source }) => source?.pointer)).toEqual(['/from', '/recipients', '/mime_message']);
});

test('base64 with the escapes that writers of JSON put in', async () => {
  const rest = await startRest();
  const content = Buffer.from([0xfb, 0xef, 0xbe, 0xff]).toString('base64');
  expect(content).toBe('++++/w==');
  const written = content.replaceAll('+', '\\u002B').replaceAll('=', '\\u003d').replaceAll('/', '\\/');
  const body = JSON.stringify({ ...good, attachments: [{ content: 'CONTENT' }] }).replace('CONTENT', written);
  expect((await rest.post('send', body)).status).toBe(200);
  expect(rest.sent[0]?.body.toString()).toContain(`\r\n${content}\r\n`);
});

test('send_raw: lines that all end with LF are converted; a message with both is not', async () => {
  const rest = await startRest();
  const raw = (text: string): object => ({
    from: 'shop@example.com',
    recipients: ['you@example.net'],
    mime_message: text,
  });
  const lines = ['From: shop@example.com', 'Subject: a', ' folded one', '', 'First.', '.', '', 'Last.', ''];
  expect((await rest.post('send_raw', raw(lines.join('\n')))).status).toBe(200);
  expect((await rest.post('send_raw', raw(lines.join('\r\n')))).status).toBe(200);
  const [converted, given] = rest.sent;
  expect(converted?.body.toString()).toBe('First.\r\n.\r\n\r\nLast.\r\n');
  expect(converted?.body.toString()).toBe(given?.body.toString());
  expect(converted?.head.toString()).toContain('Subject: a folded one\r\n');
  const mixed = await rest.post('send_raw', raw('From: shop@example.com\nBcc: other@example.net\r\n\r\nx'));
  expect(mixed.json.errors.map((error) => error.message)).toEqual(['E_HEADER_VALUE_INVALID: From holds a bare LF']);
  const bare = await rest.post('send_raw', raw('From: shop@example.com\nSubject: a\rBcc: b@c.test\n\nx'));
  expect(bare.json.errors.map((error) => error.message)).toEqual(['E_HEADER_VALUE_INVALID: Subject holds a bare CR']);
  const long = await rest.post('send_raw', raw(`From: shop@example.com\n\n${'a\n'.repeat(300_000)}`));
  expect(long.status).toBe(200);
  expect(rest.sent[2]?.body.toString()).toBe('a\r\n'.repeat(300_000));
  const grown = await rest.post('send_raw', raw(`From: shop@example.com\n\n${'a\n'.repeat(2_000_000)}`));
  expect(grown.json.errors.map((error) => error.message)).toEqual([
    'E_CONTENT_TOO_LARGE: The message has 6000026 octets, at most 5242880 are allowed',
  ]);
});

test('null headers are none, an empty subject is none', async () => {
  const rest = await startRest();
  expect((await rest.post('send', { ...good, headers: null, subject: '' })).status).toBe(200);
  expect(headOf(rest)).not.toContain('\r\nSubject:');
});

test('limits: exactly at one is accepted, one more is not', async () => {
  const rest = await startRest({ limits: { attachments: 2, recipients: 3, subjectCharacters: 5 } });
  const status = async (more: object): Promise<number> => (await rest.post('send', { ...good, ...more })).status;
  expect(await status({ subject: '👋👋👋👋👋' })).toBe(200);
  expect(await status({ subject: '👋👋👋👋👋👋' })).toBe(400);
  expect(await status({ to: ['a@b.test', 'b@b.test'], cc: 'c@b.test' })).toBe(200);
  expect(await status({ to: ['a@b.test', 'b@b.test'], cc: 'c@b.test', bcc: 'd@b.test' })).toBe(400);
  expect(await status({ attachments: [{ content: '' }, { content: '' }] })).toBe(200);
  expect(await status({ attachments: [{ content: '' }, { content: '' }, { content: '' }] })).toBe(400);
  const name = `${'a'.repeat(242)}@example.net`;
  expect(name.length).toBe(254);
  expect(await status({ to: name })).toBe(200);
  expect(await status({ to: `a${name}` })).toBe(400);
});

test('the limit of the composed message is exact', async () => {
  const measure = await startRest();
  const body = (octets: number): object => ({
    ...good,
    text: 'x'
      .repeat(60)
      .concat('\r\n')
      .repeat(Math.floor(octets / 62))
      .padEnd(octets, 'y'),
  });
  await measure.post('send', body(5000));
  const size =
    (measure.sent[0]?.head.toString('latin1').replace(/DKIM-Signature:[^]*?\r\n(?![ \t])/g, '').length ?? 0) +
    (measure.sent[0]?.body.length ?? 0);
  const exact = await startRest({ limits: { messageBytes: size } });
  expect((await exact.post('send', body(5000))).status).toBe(200);
  expect((await exact.post('send', body(5001))).status).toBe(400);
});

test('send_raw: the octets pass, the 8-bit leaf is encoded, the envelope decides', async () => {
  const rest = await startRest();
  const answer = await rest.post('send_raw', {
    from: 'shop@example.com',
    recipients: ['you@example.net', '<two@example.net>', 'you@example.net'],
    mime_message: 'From: Shop <shop@example.com>\r\nTo: list@example.net\r\nsubject: Grüße\r\nX-A: 1\r\n\r\nüber\r\n',
  });
  expect(answer.json.result).toMatchObject({ queued: ['you@example.net', 'two@example.net'] });
  const message = await parsed(rest);
  expect([message.subject, message.text?.trim()]).toEqual(['Grüße', 'über']);
  expect(headOf(rest)).toMatch(/\r\nContent-Transfer-Encoding: (quoted-printable|base64)\r\n/);
  const bounce = { from: '', recipients: ['you@example.net'], mime_message: 'From: shop@example.com\r\n\r\nx' };
  expect((await rest.post('send_raw', bounce)).status).toBe(200);
  expect(rest.sent[1]?.reversePath).toBe('');
});

test('validate tells what send would, and keeps nothing', async () => {
  const rest = await startRest();
  const ok = await rest.post('validate', { ...good, headers: { 'X-Campaign-ID': 'spring', precedence: 'BULK' } });
  expect(ok.status).toBe(200);
  expect(ok.json.result).toMatchObject({
    valid: true,
    errors: [],
    usage: { allowlisted_headers: 1, header_bytes: 13 + 6 + 4 + 10 + 4 + 4, recipients: 1 },
    limits: { allowlisted_headers: 20, header_bytes: 16_384, message_bytes: 5_242_880, recipients: 50 },
  });
  const sent = (ok.json.result as { headers_as_sent: string[]; usage: { message_bytes: number } }).headers_as_sent;
  expect(sent).toContain('X-Campaign-ID: spring');
  expect(sent).toContain('Precedence: bulk');
  expect(sent[0]).toMatch(/^Received: /);

  const bad = { ...good, from: 'a@elsewhere.test', subject: 'a\nb', headers: { Date: 'x', 'X-A': '' } };
  const refused = await rest.post('validate', bad);
  expect(refused.status).toBe(200);
  const verdict = refused.json.result as {
    valid: boolean;
    errors: unknown;
    headers_as_sent: unknown;
    headers: { name: string; token?: string }[];
  };
  expect([verdict.valid, verdict.headers_as_sent]).toEqual([false, null]);
  expect(verdict.errors).toEqual((await rest.post('send', bad)).json.errors);
  expect(verdict.headers.filter(({ token }) => token).map(({ name, token }) => `${name} ${token}`)).toEqual([
    'From E_SENDER_NOT_VERIFIED',
    'Date E_HEADER_NOT_ALLOWED',
    'X-A E_HEADER_VALUE_INVALID',
  ]);
  const raw = await rest.post('validate', {
    from: '',
    recipients: [],
    mime_message: 'From: shop@example.com\r\nUser-Agent: x\r\n\r\nx',
  });
  expect(raw.json.result).toMatchObject({
    valid: false,
    errors: [{ message: '"recipients" holds no address' }, { message: 'User-Agent is not on the allowlist' }].map(
      ({ message }) => ({ message: expect.stringContaining(message) }),
    ),
  });
  expect([await rest.queued(), rest.sent.length]).toEqual([0, 0]);
});

test('Prefer: wait=N tells what is known by then, and no longer than until all have had their turn', async () => {
  const rest = await startRest({
    onAccepted: ({ sessionId, recipients }, outcomes) => {
      for (const recipient of recipients) {
        const kind = recipient.startsWith('gone') ? 'failed' : recipient.startsWith('slow') ? 'deferred' : 'delivered';
        setImmediate(() => outcomes.tell(sessionId, recipient, kind));
      }
    },
  });
  const to = ['you@example.net', 'gone@example.net', 'slow@example.net'];
  const answer = await rest.post('send', { ...good, to }, { headers: { Prefer: 'respond-async, wait=30' } });
  expect(answer.json.result).toMatchObject({
    delivered: ['you@example.net'],
    permanent_bounces: ['gone@example.net'],
    queued: ['slow@example.net'],
  });
  expect(answer.headers.get('preference-applied')).toBe('wait=30');
  const without = await rest.post('send', { ...good, to }, { headers: { Prefer: 'wait=x' } });
  expect(without.json.result).toMatchObject({ delivered: [], permanent_bounces: [], queued: to });
  expect(without.headers.get('preference-applied')).toBeNull();
});

test('Prefer: wait=N is over after N seconds, or when draining begins', async () => {
  const rest = await startRest();
  const answer = await rest.post('send', good, { headers: { Prefer: 'wait=1' } });
  expect(answer.json.result).toMatchObject({ queued: ['you@example.net'] });
  const waiting = rest.post('send', good, { headers: { Prefer: 'wait=30' } });
  while (rest.sent.length < 2) await new Promise((wake) => setTimeout(wake, 10));
  rest.outcomes.release();
  expect((await waiting).json.result).toMatchObject({ queued: ['you@example.net'] });
});
