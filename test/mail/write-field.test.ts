import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { encodedWords } from '../../src/mail/header/encoded-word.ts';
import { foldField } from '../../src/mail/header/fold.ts';
import { decodeWords, unfold } from '../../src/mail/header/header-text.ts';
import { canFoldAddresses, writeField } from '../../src/mail/write-field.ts';
import fc, { anyCharacter } from '../support/properties.ts';

const lines = (field: string): string[] => field.replace(/\r\n$/, '').split('\r\n');
const longest = (field: string): number => Math.max(...lines(field).map((line) => Buffer.byteLength(line)));

/** What another reader makes of a Subject. */
async function readSubject(text: string): Promise<string | undefined> {
  return (await simpleParser(`${writeField('Subject', text)}\r\n\r\n`)).subject;
}

const asciiText = fc
  .array(fc.constantFrom('a', 'bc', ' ', '  ', '\t', '<', '>', '=?', '?=', '=?utf-8?q?x?=', ',', 'word'.repeat(20)), {
    maxLength: 60,
  })
  .map((parts) => parts.join('').replace(/^[ \t]+|[ \t]+$/g, ''))
  .filter((text) => text !== '');

test('unfold(fold(x)) is x, byte for byte, and no line is white space alone', () => {
  fc.assert(
    fc.property(asciiText, (text) => {
      const field = writeField('X-Test', text);
      fc.pre(longest(`X-Test: ${text}`) < 5000);
      expect(longest(field)).toBeLessThanOrEqual(998);
      expect(lines(field).every((line) => /[^ \t]/.test(line))).toBe(true);
      const whole = unfold(field.slice(0, -2));
      if (!/[^ \t]{990}/.test(text)) expect(whole).toBe(`X-Test: ${text}`);
    }),
    { numRuns: 1000 },
  );
});

test('lines that white space could have kept within 78 octets are', () => {
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[a-z]{1,70}$/), { minLength: 1, maxLength: 40 }), (words) => {
      expect(longest(writeField('X-Test', words.join(' ')))).toBeLessThanOrEqual(78);
    }),
  );
});

test.each([
  [77, 1],
  [78, 1],
  [79, 2],
])('a field of %i octets takes %i line(s)', (length, wanted) => {
  const text = `a ${'b'.repeat(length - 'X-Test: a '.length)}`;
  expect(lines(writeField('X-Test', text))).toHaveLength(wanted);
});

test.each([
  [75, 1],
  [76, 1],
  [77, 2],
])('a field of %i octets with an encoded-word takes %i line(s)', (length, wanted) => {
  const text = `=?utf-8?q?x?= ${'b'.repeat(length - 'X-Test: =?utf-8?q?x?= '.length)}`;
  expect(lines(writeField('X-Test', text))).toHaveLength(wanted);
});

test.each([
  [996, false],
  [997, false],
  [998, true],
])('a run of %i octets without white space: encoded %s', (length, encoded) => {
  // With the blank before it a run of 997 fills a line of 998.
  const run = 'r'.repeat(length);
  const field = writeField('X-Test', run);
  expect(longest(field)).toBeLessThanOrEqual(998);
  expect(field.includes('=?utf-8?')).toBe(encoded);
  if (!encoded) expect(field).toBe(`X-Test:\r\n ${run}\r\n`);
});

test('a run over 998 octets decodes to what it was', async () => {
  const text = `one ${'r'.repeat(1200)} two`;
  expect(await readSubject(text)).toBe(text);
});

test('a line of white space only that cannot be folded becomes an encoded-word', async () => {
  const text = `a${' '.repeat(2000)}b`;
  const field = writeField('X-Test', text);
  expect(longest(field)).toBeLessThanOrEqual(998);
  expect(await readSubject(text)).toBe(text);
});

test.each([899, 900, 901, 997, 998, 2000])('a URI of %i octets stays a URI', (length) => {
  const uri = `<https://example.com/${'u'.repeat(length - 22)}>`;
  const field = writeField('List-Unsubscribe', uri, 'uris');
  expect(longest(field)).toBeLessThanOrEqual(998);
  expect(field.replace(/\r\n[ ]?|^List-Unsubscribe:[ ]?/g, '')).toBe(uri);
  if (length <= 997) expect(unfold(field)).toBe(`List-Unsubscribe: ${uri}\r\n`);
  else expect(lines(field)[1]).toHaveLength(901);
});

test('two URIs without white space that no line can hold are folded inside brackets', () => {
  const uris = `<https://example.com/${'u'.repeat(600)}>,<mailto:a@example.com?subject=${'s'.repeat(600)}>`;
  const field = writeField('List-Unsubscribe', uris, 'uris');
  expect(longest(field)).toBeLessThanOrEqual(998);
  expect(field.replace(/\r\n[ ]?|^List-Unsubscribe:[ ]?/g, '')).toBe(uris);
});

test.each([
  ['Grüße aus München'],
  ['日本語の件名がとても長いので、複数のエンコードされた単語に分割されます。それでも文字は壊れません。'],
  ['plain words and then one naïve word among many other plain words that make the line long'],
  ['a  b	ü  c'],
  ['😀'.repeat(60)],
  ['=?not an encoded word? ü'],
])('text %s is read back', async (text) => {
  const field = writeField('X-Test', text);
  expect(field).toMatch(/^[\x00-\x7f]*$/);
  expect(longest(field)).toBeLessThanOrEqual(78);
  for (const line of lines(field)) if (line.includes('=?utf-8?')) expect(line.length).toBeLessThanOrEqual(76);
  expect(await readSubject(text)).toBe(text);
});

// RFC 2047 §2, whatever stands beside the words.
test.each(['text', 'structured', 'identifier'] as const)(
  'lines of %s with an encoded-word have at most 76 octets',
  (kind) => {
    const given = `=?utf-8?Q?${'x'.repeat(50)}?=`;
    const comments = ['(grün)', `(${'ünïcode '.repeat(12)})`, `(${'x'.repeat(130)}é (x))`];
    const word = fc.constantFrom(
      'a',
      'word'.repeat(15),
      'grün',
      'ünï'.repeat(40),
      `${'o'.repeat(130)}ö`,
      given,
      ...comments,
    );
    const gap = kind === 'text' ? fc.constantFrom(' ', '  ', '\t ') : fc.constantFrom(' ', ', ');
    const texts = fc
      .array(fc.tuple(word, gap), { minLength: 1, maxLength: 12 })
      .map((parts) => parts.flat().join('').trim());
    fc.assert(
      fc.property(texts, (text) => {
        const encoded = lines(writeField('X-Test', text, kind)).filter((line) => line.includes('=?utf-8?'));
        expect(encoded.filter((line) => line.length > 76)).toEqual([]);
      }),
      { numRuns: 500 },
    );
  },
);

// Without a blank no line can be folded: where two would make a longer line, they get one (RFC 5322 §3.2.2).
test.each(['structured', 'uris', 'addresses', 'ascii-addresses'] as const)(
  'neither have those of %s where nothing stands between a word, a comment, brackets and a separator',
  (kind) => {
    const token = fc.constantFrom(
      'word'.repeat(15),
      'grün',
      `${'w'.repeat(33)}é`,
      '"ab cd"',
      '"grün"',
      '(grün)',
      `(${'ünïcode '.repeat(12)})`,
      '<a@b.example>',
      '<https://b.example/ü>',
      '@bücher.example',
      ':',
      ';',
    );
    const gap = fc.constantFrom('', '', ' ', ', ');
    const texts = fc.array(fc.tuple(token, gap), { maxLength: 12 }).map((parts) => parts.flat().join('').trim());
    fc.assert(
      fc.property(texts, (text) => {
        const encoded = lines(writeField('X-Test', text, kind)).filter((line) => line.includes('=?utf-8?'));
        expect(encoded.filter((line) => Buffer.byteLength(line) > 76)).toEqual([]);
      }),
      { numRuns: 1000, examples: [['"ab cd"(wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwé, grün und blau)']] },
    );
  },
);

test('an encoded-word never touches what stands beside it', () => {
  expect(writeField('X-Test', 'für<https://b.example/ü>danach', 'structured')).toBe(
    'X-Test: =?utf-8?B?ZsO8cjxodHRwczovL2IuZXhhbXBsZS/DvD4=?= danach\r\n',
  );
  expect(writeField('X-Test', 'davor<https://b.example/ü>danach', 'structured')).toBe(
    'X-Test: davor =?utf-8?B?PGh0dHBzOi8vYi5leGFtcGxlL8O8Pg==?= danach\r\n',
  );
});

test('a word that is encoded never touches an encoded-word that was given', () => {
  const given = '=?utf-8?Q?gr=C3=BCn?=';
  for (const text of [`${given}, ünï <l.example.com>`, `ünï ,${given} <l.example.com>`]) {
    const field = unfold(writeField('List-Id', text, 'identifier'));
    expect(field).not.toContain('?==?');
    expect(decodeWords(field.slice('List-Id: '.length, -2))).toBe(decodeWords(text));
  }
});

test('white space of more than a line before a word that is encoded makes no longer line', async () => {
  const text = `a${' '.repeat(200)}grün`;
  expect(longest(writeField('X-Test', text))).toBeLessThanOrEqual(78);
  expect(await readSubject(text)).toBe(text);
});

test('any text is read back, in words of at most 72 octets', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: anyCharacter, minLength: 1, maxLength: 200 }),
      fc.integer({ min: 0, max: 90 }),
      (text, used) => {
        const words = encodedWords(text, { place: 'phrase', used }).split(' ');
        let decoded = '';
        for (const word of words) {
          expect(word.length).toBeLessThanOrEqual(72);
          const [, encoding, content = ''] = /^=\?utf-8\?([BQ])\?([^?]*)\?=$/.exec(word) ?? [];
          const octets =
            encoding === 'B'
              ? Buffer.from(content, 'base64')
              : Buffer.from(
                  content
                    .replace(/_/g, ' ')
                    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
                  'latin1',
                );
          // Each word is whole UTF-8: no character is split.
          decoded += new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(octets);
        }
        expect(decoded).toBe(text.toWellFormed());
      },
    ),
    { numRuns: 500 },
  );
});

test('text around encoded-words that were given keeps its blanks', async () => {
  expect(await readSubject('=?utf-8?q?a?= é =?utf-8?q?b?= plain')).toBe('a é b plain');
});

test('an ASCII value is never decoded and encoded again', () => {
  expect(writeField('Subject', '=?iso-8859-1?q?caf=E9?= =?x-nobody-knows?b?AAAA?=')).toBe(
    'Subject: =?iso-8859-1?q?caf=E9?= =?x-nobody-knows?b?AAAA?=\r\n',
  );
});

test.each([
  ['Jörg Müller <j@example.com>', [{ name: 'Jörg Müller', address: 'j@example.com' }]],
  [
    '"Müller, Jörg" <j@example.com>, b@example.com',
    [
      { name: 'Müller, Jörg', address: 'j@example.com' },
      { name: '', address: 'b@example.com' },
    ],
  ],
  [
    'A Plain <a@example.com>, Zoë <z@example.com>',
    [
      { name: 'A Plain', address: 'a@example.com' },
      { name: 'Zoë', address: 'z@example.com' },
    ],
  ],
  ['"quoted" é "b\\"c" <q@example.com>', [{ name: 'quoted é b"c', address: 'q@example.com' }]],
  ['info@bücher.example', [{ name: '', address: 'info@bücher.example' }]],
])('addresses %s are read back', async (text, wanted) => {
  const field = writeField('To', text, 'addresses');
  expect(field).toMatch(/^[\x00-\x7f]*$/);
  const { to } = await simpleParser(`${field}\r\n\r\n`);
  const lists = to === undefined || Array.isArray(to) ? [] : to.value;
  expect(lists.map(({ name, address }) => ({ name, address }))).toEqual(wanted);
});

test('a domain that is not ASCII becomes its A-label', () => {
  expect(writeField('To', 'info@bücher.example', 'addresses')).toBe('To: info@xn--bcher-kva.example\r\n');
});

test('a local part that is not ASCII stays as it is', () => {
  expect(writeField('From', 'Jörg <jörg@example.com>', 'addresses')).toBe(
    'From: =?utf-8?B?SsO2cmc=?= <jörg@example.com>\r\n',
  );
});

test('a comment that is not ASCII stays a comment', () => {
  expect(writeField('To', 'a@example.com (Büro (2. Stock))', 'addresses')).toMatch(
    /^To: a@example\.com \(=\?utf-8\?[QB]\?[^?()]*\?=\)\r\n$/,
  );
});

test('a group keeps its form', () => {
  expect(writeField('To', 'Käuferinnen: a@example.com, b@example.com;', 'addresses')).toBe(
    'To: =?utf-8?Q?K=C3=A4uferinnen?=: a@example.com, b@example.com;\r\n',
  );
});

test('a list of addresses without white space is folded behind commas', () => {
  const addresses = Array.from({ length: 100 }, (_, index) => `recipient${index}@example.com`).join(',');
  const field = writeField('To', addresses, 'addresses');
  expect(longest(field)).toBeLessThanOrEqual(998);
  expect(field.replace(/\r\n |\r\n/g, '').slice(4)).toBe(addresses);
});

test('URIs are percent-encoded inside their brackets', () => {
  expect(writeField('List-Help', '<https://example.com/hilfe/übersicht> (Hilfe für alle)', 'uris')).toBe(
    'List-Help: <https://example.com/hilfe/%C3%BCbersicht> (Hilfe\r\n =?utf-8?Q?f=C3=BCr?= alle)\r\n',
  );
});

test('a URI without brackets stays one URI', () => {
  expect(writeField('List-Archive', 'https://bücher.example/ü', 'uris')).toBe(
    'List-Archive: https://xn--bcher-kva.example/%C3%BC\r\n',
  );
  expect(writeField('Archived-At', 'HTTPS://example.com/ü?q=é#ß', 'uris')).toBe(
    'Archived-At: HTTPS://example.com/%C3%BC?q=%C3%A9#%C3%9F\r\n',
  );
});

test('comments beside a URI without brackets leave it one URI', () => {
  expect(writeField('List-Archive', 'https://bücher.example/ü (Archiv)', 'uris')).toBe(
    'List-Archive: https://xn--bcher-kva.example/%C3%BC (Archiv)\r\n',
  );
  expect(writeField('Archived-At', '(für alle (hier)) https://example.com/ü_(é) (é)', 'uris')).toBe(
    'Archived-At: (=?utf-8?Q?f=C3=BCr_alle_=28hier=29?=)\r\n https://example.com/%C3%BC_(%C3%A9) (=?utf-8?B?w6k=?=)\r\n',
  );
});

test.each([
  'Note:ü',
  'https://a.example/ü (not closed',
  'https://a.example/ü (é) b',
  'https://a.example/=?utf-8?Q?x?=é',
])('%s is no URI without brackets', (text) => {
  expect(decodeWords(unfold(writeField('List-Archive', text, 'uris')))).not.toContain('%C3');
});

test('a msg-id that is not ASCII becomes an encoded-word, the others stay', () => {
  expect(writeField('In-Reply-To', '<ä@example.com> <b@example.com>', 'structured')).toBe(
    'In-Reply-To: =?utf-8?B?PMOkQGV4YW1wbGUuY29tPg==?= <b@example.com>\r\n',
  );
});

test.each(['text', 'structured'] as const)(
  'an encoded-word among raw text is not encoded a second time: %s',
  async (kind) => {
    for (const text of [
      '=?utf-8?Q?a=C3=A4?= ö b',
      'ö=?utf-8?Q?a=C3=A4?=',
      'b ö =?utf-8?B?w6Q=?= c é',
      '=?utf-8?Q?a?=ö',
    ]) {
      const value = writeField('Subject', text, kind).slice('Subject: '.length, -2);
      expect(decodeWords(unfold(value))).toBe(decodeWords(text));
      expect((await simpleParser(`Subject: ${value}\r\n\r\n`)).subject).toBe(decodeWords(text));
    }
  },
);

const mixedText = fc
  .array(
    fc.tuple(
      fc.constantFrom(
        'a',
        'é',
        '日本語',
        '😀',
        '=?utf-8?Q?a=C3=A4?=',
        '=?iso-8859-1?B?5A==?=',
        '=?',
        '<x@y>',
        'w'.repeat(90),
      ),
      fc.constantFrom(' ', '  ', '\t', ' '.repeat(80)),
    ),
    { minLength: 1, maxLength: 20 },
  )
  .map((words) => words.flat().join('').trimEnd());

test.each(['text', 'structured'] as const)('whatever is mixed, another reader gets the same %s', async (kind) => {
  await fc.assert(
    fc.asyncProperty(mixedText, async (text) => {
      const field = writeField('Subject', text, kind);
      expect(field).toMatch(/^(?:[\x20-\x7e\t]{0,998}\r\n)+$/);
      expect(lines(field).every((line) => /[^ \t]/.test(line))).toBe(true);
      expect(decodeWords(unfold(field.slice(0, -2)).slice('Subject: '.length))).toBe(decodeWords(text));
      const read = (await simpleParser(`${field}\r\n\r\n`)).subject;
      // It keeps a fold right behind the colon as a line break.
      expect(read?.replace(/\s+/g, ' ').trim()).toBe(decodeWords(text).replace(/\s+/g, ' '));
    }),
    { numRuns: 200 },
  );
});

test.each([
  ['"Ünser Verein, e.V." <a.example>', '=?utf-8?B?w5xuc2VyIFZlcmVpbiwgZS5WLg==?= <a.example>'],
  ['Ünser Verein, e.V. <a.example>', '=?utf-8?B?w5xuc2VyIFZlcmVpbiwgZS5WLg==?= <a.example>'],
  ['Unser (für alle) Verein <a.example>', 'Unser (=?utf-8?Q?f=C3=BCr?= alle) Verein <a.example>'],
  ['"Verein <ü>"<a.example>', '=?utf-8?B?VmVyZWluIDzDvD4=?= <a.example>'],
  ['Verein <ünser.bücher.example>', 'Verein <xn--nser-zra.xn--bcher-kva.example>'],
  ['Verein <ünser verein>', 'Verein <%C3%BCnser verein>'],
  ['"Our, Club" (ok) <a.example>', '"Our, Club" (ok) <a.example>'],
])('List-Id %s keeps its form', (text, wanted) => {
  expect(unfold(writeField('List-Id', text, 'identifier'))).toBe(`List-Id: ${wanted}\r\n`);
});

test.each([
  ['auto-replied (für)', 'auto-replied (=?utf-8?Q?f=C3=BCr?=)'],
  ['auto-replied (für (alle))', 'auto-replied (=?utf-8?B?ZsO8ciAoYWxsZSk=?=)'],
  ['auto-replied (für \\) alle)', 'auto-replied (=?utf-8?B?ZsO8ciApIGFsbGU=?=)'],
  ['auto-replied (für', 'auto-replied (=?utf-8?Q?f=C3=BCr?=)'],
  ['auto-replied (=?utf-8?Q?f=C3=BCr?= für)', 'auto-replied (=?utf-8?Q?f=C3=BCr?= =?utf-8?B?IGbDvHI=?=)'],
  ['Sat, 1 Jun 2030 09:23:01 +0200 (für)', 'Sat, 1 Jun 2030 09:23:01 +0200 (=?utf-8?Q?f=C3=BCr?=)'],
  ['Sat, 1 März 2030', 'Sat, 1 =?utf-8?B?TcOkcno=?= 2030'],
  ['<a@b.example>(für)<c@d.example>', '<a@b.example>(=?utf-8?Q?f=C3=BCr?=)<c@d.example>'],
  ['für "Müller, K."<a@b.example>', '=?utf-8?B?ZsO8ciBNw7xsbGVyLCBLLg==?= <a@b.example>'],
])('the structured value %s keeps its form', (text, wanted) => {
  expect(unfold(writeField('X-Test', text, 'structured'))).toBe(`X-Test: ${wanted}\r\n`);
});

test('no encoded-word ever stands inside a quoted-string, and comments and brackets stay what they were', () => {
  const word = fc.constantFrom(
    'a',
    'ü',
    'Ünser',
    '"Ü, e.V."',
    '"a, b"',
    '(ü (é) b)',
    '(ok)',
    '(a \\) é)',
    '=?utf-8?Q?x?=',
  );
  const value = fc.tuple(fc.array(word, { maxLength: 6 }), fc.constantFrom('<a.example>', '<a@b.example>', ''), word);
  const kinds = ['identifier', 'structured', 'uris', 'addresses'] as const;
  const forms = (text: string): readonly string[] =>
    scan(text).flatMap((token) => (/^[(<]/.test(token) ? [token.charAt(0) === '(' ? '()' : token] : []));
  fc.assert(
    fc.property(value, fc.constantFrom(' ', ''), fc.constantFrom(...kinds), ([words, brackets, last], gap, kind) => {
      const text = [...words, brackets, ...(kind === 'addresses' ? [] : [last])]
        .filter((one) => one !== '')
        .join(gap || ' ');
      const written = unfold(writeField('X', text, kind)).slice(3, -2);
      for (const token of scan(written)) if (token.startsWith('"')) expect(token).not.toContain('=?');
      expect(forms(written)).toEqual(forms(text));
    }),
    { numRuns: 1500 },
  );
});

/** Cuts a value into quoted-strings, comments, brackets and the rest, apart from the code under test. */
function scan(text: string): readonly string[] {
  const tokens: string[] = [];
  for (let at = 0; at < text.length; ) {
    const start = at;
    const close = text[at] === '"' ? '"' : text[at] === '<' ? '>' : '';
    for (let depth = 0; at < text.length; at += 1) {
      if (text[at] === '\\') at += 1;
      else if (close !== '' && at > start && text[at] === close) break;
      else if (close === '' && text[at] === '(') depth += 1;
      else if (close === '' && text[at] === ')') depth -= 1;
      if (close === '' && depth === 0) break;
    }
    at += 1;
    tokens.push(text.slice(start, at));
  }
  return tokens;
}

test.each([
  ['semicolons', ';', ''],
  ['brackets one behind the other', '', '<'],
  ['comments', '(c)', '<'],
])('addresses without white space, divided by %s, all keep', (_, divider, open) => {
  const addresses = Array.from({ length: 60 }, (_one, index) => `recipient${index}@example.com`);
  const text = addresses.map((one) => (open ? `<${one}>` : one)).join(divider);
  for (const kind of ['addresses', 'ascii-addresses', 'structured'] as const) {
    const field = writeField('To', text, kind);
    expect(longest(field)).toBeLessThanOrEqual(998);
    expect(field).not.toContain('=?');
    expect(field.replace(/\r\n ?/g, '').replace(/^To: ?/, '')).toBe(text);
  }
});

test('lines are counted in octets where local parts stay UTF-8', () => {
  const text = Array.from({ length: 60 }, (_, index) => `<${'ü'.repeat(20)}${index}@example.com>`).join('');
  const field = writeField('To', text, 'addresses');
  expect(longest(field)).toBeLessThanOrEqual(998);
  expect(field.replace(/^To:|\r\n| /g, '')).toBe(text);
  const tooLong = `a@example.com,${'ü'.repeat(600)}@example.com`;
  expect(longest(writeField('To', tooLong, 'addresses'))).toBeLessThanOrEqual(998);
});

test.each([
  ['an address', `${'x'.repeat(990)}@b.example`, false],
  ['an address in brackets', `Joe <${'x'.repeat(990)}@b.example>`, false],
  ['an address among others', `a@b.example,${'ü'.repeat(500)}@b.example,c@d.example`, false],
  ['a quoted local part', `"${'x'.repeat(1000)}"@b.example`, false],
  ['a display name', `${'x@'.repeat(600)}<a@b.example>`, true],
  ['a quoted display name', `"${'x@'.repeat(600)}" <a@b.example>`, true],
  ['a comment', `a@b.example (${'x'.repeat(1200)})`, true],
  ['many addresses', 'a@b.example,'.repeat(200), true],
  ['an address that just fits', `${'x'.repeat(987)}@b.example`, true],
])('%s of over 998 octets', (_, text, wanted) => {
  expect(canFoldAddresses(text)).toBe(wanted);
  if (wanted) expect(writeField('To', text, 'addresses')).toContain('@b.example');
});

test('white space that no line can hold never costs a structured field its form', () => {
  const blanks = ' \t'.repeat(600);
  expect(writeField('From', `Joe${blanks}<a@example.com>`, 'addresses')).toBe('From: Joe <a@example.com>\r\n');
  expect(writeField('Content-Type', `text/plain;${blanks}charset=utf-8`, 'parameters')).toBe(
    'Content-Type: text/plain; charset=utf-8\r\n',
  );
  expect(writeField('List-Help', `<https://a.example>,${blanks}<mailto:a@b>`, 'uris')).toBe(
    'List-Help: <https://a.example>, <mailto:a@b>\r\n',
  );
});

test('keywords keep their commas', () => {
  expect(writeField('Keywords', 'red, grün, blue', 'structured')).toBe('Keywords: red, =?utf-8?B?Z3LDvG4=?=, blue\r\n');
});

test('what stands in brackets that hold no URI or address is encoded too', () => {
  expect(writeField('Keywords', 'red, <https://example.com/ü> blue', 'structured')).toBe(
    'Keywords: red, =?utf-8?B?PGh0dHBzOi8vZXhhbXBsZS5jb20vw7w+?= blue\r\n',
  );
  expect(writeField('List-Archive', '<https://example.com/ü', 'uris')).toMatch(/^List-Archive: =\?utf-8\?/);
  expect(writeField('List-Archive', '<https://example.com/>, <über', 'uris')).toBe(
    'List-Archive: <https://example.com/>, =?utf-8?B?PMO8YmVy?=\r\n',
  );
});

test('whatever the text, nothing but local parts of addresses leaves as more than ASCII', () => {
  const piece = fc.constantFrom('ü', '<', '>', '(', ')', '"', '\\', ',', ':', ' ', '=?', '?=', '@', 'a', 'é<b>', '[');
  const kinds = ['text', 'uris', 'identifier', 'structured', 'parameters', 'location'] as const;
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.constantFrom(...kinds), (pieces, kind) => {
      expect(writeField('X-Test', pieces.join('').trim(), kind)).toMatch(/^[\x00-\x7f]*$/);
    }),
    { numRuns: 2000 },
  );
});

test('a parameter that no line can hold is cut into sections', async () => {
  const filename = `${'f'.repeat(1200)}.pdf`;
  const field = writeField('Content-Disposition', `attachment; filename="${filename}"; size=1`, 'parameters');
  expect(longest(field)).toBeLessThanOrEqual(78);
  const parsed = await simpleParser(`Content-Type: application/pdf\r\n${field}\r\nx\r\n`);
  expect(parsed.attachments[0]?.filename).toBe(filename);
});

test('fields are folded by octets where UTF-8 stays', () => {
  const field = foldField('To', `${'ä'.repeat(30)}@example.com, ${'ö'.repeat(30)}@example.com`);
  expect(field && lines(field).map((line) => Buffer.byteLength(line))).toEqual([77, 73]);
});

// Each kind by itself, so that a quadratic one is found by the time of one test, and a busy machine has that time for each.
test.each(['text', 'addresses', 'uris', 'identifier', 'structured', 'parameters', 'location'] as const)(
  'hostile values take linear time: %s',
  (kind) => {
    const hostile = [
      '=?'.repeat(50_000),
      '<'.repeat(100_000),
      '('.repeat(100_000),
      `${'a '.repeat(50_000)}é`,
      '"\\'.repeat(50_000),
      `é${' é'.repeat(30_000)}`,
    ];
    for (const text of hostile) expect(longest(writeField('X-Test', text, kind))).toBeLessThanOrEqual(998);
  },
);
