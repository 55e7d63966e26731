import { expect, test } from 'vitest';
import { decodeWords } from '../../../src/mail/header/header-text.ts';
import { headerCatalogue } from '../../../src/pipeline/policy/header-catalogue.ts';
import {
  forbiddenCharacter,
  judgeValue,
  nameFault,
  parseUnsubscribe,
  shown,
} from '../../../src/pipeline/policy/value-rules.ts';

test.each([
  ['<https://example.com/u>', true],
  ['<HTTPS://example.com>', true],
  ['<https://example.com/a,b>, <mailto:u@example.com>', true],
  ['<mailto:u@example.com?subject=unsubscribe%20me,b@c>', false],
  ['<MailTo:u@example.com>,<https://h>', true],
  ['<https://u:p@example.com:8443/x>', true],
  ['<https://[2001:db8::1]/x>', true],
  ['(comment, with <brackets> and \\) (nested)) <https://example.com>\t (more) , <mailto:a@b> ', true],
  ['<https://example.com./u>', true],
  ['<https://192.0.2.1:65535/u>', true],
  ['<https://example.com:/u>', true],
  ['<https://my_host.example.com/u>', true],
  ['<https://bücher.example/ü?a=ü#ü>', true],
  ['<https://b%C3%BCcher.example/u>', true],
  ['<https://example.com/a|b?c[0]=1&d[e][f]=2%20^;$x@y!*(z)>', true],
  ['<mailto:u@[192.0.2.1]>', false],
  // RFC 2369 §2: what folds left of a URI that no line holds.
  [`<https://example.com/${'a'.repeat(600)} ${'b'.repeat(600)}>`, true],
  ['<mailto:ü@bücher.example?subject=ü>', false],
  ['<mailto:a%40b@example.com>', false],
])('List-Unsubscribe: %s is admitted, https %s', (value, https) => {
  expect(parseUnsubscribe(value)).toEqual({ https });
});

test.each([
  ['https://example.com/u', false],
  ['mailto:u@example.com', false],
  ['', false],
  ['<>', false],
  ['()', false],
  ['<http://example.com>', false],
  ['<HTTP://example.com>', false],
  ['<https://example.com>, <http://example.com>', true],
  ['<http://example.com>, <https://example.com>', true],
  ['<ftp://example.com>, <mailto:a@b>', false],
  ['<https:example.com>', false],
  ['<https:/example.com>', false],
  ['<https://>', false],
  ['<https:///path>', false],
  ['<https://?x>', false],
  ['<https://#x>', false],
  ['<https://:443/>', false],
  ['<https://user@/x>', false],
  ['<https://[]/x>', false],
  ['<https://\\example.com>', false],
  ['<mailto:>', false],
  ['<mailto:u>', false],
  ['<mailto:u@>', false],
  ['<mailto:@example.com>', false],
  ['<mailto:a@b@c>', false],
  ['<mailto:a@b,c@d>', false],
  ['<mailto:?to=a@b>', false],
  ['<https://a> <https://b>', true],
  ['<https://a>,', true],
  [',<https://a>', false],
  ['<https://a>,,<https://b>', true],
  ['<https://a> text', true],
  ['text <https://a>', false],
  ['<https://a', false],
  ['<https://a<b>', false],
  ['<https://a>>', true],
  ['<https://a>(never closed', true],
  ['(never closed', false],
  ['"<https://a>"', false],
  ['\u00a0<https://a>', false],
  ['< https>', false],
  ['<https://exam ple.com/x>', false],
  ['<https://example.com/\tx>', false],
  ['< https://example.com/>', false],
  [`<https://example.com/${'a'.repeat(400)} ${'b'.repeat(478)}>`, false],
  ['<https://example.com/\u00a0>', false],
  ['<mailto:u@example.com?subject=leave me>', false],
  ['<https://.../u>', false],
  ['<https://./u>', false],
  ['<https://.example.com/u>', false],
  ['<https://example..com/u>', false],
  ['<https://example.com../u>', false],
  ['<https://-/u>', false],
  ['<https://999.1.1.1/u>', false],
  ['<https://[::1/u>', false],
  ['<https://[unsubscribe]>', false],
  ['<https://a@b@example.com/u>', false],
  ['<https://example.com:65536/u>', false],
  ['<https://example.com:99999999999999999999/u>', false],
  ['<https://example.com:port/u>', false],
  ['<https://example.com:80:80/u>', false],
  ['<mailto:leave@...>', false],
  ['<mailto:leave@.example.com>', false],
  ['<mailto:leave@example..com?subject=x>', false],
  ['<https://example.com/{{unsubscribe}}>', false],
  ['<https://{{host}}/u>', false],
  ['<{{unsubscribe_url}}>', false],
  ['<https://example.com/?u=${id}>', false],
  ['<https://example.com/?u={id}>', false],
  ['<https://example.com/?u={%id%}>', false],
  ['<https://example.com/?u=%%id%%>', false],
  ['<https://example.com/?u=%recipient%>', false],
  ['<https://example.com/?u=%ad%>', false],
  ['<https://example.com/?u=*|ID|*>', false],
  ['<https://example.com/?u=[[id]]>', false],
  ['<https://example.com/[unsubscribe]>', false],
  ['<https://example.com/?u=[ID]>', false],
  ['<mailto:leave+{{id}}@example.com>', false],
  ['<mailto:leave@example.com?subject=%%id%%>', false],
  ['<https://example.com/"u">', false],
  ['<https://example.com\\u>', false],
  ['<https://example.com/u>, <https://example.com/{{id}}>', true],
])('List-Unsubscribe: %j is refused, https %s', (value, https) => {
  const parsed = parseUnsubscribe(value);
  expect(parsed.https).toBe(https);
  expect(parsed.reason).toMatch(
    /^(?:must be|may hold only|has no host|has white space|has a port|holds "[^"]+"|holds """,|needs one address)[ ,]/,
  );
});

// Nobody decodes words in the text that was given: a parenthesis out of an encoded-word hides nothing there.
test('List-Unsubscribe: an encoded-word cannot put an http URI into a comment', () => {
  const row = headerCatalogue['list-unsubscribe'];
  const judge = (given: string) => judgeValue(row, decodeWords(given), given).reason;
  expect(judge('<https://a.example> (=?utf-8?Q?=28?=) <http://b.example> (x))')).toMatch(/^may hold only .*http:\/\/b/);
  expect(judge('(=?utf-8?Q?=28?=) <ftp://b.example>) <https://a.example>')).toBeDefined();
  // What mailers that encode a long value whole make of it.
  expect(judge('=?utf-8?Q?=3Chttps://a.example=3E?=')).toBeUndefined();
  expect(judge('<https://a.example> (=?utf-8?Q?abmelden_=28hier=29?=)')).toBeUndefined();
  // Linear.
  expect(judge(`${'<https://a> (=?utf-8?Q?b?=), '.repeat(30_000)}<https://a>`)).toBeUndefined();
});

// RFC 2047 §5: readers decode nothing outside comments, so that URIs which only decoding shows would be lost on them.
test.each([
  ['=?utf-8?Q?=3Chttps=3A//a.example/u=3E?=', '<https://a.example/u>'],
  ['=?utf-8?Q?=3Chttps=3A//a.example/u=3E?=, <mailto:u@a.example>', '<https://a.example/u>, <mailto:u@a.example>'],
  ['(=?utf-8?Q?=29_=3Chttps=3A//a.example/u=3E=2C?= x) <mailto:u@a.example>', undefined],
  [
    '(=?utf-8?Q?=29_=3Chttps=3A//a.example/u=3E=2C_=28?=) <mailto:u@a.example>',
    '() <https://a.example/u>, () <mailto:u@a.example>',
  ],
  ['<https://a.example> (=?utf-8?Q?abmelden_=28hier=29?=)', undefined],
  ['<https://a.example/=?utf-8?Q?x?=>', undefined],
  ['<https://a.example>', undefined],
])('List-Unsubscribe: %s leaves as a reader finds its URIs', (given, canonical) => {
  const row = headerCatalogue['list-unsubscribe'];
  expect(judgeValue(row, decodeWords(given), given).canonical).toBe(canonical);
});

test.each([
  '<',
  '(',
  '()',
  '<>,',
  '<https://a>,',
  '<https://a',
  '<https://[',
  '<mailto:a@',
  '<https://a>, <https://%',
  '[',
  '\\',
  '(\\',
  ' ',
  ',',
])('a mebibyte of %j in List-Unsubscribe is judged in linear time', (unit) => {
  expect(parseUnsubscribe(unit.repeat(Math.floor(1_048_576 / unit.length))).reason).toBeDefined();
});

const forbidden = [...Array.from({ length: 32 }, (_, code) => code).filter((code) => code !== 9), 127];

test.each(forbidden)('the control character %i is found anywhere', (code) => {
  const character = String.fromCharCode(code);
  expect(forbiddenCharacter(`a${character}b`)).toBeDefined();
  expect(forbiddenCharacter(character)).toBeDefined();
  expect(forbiddenCharacter(` a${character}`)).toBeDefined();
});

test.each(['', 'a\tb', ' ', '~', '\u0080', '\u0085', '\u00a0', '\u2028', '\ufffd', 'caf\u00e9', '\u{1f600}'])(
  '%j holds nothing forbidden',
  (text) => {
    expect(forbiddenCharacter(text)).toBeUndefined();
  },
);

const long = 'a'.repeat(97);
test.each(['A', 'X-A', 'x-a_b', 'X-_', 'X--', 'a1-', '-', `X-${long}`, `${long}aa`, `${long}aaa`])(
  '%s is a name',
  (name) => {
    expect(nameFault(name)).toBeUndefined();
  },
);

test.each([
  ['', 'empty'],
  ['X-', 'may hold only'],
  ['x-', 'may hold only'],
  ['List_Id', 'may hold only'],
  ['Foo Bar', 'may hold only'],
  ['Foo:', 'may hold only'],
  ['X-A.B', 'may hold only'],
  ['X-a b', 'may hold only'],
  ['Caf\u00e9', 'may hold only'],
  ['\u212aeywords', 'may hold only'],
  ['\u017fubject', 'may hold only'],
  ['X-\u212a', 'may hold only'],
  ['A\r\nB', 'may hold only'],
  ['A\n', 'may hold only'],
  ['\0', 'may hold only'],
  [`${long}aaaa`, 'has 101 bytes'],
  [`X-${long}aa`, 'has 101 bytes'],
])('%j is no name', (name, reason) => {
  expect(nameFault(name)).toContain(reason);
});

test('what a message shows is cut and printable', () => {
  expect(shown('a\r\nb\0\x1b[31m\u0085\ud800')).toBe('a\\x0d\\x0ab\\x00\\x1b[31m\\x85\ufffd');
  expect(shown('a'.repeat(60))).toBe('a'.repeat(60));
  expect(shown('a'.repeat(61))).toBe(`${'a'.repeat(60)}...`);
});
