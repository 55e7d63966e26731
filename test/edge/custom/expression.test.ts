// The expressions of Custom Error Rules (D65): what they match, what is said of bad ones, and properties against a plain
// reference.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  compileExpression,
  type ErrorCondition,
  Evaluation,
  parseExpression,
} from '../../../src/edge/custom/expression.ts';
import { readSyntax, type Syntax } from '../../../src/edge/custom/expression-syntax.ts';
import type { EdgeCode } from '../../../src/edge/errors/catalogue.ts';
import type { EdgeCategory } from '../../../src/edge/errors/categories.ts';
import fc, { anyCharacter } from '../../support/properties.ts';

interface Asked {
  readonly code?: EdgeCode;
  readonly status?: number;
  readonly category?: EdgeCategory;
  readonly method?: string;
  readonly path?: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, readonly string[]>>;
}

function condition(asked: Asked = {}): ErrorCondition {
  const {
    code = 522,
    status = 522,
    category = 'origin',
    method = 'GET',
    path = '/a/b',
    host = 'www.example.com',
  } = asked;
  const headers = new Map(Object.entries(asked.headers ?? {}));
  return {
    error: { code, status, category },
    request: { method, path, host, header: (name) => headers.get(name) ?? [] },
  };
}

function answerOf(syntax: Syntax, asked: ErrorCondition): boolean {
  const evaluation = new Evaluation(asked);
  const answer = compileExpression(syntax)(evaluation);
  if (evaluation.isSpent) throw new Error('The expression has no answer');
  return answer;
}

function matches(text: string, asked?: Asked): boolean {
  const parsed = parseExpression(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.message} at ${parsed.offset}`);
  return answerOf(parsed.syntax, condition(asked));
}

const accepts = { headers: { accept: ['application/json', 'text/html;q=0.5'] } };

describe('what matches', () => {
  test.each<[boolean, string, Asked?]>([
    [true, 'error_code eq 522'],
    [false, 'error_code eq 521'],
    [false, 'error_code ne 522'],
    [true, 'error_code ne 521'],
    [true, 'error_code in {522 1015}'],
    [true, 'error_code in {522 1015}', { code: 1015 }],
    [false, 'error_code in {522 1015}', { code: 521 }],
    [true, 'error_code in { 522}'],
    [false, 'error_code lt 522'],
    [true, 'error_code lt 523'],
    [false, 'error_code gt 522'],
    [true, 'error_code gt 521'],
    [true, 'status eq 429', { code: 1015, status: 429 }],
    [false, 'status gt 499', { code: 1015, status: 429 }],
    [true, 'error_category eq "origin"'],
    [true, 'error_category in {"rate_limit" "origin"}'],
    [true, 'error_category starts_with "ori"'],
    [true, 'error_category contains "_"', { category: 'rate_limit' }],
    [true, 'method eq "GET"'],
    [false, 'method eq "get"'],
    [true, 'path eq "/a/b"'],
    [true, 'path starts_with "/a"'],
    [false, 'path starts_with "/A"'],
    [true, 'path contains "/b"'],
    [false, 'path contains "/c"'],
    [true, 'path contains ""'],
    [true, 'host eq "www.example.com"'],
    [true, 'host eq "WWW.Example.com"'],
    [true, 'host contains "EXAMPLE"'],
    [true, 'header["accept"] contains "application/json"', accepts],
    [true, 'header["ACCEPT"] contains "application/json"', accepts],
    [true, 'header["accept"] eq "text/html;q=0.5"', accepts],
    [false, 'header["accept"] eq "text/html"', accepts],
    [true, 'header["accept"] in {"a" "application/json"}', accepts],
    [true, 'header["accept"] starts_with "text/"', accepts],
    [true, 'header["accept"] ne "application/json"', accepts],
    [false, 'header["accept"] ne "application/json"', { headers: { accept: ['application/json'] } }],
    [false, 'not header["accept"] eq "application/json"', accepts],
    [false, 'header["x-none"] eq ""'],
    [false, 'header["x-none"] ne "a"'],
    [false, 'header["x-none"] contains ""'],
    [true, 'not header["x-none"] contains ""'],
    [true, 'header["x-empty"] contains ""', { headers: { 'x-empty': [''] } }],
    [true, 'header["x"] eq "a \\"b\\" \\\\"', { headers: { x: ['a "b" \\'] } }],
    [true, 'path eq "/\u00e4"', { path: '/\u00e4' }],
    [true, 'error_code eq 522 and method eq "GET"'],
    [false, 'error_code eq 522 and method eq "POST"'],
    [true, 'error_code eq 1 or method eq "GET"'],
    [true, '(error_code eq 522)'],
    [true, ' \t\r\n( (error_code\neq 522))\t'],
    [true, 'not(method eq "POST")and(path contains"b")'],
    // not before and before or
    [true, 'error_code eq 522 or error_code eq 1 and error_code eq 1'],
    [false, '(error_code eq 522 or error_code eq 1) and error_code eq 1'],
    [true, 'error_code eq 1 and error_code eq 1 or error_code eq 522'],
    [false, 'not error_code eq 522 and error_code eq 1'],
    [true, 'not (error_code eq 522 and error_code eq 1)'],
    [true, 'not error_code eq 522 or error_code eq 522'],
    [true, 'not not error_code eq 522'],
  ])('%s: %s', (wanted, text, asked) => {
    expect(matches(text, asked)).toBe(wanted);
  });
});

describe('what is said of a bad one', () => {
  const fields = 'error_code, status, error_category, method, path, host, header';
  test.each<[string, number, string]>([
    ['', 0, 'the expression is empty, want a comparison such as error_code eq 522'],
    [' \n', 0, 'the expression is empty, want a comparison such as error_code eq 522'],
    ['eror_code eq 1', 0, 'unknown field "eror_code"; did you mean error_code?'],
    ['zone eq "a"', 0, `unknown field "zone"; there are ${fields}`],
    ['toString eq "a"', 0, `unknown field "toString"; there are ${fields}`],
    ['error_code', 10, 'got the end behind error_code, want eq, ne, in, lt, gt'],
    ['error_code eq', 13, 'error_code is compared with a whole number without quotation marks, got the end'],
    ['error_code eq "522"', 14, 'error_code is compared with a whole number without quotation marks, got "522"'],
    ['error_code eq five', 14, 'error_code is compared with a whole number without quotation marks, got five'],
    ['error_code equals 5', 11, 'unknown operator "equals"; there are eq, ne, in, lt, gt'],
    ['path contain "a"', 5, 'unknown operator "contain"; did you mean contains?'],
    ['path starts-with "a"', 11, '"-" has no meaning here; numbers are not negative, and words are joined by _'],
    ['path lt "a"', 5, 'lt does not compare path, want eq, ne, in, contains, starts_with'],
    ['status contains 5', 7, 'contains does not compare status, want eq, ne, in, lt, gt'],
    ['path eq 5', 8, 'path is compared with a string in double quotation marks, got 5'],
    ['path eq /a', 8, '"/" has no meaning here'],
    ["path eq '/a'", 8, '"\'" has no meaning here; strings stand in double quotation marks'],
    ['path matches "a"', 5, 'unknown operator "matches"; there are eq, ne, in, contains, starts_with'],
    ['path ~ "a"', 5, '"~" has no meaning here; there are no regular expressions; write contains or starts_with'],
    ['error_code == 5', 11, '"=" has no meaning here; for equality write eq'],
    ['status eq 5 && status eq 6', 12, '"&" has no meaning here; write and'],
    ['status eq 1.5', 11, '"." has no meaning here; numbers are whole, and a header is written header["name"]'],
    ['status eq -1', 10, '"-" has no meaning here; numbers are not negative, and words are joined by _'],
    ['status eq 5xx', 10, '"5xx" is no whole number; a string stands in double quotation marks'],
    ['status eq 1234567890', 10, 'a number has at most 9 digits'],
    ['status eq {500}', 10, 'eq takes one value; for a set write in'],
    ['status in 500', 10, 'got 500, want a set behind in, such as {522 1015} or {"a" "b"}'],
    ['status in {}', 10, 'this set is empty, want at least one member'],
    ['status in {500, 502}', 14, '"," has no meaning here; members of a set are separated by blanks'],
    ['status in {500 "502"}', 15, 'status is compared with a whole number without quotation marks, got "502"'],
    ['path in {"/a" 5}', 14, 'path is compared with a string in double quotation marks, got 5'],
    ['status in {500', 10, 'this set has no closing "}"'],
    ['error_category eq "orign"', 18, '"orign" is no category; did you mean origin?'],
    [
      'error_category in {"origin" "nothing"}',
      28,
      '"nothing" is no category; there are origin, platform, ssl, access_denied, rate_limit, dns, config, tls, legal, worker, rewrite, snippet, unsupported',
    ],
    ['header eq "a"', 7, 'got eq, want "[" and a name, as in header["accept"]'],
    ['header["a" eq "b"', 11, 'got eq, want "]" behind the name of the header'],
    ['header[accept] eq "b"', 7, 'got accept, want the name of a header in double quotation marks'],
    ['header[""] eq "b"', 7, 'got "", want the name of a header in double quotation marks'],
    ['header["a b"] eq "b"', 7, 'got "a b", want the name of a header in double quotation marks'],
    ['path eq "a', 8, 'this string has no closing quotation mark'],
    ['path eq "a\\', 10, 'a backslash in a string stands before " or another backslash'],
    ['path eq "a\\n"', 10, 'a backslash in a string stands before " or another backslash'],
    ['path eq "a\n"', 10, 'a string has no line ends and no other control characters'],
    ['(status eq 5', 12, 'got the end, want ")" for the "(" at character 1'],
    ['status eq 5)', 11, 'got ")", want and, or, or the end'],
    ['status eq 5 status eq 6', 12, 'got status, want and, or, or the end'],
    ['status eq 5 and', 15, `got the end, want a field: ${fields}`],
    ['and status eq 5', 0, `got and, want a field: ${fields}`],
    ['not', 3, `got the end, want a field: ${fields}`],
    ['()', 1, `got ")", want a field: ${fields}`],
    ['522 eq error_code', 0, `got 522, want a field: ${fields}`],
    ['AND', 0, `unknown field "AND"; there are ${fields}`],
    ['status EQ 5', 7, 'unknown operator "EQ"; did you mean eq?'],
    ['status eq 5 # why', 12, '"#" has no meaning here'],
    ['\u{1f600}', 0, '"\u{1f600}" has no meaning here'],
  ])('%j', (text, offset, message) => {
    expect(parseExpression(text)).toEqual({ ok: false, message, offset });
  });
});

test('the expressions of the guide can be read', () => {
  const guide = readFileSync(join(import.meta.dirname, '../../../docs/edge-custom-errors.md'), 'utf8');
  const [, examples = ''] = /\n```expression\n([^`]*)\n```\n/.exec(guide) ?? [];
  const inFile = [...guide.matchAll(/expression: '([^']*)'/g)].map(([, text = '']) => text);
  const expressions = [...examples.split('\n'), ...inFile];
  expect(expressions).toHaveLength(5);
  for (const text of expressions)
    expect([text, parseExpression(text)]).toEqual([text, expect.objectContaining({ ok: true })]);
});

describe('bounds', () => {
  const exactly = (length: number) => `path eq "${'a'.repeat(length - 10)}"`;

  test.each([4095, 4096])('%i characters are taken', (length) => {
    const text = exactly(length);
    expect(text).toHaveLength(length);
    expect(parseExpression(text).ok).toBe(true);
  });

  test('4,097 characters are not', () => {
    expect(parseExpression(exactly(4097))).toEqual({
      ok: false,
      message: 'the expression has 4097 characters, want at most 4096',
      offset: 4096,
    });
  });

  const nested = (depth: number) => `${'('.repeat(depth)}status eq 5${')'.repeat(depth)}`;
  test.each([
    [31, true],
    [32, true],
    [33, false],
  ])('%i parentheses', (depth, ok) => {
    expect(parseExpression(nested(depth)).ok).toBe(ok);
  });

  test.each([
    [31, true],
    [32, true],
    [33, false],
  ])('%i times not', (depth, ok) => {
    expect(parseExpression(`${'not '.repeat(depth)}status eq 5`).ok).toBe(ok);
  });

  test.each(['(', 'not ', '(not ', '((', '{', '"', '[', 'header["a"] eq "a" and ('])(
    'a million times %j is refused, not a stack overflow',
    (text) => {
      expect(parseExpression(text.repeat(1_000_000)).ok).toBe(false);
      expect(parseExpression(text.repeat(Math.floor(4096 / text.length))).ok).toBe(false);
    },
  );

  test('a chain of and needs no depth', () => {
    const chain = Array.from({ length: 250 }, () => 'status gt 1').join(' and ');
    expect(chain.length).toBeLessThanOrEqual(4096);
    expect(matches(chain)).toBe(true);
  });
});

// Generated trees, and a printer of the test's own.

const field = fc.constantFrom('method', 'path', 'host', 'error_category');
const plainString = fc.oneof(
  fc.constantFrom('', 'a', 'aa', 'ab', '"', '\\', '/a/b', 'origin', 'dns', '\u00e4', 'a b', '{', 'and'),
  fc.string({ maxLength: 6 }).filter((text) => !/[\x00-\x08\x0a-\x1f\x7f]/.test(text)),
);
const integer = fc.oneof(fc.constantFrom(0, 500, 522, 1015), fc.integer({ min: 0, max: 999_999_999 }));

const integerComparison: fc.Arbitrary<Syntax> = fc
  .tuple(fc.constantFrom('error_code', 'status'), fc.constantFrom('eq', 'ne', 'in', 'lt', 'gt'))
  .chain(([name, operator]) =>
    fc
      .array(integer, { minLength: 1, maxLength: operator === 'in' ? 4 : 1 })
      .map((values): Syntax => ({ kind: 'comparison', field: name, name: '', operator, values })),
  );
const stringComparison: fc.Arbitrary<Syntax> = fc
  .tuple(
    fc.oneof(
      field.map((name) => ({ field: name, name: '' }) as const),
      fc.constantFrom('accept', 'x-a', 'x-none').map((name) => ({ field: 'header', name }) as const),
    ),
    fc.constantFrom('eq', 'ne', 'in', 'contains', 'starts_with'),
  )
  .chain(([named, operator]) => {
    const isCategory = named.field === 'error_category' && !['contains', 'starts_with'].includes(operator);
    const value = isCategory ? fc.constantFrom('origin', 'dns', 'rate_limit') : plainString;
    return fc
      .array(
        value.map((text) => (named.field === 'host' ? text.toLowerCase() : text)),
        { minLength: 1, maxLength: operator === 'in' ? 4 : 1 },
      )
      .map((values): Syntax => ({ kind: 'comparison', ...named, operator, values }));
  });
const { tree } = fc.letrec<{ tree: Syntax; parts: Syntax[] }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    integerComparison,
    stringComparison,
    tie('tree').map((part): Syntax => ({ kind: 'not', part })),
    fc
      .tuple(fc.constantFrom('and' as const, 'or' as const), tie('parts'))
      .map(([kind, parts]): Syntax => ({ kind, parts })),
  ),
  parts: fc.array(tie('tree'), { minLength: 2, maxLength: 3 }),
}));

function printed(syntax: Syntax): string {
  const inside = (part: Syntax): string => ('values' in part ? printed(part) : `(${printed(part)})`);
  if (syntax.kind === 'not') return `not ${inside(syntax.part)}`;
  if ('parts' in syntax) return syntax.parts.map(inside).join(` ${syntax.kind} `);
  const values = syntax.values.map((value) =>
    typeof value === 'number' ? String(value) : `"${value.replaceAll(/["\\]/g, '\\$&')}"`,
  );
  const name = syntax.field === 'header' ? `header["${syntax.name.toUpperCase()}"]` : syntax.field;
  return `${name} ${syntax.operator} ${syntax.operator === 'in' ? `{${values.join(' ')}}` : values.join('')}`;
}

/** D65, sentence by sentence. */
function fits(syntax: Syntax, asked: ErrorCondition): boolean {
  if (syntax.kind === 'not') return !fits(syntax.part, asked);
  if ('parts' in syntax) {
    const fitting = syntax.parts.filter((part) => fits(part, asked)).length;
    return syntax.kind === 'and' ? fitting === syntax.parts.length : fitting > 0;
  }
  const { error, request } = asked;
  const all: Record<string, readonly (string | number)[]> = {
    error_code: [error.code],
    status: [error.status],
    error_category: [error.category],
    method: [request.method],
    path: [request.path],
    host: [request.host],
    header: request.header(syntax.name),
  };
  const [wanted] = syntax.values;
  for (const value of all[syntax.field] ?? []) {
    if (syntax.operator === 'eq' && value === wanted) return true;
    if (syntax.operator === 'ne' && value !== wanted) return true;
    if (syntax.operator === 'in' && [...syntax.values].some((member) => member === value)) return true;
    if (syntax.operator === 'lt' && Number(value) < Number(wanted)) return true;
    if (syntax.operator === 'gt' && Number(value) > Number(wanted)) return true;
    if (syntax.operator === 'contains' && String(value).split(String(wanted)).length > 1) return true;
    if (syntax.operator === 'contains' && wanted === '') return true;
    if (syntax.operator === 'starts_with' && String(value).slice(0, String(wanted).length) === wanted) return true;
  }
  return false;
}

const conditions = fc
  .record({
    code: fc.constantFrom(500, 522, 1015),
    status: fc.constantFrom(429, 500, 522),
    category: fc.constantFrom<EdgeCategory>('origin', 'dns', 'rate_limit'),
    method: fc.constantFrom('GET', 'a', ''),
    path: plainString,
    host: fc.constantFrom('a', 'aab', 'origin', ''),
    headers: fc.record({
      accept: fc.array(plainString, { maxLength: 3 }),
      'x-a': fc.array(fc.constantFrom('a', 'aa', 'ab'), { maxLength: 2 }),
    }),
  })
  .map(condition);

describe('properties', () => {
  test('a printed tree is read back', () => {
    fc.assert(
      fc.property(tree, (syntax) => {
        const text = printed(syntax);
        fc.pre(text.length <= 4096);
        expect(readSyntax(text)).toEqual(syntax);
      }),
      { numRuns: 2000 },
    );
  });

  test('what is read is asked as the reference asks it', () => {
    const seen = new Set<boolean>();
    fc.assert(
      fc.property(tree, fc.array(conditions, { minLength: 1, maxLength: 5 }), (syntax, all) => {
        const text = printed(syntax);
        fc.pre(text.length <= 4096);
        const parsed = parseExpression(text);
        expect(parsed.ok).toBe(true);
        for (const asked of all) {
          const answer = parsed.ok && answerOf(parsed.syntax, asked);
          seen.add(answer);
          expect(answer).toBe(fits(syntax, asked));
        }
      }),
      { numRuns: 2000 },
    );
    expect(seen.size).toBe(2);
  });

  const parts = fc.constantFrom(
    ...['error_code', 'path', 'header', '["a"]', 'eq', 'ne', 'in', 'lt', 'contains', 'and', 'or', 'not', '(', ')'],
    ...['{', '}', '[', ']', '"a"', '"', '\\', '522', '0', ' ', '\n', 'x', '=', '\u0000', '\ud800'],
  );
  test('no text makes it throw, and every fault lies in the text', () => {
    const texts = fc.oneof(
      fc.array(parts, { maxLength: 30 }).map((all) => all.join(' ')),
      fc.array(parts, { maxLength: 30 }).map((all) => all.join('')),
      fc.string({ unit: anyCharacter }),
    );
    fc.assert(
      fc.property(texts, conditions, (text, asked) => {
        const parsed = parseExpression(text);
        if (parsed.ok) {
          expect(typeof answerOf(parsed.syntax, asked)).toBe('boolean');
          return;
        }
        expect(parsed.message).toMatch(/^\S.{5,300}$/s);
        expect(parsed.message.isWellFormed()).toBe(true);
        expect(parsed.offset).toBeGreaterThanOrEqual(0);
        expect(parsed.offset).toBeLessThanOrEqual(text.length);
      }),
      { numRuns: 5000 },
    );
  });
});
