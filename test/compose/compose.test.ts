import { expect, test } from 'vitest';
import type { Message } from '../../src/compose/message.ts';
import { readBounceLocalPart, readToken } from '../../src/mail/return-token.ts';
import { composeRaw, messageUuid, octetsOf, platform } from '../support/checked.ts';

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
