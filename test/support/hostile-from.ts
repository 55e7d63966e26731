// From fields as an attacker writes them, and what leaves of each: for the tests that ask other readers whom they see.

import { createSecretKey, generateKeyPairSync } from 'node:crypto';
import { asciiDomain } from '../../src/mail/address/domain.ts';
import { type BuildParts, build } from '../../src/pipeline/submit.ts';
import { clockOf } from './manual-clock.ts';
import { context, smtpSubmission } from './policy-fixtures.ts';
import fc from './properties.ts';

/** The address that no reader may ever see as the sender. */
const foreign = 'ceo@bank.test';

const word = fc.constantFrom(
  'Boss',
  'A.',
  "O'Hara",
  'a=b',
  '=?x',
  '?=',
  '*',
  '/',
  '%',
  '\u00e9',
  'M\u00fcller',
  '\u65e5\u672c',
  '\uff1cx\uff1e',
  'b\uff20c',
  'a\u00a0b',
  '\u202ex',
  '\u2028',
  'w'.repeat(80),
  'w'.repeat(1000),
);
const inside = fc
  .array(
    fc.constantFrom(
      'x',
      ' ',
      '  ',
      '\t',
      '\r\n ',
      '@',
      '<',
      '>',
      ',',
      ';',
      ':',
      '[',
      ']',
      '(',
      ')',
      '"',
      '\\',
      "'",
      '=?',
      '?=',
      foreign,
      `<${foreign}>`,
      '=?utf-8?Q?=22?=',
      '\u00e9',
      '\uff1c',
    ),
    { maxLength: 6 },
  )
  .map((pieces) => pieces.join(''));
const quoted = inside.map((text) => `"${text.replace(/["\\]/g, '\\$&')}"`);
const looseQuoted = inside.map((text) => `"${text}"`);
const comment = inside.map((text) => `(${text.replace(/[()\\]/g, '\\$&')})`);
const nested = fc.constantFrom(
  `(x (y) <${foreign}>)`,
  `(x \\) <${foreign}>)`,
  `(x " ) <${foreign}>)`,
  `(${foreign})`,
  '(((((a)))))',
  '()',
  `(=?utf-8?Q?=29_=3Cceo=40bank.test=3E?=)`,
);
const encoded = fc.constantFrom(
  '=?utf-8?Q?=3Cceo=40bank.test=3E?=',
  '=?utf-8?Q?ceo=40bank.test=2C?=',
  '=?utf-8?Q?a=22_=3Cceo=40bank.test=3E=22?=',
  '=?utf-8?B?PGNlb0BiYW5rLnRlc3Q+?=',
  '=?utf-8?Q?ceo@bank.test?=',
  `=?utf-8?Q?<${foreign}>?=`,
  '=?utf-8?Q?a,_b?=',
  '=?utf-8?Q?J=C3=B6rg?=',
  '=?utf-8?Q?=28?=',
  '=?x-nobody?Q?a?=',
  '=?utf-8?Q?two words?=',
  '=?iso-8859-1?Q?M\u00fcller?=',
);
const literal = fc.constantFrom('[Desk]', `[<${foreign}>]`, `[${foreign}]`, '[a"]', '[(]');
const blank = fc.constantFrom(' ', '', '\t', '\r\n ', '  ');

const unit = fc.oneof(
  { weight: 6, arbitrary: word },
  { weight: 6, arbitrary: quoted },
  { weight: 1, arbitrary: looseQuoted },
  { weight: 3, arbitrary: comment },
  { weight: 2, arbitrary: nested },
  { weight: 6, arbitrary: encoded },
  { weight: 1, arbitrary: literal },
  { weight: 1, arbitrary: fc.constant(foreign) },
);
const phrase = fc
  .array(fc.tuple(unit, blank), { maxLength: 4 })
  .map((units) => units.map(([text, gap]) => text + gap).join(''));

const localPart = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom('a', 'first.last', "o'hara", 'a+b', '%a', 'a!b', '/', '*') },
  {
    weight: 1,
    arbitrary: fc.constantFrom('"a b"', '"a"', '"a\\"b"', '"a..b"', `"${foreign}"`, '"<x>"', '""', '"a\\b"'),
  },
  { weight: 1, arbitrary: fc.constantFrom('a..b', '.a', 'a.', '.', 'a . b', 'a(x)', '(x)a') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '=?utf-8?Q?ceo=40bank.test?=',
      '=?utf-8?Q?x?=',
      'a=?b',
      'j\u00f6rg',
      'a\u00a0b',
      'a\uff20b',
    ),
  },
);
const domain = fc.oneof(
  { weight: 20, arbitrary: fc.constantFrom('example.com', 'EXAMPLE.com', 'mail.example.com') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '*.example.com',
      'x/y.example.com',
      'a..example.com',
      '.example.com',
      'example.com.',
      'example . com',
      'ex(x)ample.com',
      'mail.(x)example.com(y)',
      '[192.0.2.1]',
      'bank.test',
      'b\u00fccher.example',
      'XN--bcher-kva.example',
      'mail.example\u3002com',
      '\uff45xample.com',
      'bank.test\\.example.com',
      '_x.example.com',
      '-x.example.com',
    ),
  },
);
const address = fc.tuple(localPart, domain).map(([local, host]) => `${local}@${host}`);
const route = fc.constantFrom(
  '',
  '',
  '',
  '',
  '',
  '',
  '@relay.test:',
  '@relay.test,@b.test:',
  `@bank.test,ceo@bank.test:`,
);
const angle = fc
  .tuple(route, blank, address, blank)
  .map(([via, before, box, after]) => `<${via}${before}${box}${after}>`);
const comments = fc.array(fc.oneof(comment, nested), { maxLength: 2 }).map((texts) => texts.join(''));
const behind = fc.oneof({ weight: 5, arbitrary: comments }, { weight: 1, arbitrary: phrase });
const shaped = fc
  .oneof(
    { weight: 4, arbitrary: fc.tuple(phrase, angle, blank, behind) },
    { weight: 1, arbitrary: fc.tuple(comments, address, blank, behind) },
  )
  .map((parts) => parts.join(''));
const special = fc.constantFrom(
  '<',
  '>',
  '(',
  ')',
  '"',
  '\\',
  '[',
  ']',
  ',',
  ';',
  ':',
  '@',
  '.',
  ' ',
  `<${foreign}>`,
  'Team:',
  '=?',
);

/** A From field's text: phrases, comments, routes, groups, encoded-words, brackets in brackets, folds, most broken. */
export const hostileFrom: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: shaped },
  // One character of it put in, or taken out, anywhere.
  {
    weight: 2,
    arbitrary: fc
      .tuple(shaped, special, fc.nat(400))
      .map(([text, piece, at]) => text.slice(0, at % (text.length + 1)) + piece + text.slice(at % (text.length + 1))),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(shaped, fc.nat(400))
      .map(([text, at]) => text.slice(0, at % (text.length + 1)) + text.slice((at % (text.length + 1)) + 1)),
  },
);

const { privateKey } = generateKeyPairSync('ed25519');
const parts: BuildParts = {
  clock: clockOf(() => Date.UTC(2026, 2, 2)),
  hostname: 'mx.platform.example',
  platform: {
    domain: 'platform.example',
    bounceDomain: 'bounces.platform.example',
    hmacKey: createSecretKey(Buffer.alloc(32, 1)),
  },
  sendingDomain: context.sendingDomain,
  domainKeys: (name) => [{ domain: name, selector: 's1', algorithm: 'ed25519', key: privateKey }],
  platformKeys: [],
  wantsPlatformSignature: () => false,
};

/** A From field that was accepted. */
export interface AcceptedFrom {
  readonly given: string;
  /** Who was judged, in the form of `comparable`. */
  readonly judged: string;
  /** The header section that leaves. */
  readonly head: Buffer;
}

/** Sends a message with this From through the pipeline, by SMTP and with SMTPUTF8; undefined where it is refused. */
export async function sendFrom(given: string): Promise<AcceptedFrom | undefined> {
  const raw = Buffer.from(`From: ${given}\r\nTo: a@partner.test\r\nSubject: x\r\n\r\nHi\r\n`);
  const submission = smtpSubmission(raw);
  const built = await build({ ...submission, envelope: { ...submission.envelope, smtputf8: true } }, parts);
  if (!built.ok) return undefined;
  const { head, message } = built.signed;
  return { given, judged: comparable(message.checked.from.address), head };
}

/** One spelling of an address: local part without quotes and quoted-pairs, domain as A-labels in lower case. */
export function comparable(mailbox: string): string {
  const at = mailbox.lastIndexOf('@');
  const local = mailbox.slice(0, at);
  const bare = local.startsWith('"') ? local.slice(1, -1).replace(/\\(.)/gs, '$1') : local;
  return `${bare}@${asciiDomain(mailbox.slice(at + 1)) ?? mailbox.slice(at + 1)}`;
}

/** The From line of a header section without its folds (RFC 5322 §2.2.3). */
export function fromLine(head: Buffer): string {
  const [line = ''] = /^From:.*(?:\r\n[ \t].*)*/m.exec(head.toString('utf8')) ?? [];
  return line.replace(/\r\n(?=[ \t])/g, '').slice('From:'.length);
}
