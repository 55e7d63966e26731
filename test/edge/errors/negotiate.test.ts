// The choice of a format (D61): the specification's table, a golden table of headers, sizes, and properties against a
// slow reference that follows the decision sentence by sentence.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { EdgeFormat } from '../../../src/edge/errors/catalogue.ts';
import { negotiate } from '../../../src/edge/errors/default-answer.ts';
import fc, { anyCharacter } from '../../support/properties.ts';

describe('the specification’s table', () => {
  test.each<[string | undefined, EdgeFormat]>([
    ['application/json', 'json'],
    ['application/problem+json', 'problem'],
    ['application/json, text/markdown;q=0.9', 'json'],
    ['text/markdown', 'markdown'],
    ['text/markdown, application/json', 'markdown'],
    ['text/*', 'markdown'],
    ['text/html', 'html'],
    ['*/*', 'html'],
    [undefined, 'html'],
  ])('%s is answered with %s', (accept, format) => {
    expect(negotiate(accept)).toBe(format);
  });
});

function unescaped(text: string): string {
  return text.replaceAll(/\\(?:(t)|x([0-9a-f]{2})|(\\))/g, (_, tab?: string, hex?: string) => {
    if (tab !== undefined) return '\t';
    return hex === undefined ? '\\' : String.fromCharCode(Number.parseInt(hex, 16));
  });
}

const rows = readFileSync(join(import.meta.dirname, 'accept-headers.txt'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line): [string, string] => {
    const [, format, header] = /^([a-z]+)\t\|(.*)\|$/.exec(line) ?? [];
    if (format === undefined || header === undefined) throw new Error(`Cannot parse the row ${JSON.stringify(line)}`);
    return [unescaped(header), format];
  });

describe('the golden table', () => {
  test('is long, and no header stands in it twice', () => {
    expect(rows.length).toBeGreaterThanOrEqual(120);
    expect(new Set(rows.map(([header]) => header)).size).toBe(rows.length);
  });

  test.each(rows)('%j', (header, format) => {
    expect(negotiate(header)).toBe(format);
  });
});

describe('size', () => {
  test('10,000 ranges', () => {
    const others = Array.from({ length: 9999 }, (_, index) => `x/y${index};q=0.5`);
    expect(negotiate([...others, 'application/json;q=0.1'].join(', '))).toBe('json');
    expect(negotiate(['text/markdown', ...others].join(', '))).toBe('markdown');
  });

  test('10,000 times the same range, with the highest q at the end', () => {
    const many = Array.from({ length: 9999 }, () => 'application/json;q=0.1');
    expect(negotiate([...many, 'text/markdown;q=0.5', 'application/json;q=0.5'].join(','))).toBe('json');
  });

  const megabyte = 1_048_576;
  test.each([
    ['commas', ','.repeat(megabyte), 'html'],
    ['commas and a range', `${','.repeat(megabyte)}text/markdown`, 'markdown'],
    ['semicolons', `text/markdown${';'.repeat(megabyte)}`, 'markdown'],
    ['blanks', `${' '.repeat(megabyte)}text/markdown${' '.repeat(megabyte)}`, 'markdown'],
    ['one token', 'a'.repeat(megabyte), 'html'],
    ['quotation marks', '"'.repeat(megabyte), 'html'],
    ['a quoted parameter', `text/markdown;a="${'x,'.repeat(megabyte / 2)}"`, 'markdown'],
    ['a quoted parameter without an end', `text/markdown, a/b;a="${'\\"'.repeat(megabyte / 2)}`, 'markdown'],
    ['parameters', `text/markdown${';a=b'.repeat(megabyte / 4)}`, 'markdown'],
    ['q values', `text/markdown${';q=0'.repeat(megabyte / 4)}`, 'html'],
    ['digits of a q', `text/markdown;q=0.${'0'.repeat(megabyte)}, application/json;q=0.1`, 'json'],
  ])('a megabyte of %s', (_, header, format) => {
    expect(negotiate(header)).toBe(format);
  });
});

// The reference. It splits, matches and sorts plainly, and shares nothing with the code under test.

function splitList(text: string): string[] {
  const elements = [''];
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (character === ',' && !quoted) {
      elements.push('');
      continue;
    }
    elements[elements.length - 1] += character;
    if (character === '"') quoted = !quoted;
    if (character === '\\' && quoted) {
      at += 1;
      elements[elements.length - 1] += text.charAt(at);
    }
  }
  return elements;
}

const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const quotedString = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t \\x21-\\x7e\\x80-\\xff])*"';
const rangeForm = new RegExp(
  `^[ \\t]*(${token}/${token})((?:[ \\t]*;[ \\t]*(?:${token}=(?:${token}|${quotedString}))?)*)[ \\t]*$`,
);
const parameterForm = new RegExp(`(${token})=(${token}|${quotedString})`, 'g');
const qForm = /^(?:0|0\.[0-9]{0,3}|1|1\.0{0,3})$/;

function reference(accept: string): EdgeFormat {
  const ranges: { name: string; q: number; position: number }[] = [];
  for (const [position, element] of splitList(accept).entries()) {
    const match = rangeForm.exec(element);
    if (!match) continue; // a bad type or parameter
    const name = (match[1] ?? '').toLowerCase();
    const qs = [...(match[2] ?? '').matchAll(parameterForm)].filter(([, key]) => key?.toLowerCase() === 'q');
    const first = qs[0]?.[2] ?? '1'; // a second q is ignored
    if (!qForm.test(first)) continue; // a bad q
    const q = Number(first);
    const same = ranges.find((range) => range.name === name);
    if (same) same.q = Math.max(same.q, q);
    else ranges.push({ name, q, position });
  }
  const types: readonly [EdgeFormat, string][] = [
    ['json', 'application/json'],
    ['problem', 'application/problem+json'],
    ['markdown', 'text/markdown'],
    ['html', 'text/html'],
  ];
  const inside: Record<string, EdgeFormat[]> = {
    'text/*': ['markdown', 'html'],
    'application/*': ['json', 'problem'],
    '*/*': ['html', 'json', 'markdown', 'problem'],
  };
  const usable = types.flatMap(([format, type]) => {
    const exact = ranges.find(({ name }) => name === type);
    const half = ranges.find(({ name }) => name === `${type.split('/')[0]}/*`);
    const range = exact ?? half ?? ranges.find(({ name }) => name === '*/*');
    return range && range.q > 0 ? [{ format, ...range }] : [];
  });
  usable.sort(
    (a, b) =>
      b.q - a.q ||
      a.position - b.position ||
      (inside[a.name]?.indexOf(a.format) ?? 0) - (inside[b.name]?.indexOf(b.format) ?? 0),
  );
  return usable[0]?.format ?? 'html';
}

const names = fc.constantFrom(
  'application/json',
  'application/problem+json',
  'text/markdown',
  'text/html',
  'text/*',
  'application/*',
  '*/*',
  'Text/Markdown',
  'image/png',
  'application/',
  '*',
);
const parameters = fc.constantFrom(
  '',
  ';q=0',
  ';q=0.5',
  ';q=0.501',
  ';q=0.50',
  ';q=1',
  ';q=1.000',
  ';q=0.999',
  ';q=2',
  ';q=0.1234',
  ' ; Q=0.7',
  ';q=0.2;q=0.9',
  ';a=b',
  ';a="x,y"',
  ';a="\\""',
  ';a="',
  ';;',
  ';a',
);
const range = fc.tuple(names, fc.array(parameters, { maxLength: 2 })).map(([name, all]) => name + all.join(''));
const generated = fc
  .array(range, { maxLength: 12 })
  .chain((ranges) => fc.constantFrom(',', ', ', ' ,\t').map((between) => ranges.join(between)));
const raw = fc
  .array(
    fc.constantFrom(
      ...[
        'text',
        'application',
        'json',
        'markdown',
        'html',
        '*',
        '/',
        ',',
        ';',
        'q',
        '=',
        '"',
        '\\',
        ' ',
        '\t',
        '0',
        '1',
      ],
      ...['.', '0.5', 'application/json', 'text/markdown', '\u00e4', '\u0000', '\u007f', '\u0100', 'a=', ';q='],
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(''));

describe('properties', () => {
  test('generated ranges are judged as the reference judges them', () => {
    const seen = new Set<EdgeFormat>();
    fc.assert(
      fc.property(generated, (accept) => {
        const format = negotiate(accept);
        seen.add(format);
        expect(format).toBe(reference(accept));
      }),
      { numRuns: 5000 },
    );
    expect([...seen].sort()).toEqual(['html', 'json', 'markdown', 'problem']);
  });

  test('garbage is judged as the reference judges it', () => {
    fc.assert(
      fc.property(fc.oneof(raw, fc.string({ unit: anyCharacter, maxLength: 60 }), fc.string()), (accept) => {
        expect(negotiate(accept)).toBe(reference(accept));
      }),
      { numRuns: 5000 },
    );
  });

  test('what is skipped changes nothing', () => {
    const skipped = fc.constantFrom('', 'image/png', 'application/json;q=7', '@', 'text/html;a', 'a', ' ');
    fc.assert(
      fc.property(
        fc.array(
          range.filter((text) => !text.includes('"')),
          { maxLength: 6 },
        ),
        skipped,
        (ranges, nothing) => {
          const among = ranges.flatMap((text) => [nothing, text, nothing]);
          expect(negotiate(among.join(','))).toBe(negotiate(ranges.join(',')));
        },
      ),
    );
  });
});
