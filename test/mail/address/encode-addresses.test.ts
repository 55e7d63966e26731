// What leaves of an address list is read as what was given, by our own reader and by another; what is no list loses nothing.

import addressparser from 'nodemailer/lib/addressparser';
import { expect, test } from 'vitest';
import { type Mailbox, parseAddressList } from '../../../src/mail/address/address.ts';
import { asciiDomain } from '../../../src/mail/address/domain.ts';
import { encodeAddresses } from '../../../src/mail/address/encode-addresses.ts';
import { decodeWords, unfold } from '../../../src/mail/header/header-text.ts';
import { writeField } from '../../../src/mail/write-field.ts';
import fc from '../../support/properties.ts';

const written = (text: string): string => decodeWords(encodeAddresses(text, { used: 4 }));
const inAscii = (text: string): string => encodeAddresses(text, { used: 4, asciiOnly: true });

test.each([
  ['a comment in brackets, even with one of them in it', 'Jo <a@x.example (x>ü)>', '=?utf-8?B?eD7DvA==?='],
  ['a comma in an encoded-word', '=?utf-8?Q?a,b?= Zoë <a@x.example>', '=?utf-8?Q?a,b?= =?utf-8?B?IFpvw6s=?='],
  ['words behind the brackets', '<a@x.example> Zoë', '<a@x.example> =?utf-8?Q?Zo=C3=AB?='],
  ['words that stand together', '"Jo"Zoë <a@x.example>', '=?utf-8?Q?Jo_Zo=C3=AB?= <a@x.example>'],
  ['a domain apart from its @', 'a@ (x) bücher.example', 'a@ (x) xn--bcher-kva.example'],
  ['the domain of a route', '<@bücher.example:a@x.example>', '<@xn--bcher-kva.example:a@x.example>'],
  ['brackets never closed, with another address behind', 'Jo <a@x.example, Zoë <z@x.example>', '=?utf-8?Q?Zo=C3=AB?='],
  ['a bracket that opens nothing', '5 < 6 Ärzte <a@x.example>', '5 < 6 =?utf-8?B?w4RyenRl?= <a@x.example>'],
])('%s: %s', (_, text, wanted) => {
  expect(inAscii(text)).toContain(wanted);
});

test.each([
  ['Jo <a@x.example> (Büro', 'Jo <a@x.example> (Büro)'],
  ['Jö <a@x.example', 'Jö <a@x.example'],
  ['5 < 日本', '5 < 日本'],
  ['"日本 <a@x.example>', '"日本 <a@x.example>'],
])('what is never closed loses nothing: %s', (text, wanted) => {
  expect(written(text)).toBe(wanted);
});

test.each([
  ['Jörg (desk) Zoë <a@x.example>', 'Jörg Zoë'],
  ['=?utf-8?Q?J=C3=B6rg?= (desk) Zoë <a@x.example>', 'Jörg Zoë'],
  ['Jörg (desk) =?utf-8?Q?Zo=C3=AB?= <a@x.example>', 'Jörg Zoë'],
  ['Jo (desk) Zoë <a@x.example>', 'Jo Zoë'],
])('a comment in a display name costs it no blank: %s', (text, name) => {
  const read = parseAddressList(inAscii(text));
  expect(read).toMatchObject({ addresses: [{ displayName: name, comments: ['desk'] }] });
});

test('an encoded-word in a comment with parentheses is not encoded a second time', () => {
  expect(written('a@x.example (a (b) =?utf-8?Q?x?= ü)')).toBe('a@x.example (a (b) x ü)');
});

test('in a list of URIs a bracket ends at the first ">", whatever stands in it', () => {
  const uris = '<https://x.example/(a>, <https://x.example/"b> (für) <mailto:c@x.example>';
  expect(decodeWords(encodeAddresses(uris, { used: 14, phrasesOnly: true }))).toBe(uris);
});

test('an atom right before a comma is the domain, words behind it make it none', () => {
  expect(inAscii('a@bücher.example,b@x.example')).toBe('a@xn--bcher-kva.example,b@x.example');
  expect(encodeAddresses('a@bü cher.example', { used: 4 })).toBe('a@bü cher.example');
});

const word = fc.constantFrom(
  'Jo',
  'Jörg',
  'A.',
  '日本',
  '"Müller, J"',
  '"a \\"b"',
  '=?utf-8?Q?J=C3=B6?=',
  '=?utf-8?Q?a,b?=',
);
const comment = fc.constantFrom('(Büro)', '(desk)', '(a (ü) b)', '(x\\)ü)', `(${'w '.repeat(500)})`);
const phrase = fc
  .array(fc.oneof({ weight: 5, arbitrary: word }, { weight: 1, arbitrary: comment }), { minLength: 1, maxLength: 4 })
  .map((words) => `${words.join(' ')} `);
const address = fc.constantFrom(
  'a@example.com',
  'jörg@bücher.example',
  '"a, b"@bücher.example',
  'a@[192.0.2.1]',
  'a (>) @ bücher.example (x)',
  'root',
);
const mailbox = fc.oneof(
  address,
  fc.tuple(phrase, address, fc.oneof(fc.constant(''), comment)).map(([name, box, after]) => `${name}<${box}>${after}`),
);
const list = fc
  .array(
    fc.oneof(
      { weight: 5, arbitrary: mailbox },
      { weight: 1, arbitrary: fc.array(mailbox, { maxLength: 3 }).map((members) => `Käufer: ${members.join(', ')};`) },
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((elements) => elements.join(', '));

/** Who is named in a list and how, in one spelling of all that may be written anew. */
function named(text: string): unknown {
  const read = parseAddressList(text);
  if (!read.ok) return read.reason;
  const box = ({ localPart, domain = '', displayName = '', comments }: Mailbox) => ({
    address: `${localPart}@${asciiDomain(domain) ?? domain}`,
    name: displayName.replace(/\s+/g, ' ').trim(),
    comments: comments.map((one) => decodeWords(one).replace(/\s+/g, ' ').trim()),
  });
  return read.addresses.map((one) => (one.kind === 'group' ? [one.displayName, ...one.members.map(box)] : box(one)));
}

test('whatever well-formed list is given, the one that leaves names the same', () => {
  fc.assert(
    fc.property(list, (text) => {
      const field = writeField('To', text, 'addresses');
      expect(named(unfold(field).slice('To: '.length, -2))).toEqual(named(text));
    }),
    { numRuns: 2000 },
  );
});

const piece = fc.constantFrom(
  ...['ü', 'a', ' ', '<', '>', '(', ')', '"', '\\', '[', ']', ',', ';', ':', '@', '.', '=?', '=?utf-8?Q?x?=', '\t'],
  ...['a@b.example', '日本 ', '<z@y.example>', '\ud800', '\u{1f600}', 'w'.repeat(1000)],
);
const soup = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join('').trim());

test('any text is taken and fits its lines', () => {
  fc.assert(
    fc.property(
      soup,
      fc.constantFrom('addresses', 'ascii-addresses', 'structured', 'identifier', 'uris'),
      (text, kind) => {
        const field = writeField('To', text, kind);
        if (kind !== 'addresses') expect(field).toMatch(/^[\x00-\x7f]*$/);
        // One assertion for all lines, which are many.
        const longest = Math.max(...field.split('\r\n').map((line) => Buffer.byteLength(line)));
        expect(longest).toBeLessThanOrEqual(998);
      },
    ),
    { numRuns: 5000 },
  );
});

/** Letters and digits, which no quoting and no encoding may take away or put in. */
const letters = (text: string): string => decodeWords(text).replace(/[^\p{L}\p{N}]/gu, '');

test('whatever is given, no letter of it is lost', () => {
  fc.assert(
    fc.property(soup, (text) => {
      // In phrases the domain of a mailbox becomes its A-label too.
      const phrases = text.replaceAll('@', '');
      for (const onePhrase of [false, true]) {
        const written = encodeAddresses(phrases, { used: 4, phrasesOnly: true, onePhrase });
        expect(letters(written)).toBe(letters(phrases.toWellFormed()));
      }
      const domains = encodeAddresses(text, { used: 4 }).replace(/xn--[\w-]+(?:\.[\w-]+)*/g, '');
      if (!text.includes('@')) expect(letters(domains)).toBe(letters(text.toWellFormed()));
    }),
    { numRuns: 5000 },
  );
});

test('another reader finds the addresses of a list in brackets that was given with its faults', () => {
  const boxed = fc.tuple(phrase, fc.constantFrom('', '<', ' 5 < '), fc.constantFrom('', ' Zoë', '(ü', ' (ü>)', '"ü'));
  fc.assert(
    fc.property(boxed, ([name, before, after]) => {
      const text = `${name}${before}<a@example.com>${after}`;
      const addresses = (given: string): string[] => addressparser(given, { flatten: true }).map((one) => one.address);
      expect(addresses(inAscii(text))).toEqual(addresses(text));
    }),
    { numRuns: 1000 },
  );
});

const openings = ['<', '(', '"', '[', '<,', '@(', 'ü"', '<a@', '\\', '=?utf-8?q?', ':;', '<(', '@ü '];
test.each(openings.flatMap((opening) => [false, true].map((phrasesOnly) => ({ opening, phrasesOnly }))))(
  'many times $opening takes linear time, phrasesOnly: $phrasesOnly',
  ({ opening, phrasesOnly }) => {
    expect(encodeAddresses(opening.repeat(100_000), { used: 4, phrasesOnly }).length).toBeGreaterThan(0);
  },
);
