// The reader of JSON against JSON.parse, and what it keeps that JSON.parse loses.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_JSON_DEPTH, MAX_JSON_VALUES, readJson } from '../../src/http/json-reader.ts';

function read(text: string) {
  return readJson(Buffer.from(text));
}

/** As JSON.parse reads it, or undefined. */
function parse(text: string): unknown {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

test('what JSON.stringify writes is read back, `__proto__` too', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), (text) => {
      const result = read(text);
      expect(result.ok && JSON.stringify(result.document.value)).toBe(result.ok && JSON.stringify(JSON.parse(text)));
    }),
    { numRuns: 500 },
  );
});

test('any text is JSON for it exactly when it is for JSON.parse', () => {
  const piece = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    '"',
    ',',
    ':',
    '\\',
    '/',
    'u00e9',
    '\\u00e9',
    '\\n',
    'true',
    'null',
    '-',
    '0',
    '1',
    '.',
    'e',
    '+',
    ' ',
    '\n',
    '\t',
    'é',
    '\u0001',
    '"a"',
    '"b":',
  );
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
      (text) => {
        const result = read(text);
        expect(result.ok).toBe(parse(text) !== undefined);
      },
    ),
    { numRuns: 5000 },
  );
});

test('repeated names are told, the first value stays, and kept members are in the order of the text', () => {
  const result = readJson(Buffer.from('{"b":{"2":"x","1":"y","2":"z"},"a/b":1,"a/b":2,"c":[{"d":0,"d":0}]}'), {
    keepMembers: '/b',
  });
  if (!result.ok) throw new Error(result.reason);
  expect(result.document.repeated).toEqual(['/b/2', '/a~1b', '/c/0/d']);
  expect(result.document.kept).toEqual([
    { name: '2', value: 'x' },
    { name: '1', value: 'y' },
    { name: '2', value: 'z' },
  ]);
  expect(JSON.stringify(result.document.value)).toBe('{"b":{"1":"y","2":"x"},"a/b":1,"c":[{"d":0}]}');
});

test('depth and number of values end at their limits', () => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
  expect([read(nested(MAX_JSON_DEPTH)).ok, read(nested(MAX_JSON_DEPTH + 1)).ok]).toEqual([true, false]);
  const many = (values: number): string =>
    `[${Array(values - 1)
      .fill('1')
      .join(',')}]`;
  expect([read(many(MAX_JSON_VALUES)).ok, read(many(MAX_JSON_VALUES + 1)).ok]).toEqual([true, false]);
});

test('base64 is decoded where it stands, also with the slashes as PHP writes them', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), fc.nat(3), (octets, php, cut) => {
      const written = Buffer.from(octets).toString('base64');
      const text = written.slice(0, written.length - cut);
      const body = `{"x":"${php ? text.replaceAll('/', '\\/') : text}","y":"é"}`;
      const result = readJson(Buffer.from(body), { base64: /^\/x$/ });
      if (!result.ok) throw new Error(result.reason);
      expect(result.document.value).toEqual(Object.assign(Object.create(null) as object, { x: '', y: 'é' }));
      const decoded = result.document.decoded.get('/x');
      if (text.length % 4 === 0) expect(decoded).toEqual({ octets: Buffer.from(text, 'base64') });
      else expect(decoded).toEqual({ fault: expect.stringContaining('is not base64') });
    }),
    { numRuns: 500 },
  );
});
