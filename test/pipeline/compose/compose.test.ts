import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { readBounceLocalPart, readToken } from '../../../src/mail/return-token.ts';
import type { Message } from '../../../src/pipeline/compose/compose.ts';
import { composeRaw, messageUuid, octetsOf, platform } from '../../support/checked.ts';

const names = (message: Message): string[] => [...message.trace, ...message.fields].map(({ name }) => name);
const line = (message: Message, name: string): string | undefined =>
  [...message.trace, ...message.fields].find((field) => field.name === name)?.line;

test('the whole message, octet by octet', async () => {
  const message = await composeRaw(`Content-Type: text/plain;
\tcharset="us-ascii"
X-Campaign-ID: spring-2025
subject: Hello
Message-ID: <theirs@client.example>
list-id: News <news.example.com>
Bcc: hidden@example.net
Reply-To: answers@example.com
CC: copy@example.net
TO: rcpt@example.net
from: Sender <sender@example.com>
X-lower-Case: kept

The body.
`);
  const feedbackToken = line(message, 'CFBL-Feedback-ID')?.slice('CFBL-Feedback-ID: '.length).trim() ?? '';
  expect(octetsOf(message).toString().split('\r\n')).toEqual([
    'Received: from client.example.com ([192.0.2.7]) by mx.platform.example',
    ` (Postern) with ESMTPSA id ${messageUuid} for`,
    ' <rcpt@example.net>; Fri, 21 Nov 2025 12:00:00 +0000',
    'Date: Fri, 21 Nov 2025 12:00:00 +0000',
    'From: Sender <sender@example.com>',
    'To: rcpt@example.net',
    'Cc: copy@example.net',
    'Reply-To: answers@example.com',
    'Subject: Hello',
    `Message-ID: <${messageUuid}@platform.example>`,
    'X-Campaign-ID: spring-2025',
    'List-Id: News <news.example.com>',
    'X-lower-Case: kept',
    'Feedback-ID: spring-2025:dev:smtp:platform.example',
    'CFBL-Address: fbl@bounces.platform.example; report=arf',
    `CFBL-Feedback-ID: ${feedbackToken}`,
    'MIME-Version: 1.0',
    'Content-Type: text/plain;',
    '\tcharset="us-ascii"',
    'Content-Transfer-Encoding: 7bit',
    '',
    'The body.',
    '',
  ]);
  expect(readToken(feedbackToken, 'feedback', platform.hmacKey)).toBe(messageUuid);
  expect(message.messageId).toBe(`<${messageUuid}@platform.example>`);
  expect(message.smtputf8).toBe(false);
});

test('the reverse-path is a token of the platform’s bounce domain, or the sending domain’s own', async () => {
  const raw = 'From: a@example.com\n\nHi\n';
  const { reversePath } = await composeRaw(raw);
  const [localPart = '', domain] = reversePath.split('@');
  expect(domain).toBe('bounces.platform.example');
  expect(localPart.length).toBeLessThanOrEqual(64);
  expect(readBounceLocalPart(localPart, platform.hmacKey)).toBe(messageUuid);
  const own = await composeRaw(raw, { returnPathDomain: 'b.example.com' });
  expect(own.reversePath).toBe(`${localPart}@b.example.com`);
  expect((await composeRaw(raw, { envelope: { reversePath: '' } })).reversePath).toBe('');
});

test('a body without a description is described', async () => {
  const message = await composeRaw('From: a@example.com\n\nHi\n');
  expect(octetsOf(message).toString()).toContain(
    'MIME-Version: 1.0\r\nContent-Type: text/plain; charset=us-ascii\r\nContent-Transfer-Encoding: 7bit\r\n\r\nHi\r\n',
  );
});

test('the MIME fields stand last, whatever came', async () => {
  const message = await composeRaw(`MIME-Version: 1.1
Content-Location: https://example.com/ä
Content-Description: Übersicht
Content-ID: <x@example.com>
Content-Disposition: attachment; filename="résumé.pdf"
Content-Transfer-Encoding: BASE64
Content-Type: application/pdf
From: a@example.com

AAAA
`);
  expect(names(message).slice(-7)).toEqual([
    'MIME-Version',
    'Content-Type',
    'Content-Transfer-Encoding',
    'Content-Disposition',
    'Content-ID',
    'Content-Description',
    'Content-Location',
  ]);
  expect(line(message, 'MIME-Version')).toBe('MIME-Version: 1.0\r\n');
  expect(line(message, 'Content-Transfer-Encoding')).toBe('Content-Transfer-Encoding: BASE64\r\n');
  expect(line(message, 'Content-Disposition')).toBe(
    "Content-Disposition: attachment; filename*=utf-8''r%C3%A9sum%C3%A9.pdf\r\n",
  );
  expect(line(message, 'Content-Location')).toBe('Content-Location: https://example.com/%C3%A4\r\n');
});

test('a Content-Type keeps its own folds only where they are legal', async () => {
  const legal = await composeRaw('Content-Type:multipart/mixed\n ; boundary="b"\nFrom: a@example.com\n\n--b--\n');
  expect(line(legal, 'Content-Type')).toBe('Content-Type:multipart/mixed\r\n ; boundary="b"\r\n');
  const blankLine = await composeRaw('Content-Type: text/plain;\n  \n charset=utf-8\nFrom: a@example.com\n\nx\n');
  expect(line(blankLine, 'Content-Type')).toBe('Content-Type: text/plain;   charset=utf-8\r\n');
});

test.each([
  [{ helo: 'client.example.com' }, 'from client.example.com ([192.0.2.7])'],
  [{ helo: '[192.0.2.7]' }, 'from [192.0.2.7] ([192.0.2.7])'],
  [{ helo: '[IPv6:2001:db8::1]', remoteAddress: '2001:db8::1' }, 'from [IPv6:2001:db8::1] ([IPv6:2001:db8::1])'],
  [{ helo: '192.0.2.7' }, 'from unknown ([192.0.2.7])'],
  [{ helo: '[999.0.2.1]' }, 'from unknown ([192.0.2.7])'],
  [{ helo: 'evil (x) by other' }, 'from unknown ([192.0.2.7])'],
  [{ helo: 'a\r\nBcc: b' }, 'from unknown ([192.0.2.7])'],
  [{ helo: '' }, 'from unknown ([192.0.2.7])'],
])('Received names the client %j', async (via, wanted) => {
  const message = await composeRaw('From: a@example.com\n\nHi\n', { via });
  expect(line(message, 'Received')?.replace(/\r\n/g, '')).toContain(`Received: ${wanted} by mx.platform.example`);
});

test('Received hides the client’s address where the account says so', async () => {
  const account = { showClientAddress: false };
  const named = await composeRaw('From: a@example.com\n\nHi\n', { account });
  expect(line(named, 'Received')).toContain('from client.example.com by mx.platform.example');
  const literal = await composeRaw('From: a@example.com\n\nHi\n', { account, via: { helo: '[192.0.2.7]' } });
  expect(line(literal, 'Received')).toContain('from unknown by mx.platform.example');
  expect(line(literal, 'Received')).not.toContain('192.0.2.7');
});

test('Received tells UTF8SMTPSA, HTTP, and no recipient where there are several', async () => {
  const raw = 'From: a@example.com\n\nHi\n';
  const utf8 = await composeRaw(raw, { envelope: { smtputf8: true } });
  expect(line(utf8, 'Received')).toContain('with UTF8SMTPSA id');
  const rest = await composeRaw(raw, { via: { kind: 'rest', protocol: 'HTTP' } });
  expect(line(rest, 'Received')).toContain('Received: by mx.platform.example (Postern) with HTTP id');
  const several = await composeRaw(raw, { envelope: { recipients: ['a@example.net', 'b@example.net'] } });
  expect(line(several, 'Received')).not.toMatch(/\sfor\s/);
  const odd = await composeRaw(raw, { envelope: { recipients: ['"a b"@example.net'] } });
  expect(line(odd, 'Received')).not.toMatch(/\sfor\s/);
});

test('the trace of a trusted hop stands below ours as it came', async () => {
  const message = await composeRaw(
    'Received: from b by c;\n\tThu, 1 Jan 2026 00:00:00 +0000\nreceived: from a (ä)\nFrom: a@example.com\n\nHi\n',
    { via: { trustedHop: true } },
  );
  expect(message.trace).toHaveLength(3);
  expect(message.trace[1]?.line).toBe('Received: from b by c;\r\n\tThu, 1 Jan 2026 00:00:00 +0000\r\n');
  expect(message.trace[2]?.line).toMatch(/^Received: from a =\?utf-8\?.*\?=\r\n$/);
});

test.each([
  ['spring.2025_x-1', 'spring.2025_x-1'],
  ['a'.repeat(64), 'a'.repeat(64)],
  ['a'.repeat(65), '-'],
  ['two words', '-'],
  ['a:b', '-'],
])('the campaign %s gives Feedback-ID %s', async (given, wanted) => {
  const message = await composeRaw(`From: a@example.com\nx-campaign-id: ${given}\n\nHi\n`);
  expect(line(message, 'Feedback-ID')?.replace(/\r\n(?= )/g, '')).toBe(
    `Feedback-ID: ${wanted}:dev:smtp:platform.example\r\n`,
  );
});

test('TLS-Required: No only where the account says so and the envelope does not require TLS', async () => {
  const raw = 'From: a@example.com\n\nHi\n';
  expect(line(await composeRaw(raw), 'TLS-Required')).toBeUndefined();
  const account = { tlsRequiredNo: true };
  expect(line(await composeRaw(raw, { account }), 'TLS-Required')).toBe('TLS-Required: No\r\n');
  const required = await composeRaw(raw, { account, envelope: { requireTls: true } });
  expect(line(required, 'TLS-Required')).toBeUndefined();
});

test('no line is over 998 octets, and 8-bit text is encoded', async () => {
  const message = await composeRaw(
    `From: Jörg Müller <j@example.com>\nSubject: ${'ü'.repeat(400)}\nReferences: ${'<id@example.com>'.repeat(120)}\nX-Latin: caf\u00e9\n\nHi\n`,
  );
  for (const text of octetsOf(message).toString('latin1').split('\r\n')) {
    expect(text.length).toBeLessThanOrEqual(998);
    expect(text).toMatch(/^[\x00-\x7f]*$/);
  }
});

test('a Content-Type that gets a charset keeps its form where a parameter is not ASCII', async () => {
  const message = await composeRaw('From: a@example.com\nContent-Type: text/plain; name="ä.txt"\n\nGrüße\n');
  expect(line(message, 'Content-Type')).toBe("Content-Type: text/plain; name*=utf-8''%C3%A4.txt; charset=utf-8\r\n");
});

test('raw 8-bit octets that are no UTF-8 are read as the legacy charset', async () => {
  const raw = Buffer.from('From: a@example.com\r\nSubject: caf\xe9 \x80\r\n\r\nHi\r\n', 'latin1');
  expect(line(await composeRaw(raw), 'Subject')).toBe('Subject: =?utf-8?B?Y2Fmw6kg4oKs?=\r\n');
});

const latin1 = (text: string): Buffer => Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1');

test('8-bit octets inside an encoded-word are read in its charset and written anew, in every field (D13)', async () => {
  const message = await composeRaw(
    latin1(
      'From: =?iso-8859-1?Q?M\xfcller?= <a@example.com>\nTo: =?iso-8859-1?Q?M\xfcller?= <b@example.net>\n' +
        'Cc: "=?iso-8859-2?Q?\xb1?=" <c@example.net>\nReply-To: =?koi8-r?Q?\xf0=F2?= <d@example.net> (=?koi8-r?Q?\xf0?=)\n' +
        'Subject: =?utf-8?Q?=C3?= =?utf-8?Q?\xa9 caf\xc3\xa9?= plain\nKeywords: =?iso-8859-1?Q?\xe9?=, b\n' +
        'X-A: =?windows-1252?Q?=93\x94?=\n\nHi\n',
    ),
  );
  expect(message.smtputf8).toBe(false);
  const head = octetsOf(message).toString('utf8');
  expect(head).toMatch(/^[\x00-\x7f]*$/);
  const parsed = await simpleParser(head);
  expect(parsed.from?.value).toEqual([{ name: 'M\u00fcller', address: 'a@example.com' }]);
  expect(parsed.to).toMatchObject({ value: [{ name: 'M\u00fcller', address: 'b@example.net' }] });
  expect(parsed.cc).toMatchObject({ value: [{ name: '\u0105', address: 'c@example.net' }] });
  expect(parsed.replyTo?.value).toEqual([{ name: '\u041f\u0420', address: 'd@example.net' }]);
  expect(parsed.subject).toBe('\u00e9 caf\u00e9 plain');
  expect(head).toContain('X-A: =?utf-8?B?4oCc4oCd?=\r\n');
});

test('octets that are none of the charset that a word names are read as outside of words (D13)', async () => {
  const message = await composeRaw(
    latin1('From: a@example.com\nX-A: =?us-ascii?Q?\xfc?=\nX-B: =?utf-8?Q?\xfc?=\nX-C: =?x-nobody?Q?\xfc?=\n\nHi\n'),
  );
  const values = message.checked.custom.map(({ decoded }) => decoded);
  expect(values).toEqual(['\u00fc', '\u00fc', '=?x-nobody?Q?\u00fc?=']);
  expect(octetsOf(message).toString('utf8')).toMatch(/^[\x00-\x7f]*$/);
});

test('a word of addresses does not reach over brackets, whatever octets stand in it', async () => {
  const raw = latin1('From: a@example.com\nTo: =?iso-8859-1?Q?\xfc <b@example.net>, x?= <c@example.net>\n\nHi\n');
  const { to } = await simpleParser(octetsOf(await composeRaw(raw)));
  const boxes = to === undefined || Array.isArray(to) ? [] : to.value;
  expect(boxes.map(({ address }) => address)).toEqual(['b@example.net', 'c@example.net']);
});

const rawAddresses =
  'From: a@example.com\nTo: J\u00f6rg <j\u00f6rg@example.net>, b@example.net, Team: \u00fc@example.net, c@example.net;\n' +
  'Cc: J\u00f6rg M\u00fcller\nReply-To: j\u00f6rg@example.net\n\nHi\n';

test('an address that ASCII cannot write does not make a message need SMTPUTF8 that did not ask for it', async () => {
  const message = await composeRaw(rawAddresses);
  expect(message.smtputf8).toBe(false);
  const head = octetsOf(message).toString('utf8');
  expect(head).toMatch(/^[\x00-\x7f]*$/);
  expect(line(message, 'To')).toBe(
    'To: =?utf-8?B?SsO2cmcgPGrDtnJnQGV4YW1wbGUubmV0Pg==?=:;, b@example.net, Team:\r\n (=?utf-8?B?w7xAZXhhbXBsZS5uZXQ=?=), c@example.net;\r\n',
  );
  expect(line(message, 'Cc')).toBe('Cc: =?utf-8?B?SsO2cmcgTcO8bGxlcg==?=:;\r\n');
  expect(line(message, 'Reply-To')).toBe('Reply-To: =?utf-8?B?asO2cmdAZXhhbXBsZS5uZXQ=?=:;\r\n');
});

test('with SMTPUTF8 asked for, or a From that needs it, addresses leave as they are', async () => {
  const asked = await composeRaw(rawAddresses, { envelope: { smtputf8: true } });
  expect(octetsOf(asked).toString('utf8')).toContain('\r\nReply-To: j\u00f6rg@example.net\r\n');
  const needed = await composeRaw(rawAddresses.replace('From: a', 'From: \u00e4'));
  expect(needed.smtputf8).toBe(true);
  expect(octetsOf(needed).toString('utf8')).toContain('\r\nReply-To: j\u00f6rg@example.net\r\n');
});
