import { beforeAll, describe, expect, test } from 'vitest';
import { sign } from '../../../src/pipeline/sign/sign.ts';
import { composeRaw } from '../../support/checked.ts';
import { makeKey, type TestKey, verdicts } from '../../support/dkim.ts';

const raw = `From: Sender <sender@example.com>
To: Recipient <rcpt@example.net>
Cc: Copy <copy@example.net>
Reply-To: answers@example.com
Subject: A  subject with   blanks that is long enough to be folded somewhere in the middle of it
In-Reply-To: <one@example.net>
References: <zero@example.net>
 <one@example.net>
List-Id: News <news.example.com>
List-Unsubscribe: <https://example.com/unsubscribe?u=1>, <mailto:leave@example.com>
List-Unsubscribe-Post: List-Unsubscribe=One-Click
Precedence: bulk
Auto-Submitted: auto-generated
X-Campaign-ID: spring
Content-Type: text/plain; charset=us-ascii

Hello  there,\t
this is the body.

Bye\x20\x20

`;

let rsa: TestKey;
let ed25519: TestKey;
let platformKey: TestKey;
let keys: readonly TestKey[];

beforeAll(async () => {
  [rsa, ed25519, platformKey] = await Promise.all([
    makeKey('example.com', 's1', 'rsa'),
    makeKey('example.com', 'e1', 'ed25519'),
    makeKey('platform.example', 'p1', 'rsa'),
  ]);
  keys = [rsa, ed25519, platformKey];
});

async function signedOctets(domain: readonly TestKey[], platform: readonly TestKey[]): Promise<Buffer> {
  const message = await composeRaw(raw);
  const signed = await sign(message, {
    domain: domain.map(({ signing }) => signing),
    platform: platform.map(({ signing }) => signing),
  });
  return Buffer.concat([signed.head, signed.body]);
}

test('RSA, Ed25519 and the platform’s signature all verify elsewhere', async () => {
  const octets = await signedOctets([rsa, ed25519], [platformKey]);
  expect(await verdicts(octets, keys)).toEqual([
    'pass platform.example p1',
    'pass example.com s1',
    'pass example.com e1',
  ]);
});

test('each algorithm verifies alone', async () => {
  expect(await verdicts(await signedOctets([rsa], []), keys)).toEqual(['pass example.com s1']);
  expect(await verdicts(await signedOctets([ed25519], []), keys)).toEqual(['pass example.com e1']);
});

test('the platform’s signatures can be cut out of the head', async () => {
  const message = await composeRaw(raw);
  const signed = await sign(message, { domain: [rsa.signing], platform: [platformKey.signing] });
  const { start, end } = signed.platformSignature ?? { start: 0, end: 0 };
  const cut = signed.head.subarray(start, end).toString();
  expect(cut).toMatch(/^DKIM-Signature: [^]*d=platform\.example;[^]*\r\n$/);
  const rest = Buffer.concat([signed.head.subarray(0, start), signed.head.subarray(end), signed.body]);
  expect(await verdicts(rest, keys)).toEqual(['pass example.com s1']);
  expect(rest.toString()).toMatch(/^Received: [^]*\r\nDKIM-Signature: [^]*\r\nDate: /);
});

test('without platform keys there is no range to cut', async () => {
  const signed = await sign(await composeRaw(raw), { domain: [rsa.signing], platform: [] });
  expect(signed.platformSignature).toBeUndefined();
});

test('nothing leaves unsigned', async () => {
  await expect(sign(await composeRaw(raw), { domain: [], platform: [platformKey.signing] })).rejects.toThrow(
    'No DKIM key for example.com',
  );
});

test('the field folds within 78 octets, h= between names only, t= is the time of acceptance', async () => {
  const octets = (await signedOctets([rsa], [])).toString();
  const field = /DKIM-Signature: [^]*?\r\n(?=\S)/.exec(octets)?.[0] ?? '';
  for (const line of field.split('\r\n')) expect(line.length).toBeLessThanOrEqual(78);
  expect(field).toContain(`t=${Date.UTC(2025, 10, 21, 12) / 1000};`);
  const names = /\th=([^;]*);/.exec(field)?.[1] ?? '';
  expect(names.split(/:(?:\r\n\t)?/).every((name) => /^[A-Za-z-]+$/.test(name))).toBe(true);
  const twice =
    'From To Cc Subject Reply-To Date Message-ID MIME-Version Content-Type Content-Transfer-Encoding List-Unsubscribe List-Unsubscribe-Post';
  const once = 'Feedback-ID CFBL-Address CFBL-Feedback-ID In-Reply-To References List-Id Precedence Auto-Submitted';
  expect(names.replace(/\s/g, '').split(':')).toEqual([
    ...twice.split(' ').flatMap((name) => [name, name]),
    ...once.split(' '),
  ]);
});

async function broken(change: (text: string) => string): Promise<void> {
  const octets = await signedOctets([rsa, ed25519], []);
  const changed = change(octets.toString('latin1'));
  expect(changed).not.toBe(octets.toString('latin1'));
  for (const verdict of await verdicts(Buffer.from(changed, 'latin1'), keys)) expect(verdict).not.toMatch(/^pass/);
}

describe('whatever is covered cannot be changed', () => {
  const signedFields =
    'From To Cc Reply-To Subject Date Message-ID MIME-Version Content-Type Content-Transfer-Encoding List-Unsubscribe List-Unsubscribe-Post Feedback-ID CFBL-Address CFBL-Feedback-ID In-Reply-To References List-Id Precedence Auto-Submitted'.split(
      ' ',
    );

  test.each(signedFields)('altering %s', (name) => broken((text) => text.replace(`\r\n${name}: `, `\r\n${name}: x`)));
  test.each(signedFields)('removing %s', (name) =>
    broken((text) => text.replace(new RegExp(`\\r\\n${name}: .*(?:\\r\\n[ \\t].*)*`), '')),
  );
  test.each(signedFields.slice(0, 12))('adding another %s on top or below', async (name) => {
    await broken((text) => text.replace('\r\nDate:', `\r\n${name}: another@example.org\r\nDate:`));
    await broken((text) => text.replace('\r\n\r\n', `\r\n${name}: another@example.org\r\n\r\n`));
  });
  test('changing a word of the body', () => broken((text) => text.replace('the body', 'a body')));
  test('appending to the body', () => broken((text) => `${text}More\r\n`));
});

test('what relaxed canonicalisation allows does not break it', async () => {
  const octets = (await signedOctets([rsa, ed25519], [])).toString('latin1');
  const relaxed = octets
    .replace('\r\nSubject: A  subject', '\r\nSUBJECT:   A subject')
    .replace('Hello  there,', 'Hello there,')
    .replace(/$/, '\r\n\r\n');
  expect(await verdicts(Buffer.from(relaxed, 'latin1'), keys)).toEqual(['pass example.com s1', 'pass example.com e1']);
});

test('absent fields are oversigned too: none can be added', async () => {
  const message = await composeRaw('From: a@example.com\n\nHi\n');
  const signed = await sign(message, { domain: [rsa.signing], platform: [] });
  const text = Buffer.concat([signed.head, signed.body]).toString();
  expect(await verdicts(Buffer.from(text), keys)).toEqual(['pass example.com s1']);
  for (const name of ['To', 'Cc', 'Subject', 'Reply-To', 'List-Unsubscribe', 'List-Unsubscribe-Post']) {
    const [verdict] = await verdicts(Buffer.from(text.replace('\r\nDate:', `\r\n${name}: x@y.example\r\nDate:`)), keys);
    expect(verdict).not.toMatch(/^pass/);
  }
});

test('a message with raw UTF-8 in an address verifies', async () => {
  const message = await composeRaw('From: Jörg <jörg@example.com>\nSubject: Grüße\n\nHi\n', {
    envelope: { smtputf8: true },
  });
  expect(message.smtputf8).toBe(true);
  const signed = await sign(message, { domain: [rsa.signing, ed25519.signing], platform: [platformKey.signing] });
  const passed = await verdicts(Buffer.concat([signed.head, signed.body]), keys);
  expect(passed.every((verdict) => verdict.startsWith('pass '))).toBe(true);
  const { start, end } = signed.platformSignature ?? { start: 0, end: 0 };
  expect(signed.head.subarray(start, start + 15).toString()).toBe('DKIM-Signature:');
  expect(signed.head.subarray(end, end + 15).toString()).toBe('DKIM-Signature:');
});
