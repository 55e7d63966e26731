import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { formatReply, printableAscii, refusalReply, replies } from '../../../src/doors/smtp/replies.ts';
import type { Violation } from '../../../src/pipeline/submit.ts';
import fc, { anyCharacter } from '../../support/properties.ts';

function written(violations: readonly Violation[]): string {
  return formatReply(refusalReply(violations));
}

function many(count: number): Violation[] {
  return Array.from({ length: count }, (_, index) => ({
    code: 'E_HEADER_VALUE_INVALID',
    message: `X-${index} is empty`,
  }));
}

test('one violation is one line', () => {
  expect(written([{ code: 'E_HEADER_NOT_ALLOWED', message: 'User-Agent is not on the allowlist' }])).toBe(
    '554 5.7.1 E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist\r\n',
  );
});

test.each([
  ['E_HEADER_USE_API_FIELD', '554 5.7.1'],
  ['E_HEADERS_TOO_MANY', '554 5.6.0'],
  ['E_SENDER_NOT_VERIFIED', '550 5.7.1'],
  ['E_TOO_MANY_RECIPIENTS', '452 4.5.3'],
  ['E_CONTENT_TOO_LARGE', '552 5.3.4'],
] as const)('%s begins with %s, on every line', (code, start) => {
  const lines = written([{ code, message: 'one' }, ...many(2)]).split('\r\n');
  expect(lines[0]).toBe(`${start.replace(' ', '-')} ${code}: one`);
  expect(lines[2]).toMatch(new RegExp(`^${start} E_HEADER_VALUE_INVALID`));
});

test.each([
  [19, 19, ' E_HEADER_VALUE_INVALID: X-18 is empty'],
  [20, 20, ' E_HEADER_VALUE_INVALID: X-19 is empty'],
  [21, 21, ' and 1 more'],
  [500, 21, ' and 480 more'],
])('%i violations are %i lines', (count, lineCount, end) => {
  const lines = written(many(count)).trimEnd().split('\r\n');
  expect(lines).toHaveLength(lineCount);
  expect(lines.at(-1)).toBe(`554 5.6.0${end}`);
});

test('over a rate is temporary, and the session goes on (D41)', () => {
  const reply = refusalReply([{ code: 'E_RATE_LIMIT_EXCEEDED', message: 'x' }]);
  expect(reply).toMatchObject({ code: 451, enhanced: '4.7.0' });
  expect(reply.next).toBeUndefined();
});

test('every line is printable ASCII of at most 512 octets, whatever the text', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: anyCharacter, maxLength: 700 }), { minLength: 1, maxLength: 30 }),
      (messages) => {
        const text = written(messages.map((message) => ({ code: 'E_HEADER_NAME_INVALID', message })));
        expect(text).toMatch(/^(?:554-5\.6\.0 [\x20-\x7e]*\r\n)*554 5\.6\.0 [\x20-\x7e]*\r\n$/);
        for (const line of text.split('\r\n')) expect(line.length + 2).toBeLessThanOrEqual(512);
      },
    ),
  );
});

test.each([
  ['aÄb', 60, 'a\\xC4b'],
  ['€', 60, '\\u{20AC}'],
  ['😀', 60, '\\u{1F600}'],
  ['a\r\nb', 60, 'a\\x0D\\x0Ab'],
  ['\u007f', 60, '\\x7F'],
  ['a'.repeat(59), 60, 'a'.repeat(59)],
  ['a'.repeat(60), 60, 'a'.repeat(60)],
  ['a'.repeat(61), 60, `${'a'.repeat(57)}...`],
])('%j in %i octets', (text, octets, shown) => {
  expect(printableAscii(text, octets)).toBe(shown);
});

test('the fixed replies are printable ASCII', () => {
  for (const reply of Object.values(replies)) expect(formatReply(reply)).toMatch(/^[\x20-\x7e]*\r\n$/);
});

// Texts of documents and of `postern check`, which no reply quotes.
const documents = new Set(['explain.ts', 'header-catalogue.ts', 'rejections.ts', 'strip-sets.ts']);

test('no text that a reply could quote has a character that it would have to escape, such as a section sign', () => {
  const source = resolve(import.meta.dirname, '../../../src');
  const files = ['accounts', 'doors/smtp', 'mail', 'pipeline/compose', 'pipeline/policy', 'pipeline/sign'].flatMap(
    (room) =>
      readdirSync(join(source, room), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts') && !documents.has(name))
        .map((name) => join(source, room, name)),
  );
  const withoutComments = (code: string): string => code.replace(/^\s*(?:\/\/|\/?\*).*$| \/\/ .*$/gm, '');
  const found = [...files, join(source, 'pipeline/submit.ts')].filter((file) =>
    /[^\x00-\x7f]/.test(withoutComments(readFileSync(file, 'utf8'))),
  );
  expect(found).toEqual([]);
});

test('whatever a reply quotes, only printable ASCII goes out, in lines of at most 512 octets (D7)', () => {
  expect(formatReply({ code: 554, enhanced: '5.6.0', text: 'RFC 1847 §2.1 bars this' })).toBe(
    '554 5.6.0 RFC 1847 \\xA72.1 bars this\r\n',
  );
  expect(formatReply({ code: 550, enhanced: '5.7.1', text: 'a\rb\0c\x7fd' })).toBe('550 5.7.1 a\\x0Db\\x00c\\x7Fd\r\n');
  const anyText = fc.string({ unit: anyCharacter, maxLength: 2000 });
  fc.assert(
    fc.property(anyText, fc.boolean(), (text, enhanced) => {
      const reply = formatReply({ code: 554, ...(enhanced ? { enhanced: '5.6.0' } : {}), text });
      const lines = reply.split('\r\n');
      expect(lines.pop()).toBe('');
      for (const line of lines) {
        expect(line).toMatch(/^554[- ][\x20-\x7e]*$/);
        expect(line.length).toBeLessThanOrEqual(510);
      }
      expect(lines.slice(0, -1).every((line) => line[3] === '-')).toBe(true);
    }),
  );
});
