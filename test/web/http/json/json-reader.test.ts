// The reader of JSON against JSON.parse, and what it keeps that JSON.parse loses.

import { expect, test } from 'vitest';
import {
  anyIndex,
  type JsonOptions,
  type JsonResult,
  MAX_JSON_DEPTH,
  MAX_JSON_VALUES,
  readJson,
} from '../../../../src/web/http/json/json-reader.ts';
import fc from '../../../support/properties.ts';

function read(text: string, options: JsonOptions = {}): Promise<JsonResult> {
  return readJson(Buffer.from(text), options);
}

/** As JSON.parse reads it, or undefined. */
function parse(text: string): unknown {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

test('what JSON.stringify writes is read back, `__proto__` too', async () => {
  await fc.assert(
    fc.asyncProperty(fc.json({ maxDepth: 5 }), async (text) => {
      const result = await read(text);
      expect(result.ok && JSON.stringify(result.document.value)).toBe(result.ok && JSON.stringify(JSON.parse(text)));
    }),
    { numRuns: 500 },
  );
});

test('any text is JSON for it exactly when it is for JSON.parse', async () => {
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
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
      async (text) => {
        const result = await read(text);
        expect(result.ok).toBe(parse(text) !== undefined);
      },
    ),
    { numRuns: 5000 },
  );
});

test('repeated names are told, the first value stays, and kept members are in the order of the text', async () => {
  const result = await read('{"b":{"2":"x","1":"y","2":"z"},"a/b":1,"a/b":2,"c":[{"d":0,"d":0}]}', {
    keepMembers: 'b',
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

test('depth and number of values end at their limits', async () => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
  const isRead = async (text: string): Promise<boolean> => (await read(text)).ok;
  expect(await isRead(nested(MAX_JSON_DEPTH))).toBe(true);
  expect(await isRead(nested(MAX_JSON_DEPTH + 1))).toBe(false);
  const many = (values: number): string =>
    `[${Array(values - 1)
      .fill('1')
      .join(',')}]`;
  expect(await isRead(many(MAX_JSON_VALUES))).toBe(true);
  expect(await isRead(many(MAX_JSON_VALUES + 1))).toBe(false);
});

/** Writes a text as a JSON string: every so many characters as an escape, by their number as PHP, .NET or nobody does. */
function escaped(text: string, kind: number): string {
  if (kind === 0) return text;
  if (kind === 1) return text.replaceAll('/', '\\/');
  const unit = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replace(kind === 2 ? /[+=]/g : /./g, unit);
}

test('base64 is decoded where it stands, with any escape that JSON allows', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.nat(3), fc.nat(3), async (octets, kind, cut) => {
      const written = Buffer.from(octets).toString('base64');
      const text = written.slice(0, written.length - cut);
      const result = await read(`{"x":"${escaped(text, kind)}","y":"é"}`, { base64: ['x'] });
      if (!result.ok) throw new Error(result.reason);
      expect(result.document.value).toEqual(Object.assign(Object.create(null) as object, { x: '', y: 'é' }));
      const decoded = result.document.decoded.get('/x');
      if (text.length % 4 === 0) expect(decoded).toEqual({ octets: Buffer.from(text, 'base64') });
      else expect(decoded).toEqual({ fault: expect.stringContaining('is not base64'), at: expect.any(Number) });
    }),
    { numRuns: 500 },
  );
});

test('a control character makes base64 no JSON, wherever it stands', async () => {
  for (const text of ['\n', 'AAAA\nAAA', '*AA\n', 'AAAA\0', `${'AAAA'.repeat(30_000)}\t`]) {
    const octet = `0x${text[text.search(/[\0-\x1f]/)]?.charCodeAt(0).toString(16)}`;
    const result = await read(`["${text}"]`, { base64: [anyIndex] });
    expect(result).toEqual({ ok: false, reason: `unexpected octet ${octet} at octet ${2 + text.search(/[\0-\x1f]/)}` });
  }
  const open = await read(`["AAAA`, { base64: [anyIndex] });
  expect(open).toEqual({ ok: false, reason: 'the text is cut off' });
});

test('what stands in base64 and is none is told by its place; an escape that is none is no JSON', async () => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    ['AAA*', 'is not base64: "*" at character 3'],
    ['\\u0041AA\\n', 'is not base64: octet 0x0a at character 3'],
    ['AA\\u00e9A', 'is not base64: a character beyond ASCII at character 2'],
    ['AA\\ud83d\\ude00', 'is not base64: a character beyond ASCII at character 2'],
    ['\\"AAA', 'is not base64: "\\"" at character 0'],
    ['AAAAAA-A', 'is not base64: "-" at character 6'],
    ['_AAA', 'is not base64: "_" at character 0'],
    ['AA==AAAA', 'is not base64: "=" at character 2'],
    ['AAAA AAA', 'is not base64: octet 0x20 at character 4'],
    [`${'AbC/'.repeat(20_000)}+\u00e9AA`, 'is not base64: a character beyond ASCII at character 80001'],
    [`${'AbC/'.repeat(20_000)}+A.A`, 'is not base64: "." at character 80002'],
    ['AAA\\x', undefined],
    ['AAA\\u12', undefined],
    ['AAA\\u12g4', undefined],
  ];
  for (const [text, fault] of cases) {
    const result = await read(`["${text}"]`, { base64: [anyIndex] });
    if (fault === undefined) {
      expect(result, text).toEqual({ ok: false, reason: 'the string at octet 1 has an unknown escape' });
    } else expect(result.ok && result.document.decoded.get('/0'), text).toMatchObject({ fault });
  }
});

test('long strings are read in slices, whatever a cut would fall on', async () => {
  const pieces = ['a', 'é', '\u{1f600}', '\\n', '\\u00e9', '\\ud83d\\ude00', '\\\\', '\\"'];
  for (const piece of pieces) {
    for (let before = 0; before < 7; before += 1) {
      const text = `"${'x'.repeat(before)}${piece.repeat(135_000 / Buffer.byteLength(piece))}"`;
      const result = await read(text);
      expect(result.ok && result.document.value === JSON.parse(text), `${piece} behind ${before}`).toBe(true);
    }
  }
  expect(await read(`"${'\\u0041'.repeat(50_000)}\\x"`)).toMatchObject({ ok: false });
  expect(await read(`"${'\\u0041'.repeat(50_000)}\\u12"`)).toMatchObject({ ok: false });
  expect(await read(`"${'a'.repeat(65_535)}\\u1"`)).toMatchObject({ ok: false });
});

test('others get a turn for every slice of a document, wherever its octets are', async () => {
  const octets = 2_097_152;
  const documents: readonly (readonly [string, string])[] = [
    ['a string', `"${'a'.repeat(octets)}"`],
    ['a name', `{"${'a'.repeat(octets)}":1}`],
    ['escapes', `"${'\\u0041'.repeat(octets / 6)}"`],
    [
      'many strings',
      `[${Array(1000)
        .fill(`"${'a'.repeat(octets / 1000)}"`)
        .join(',')}]`,
    ],
    ['blanks', `[${' '.repeat(octets)}]`],
    ['base64', `{"x":"${'AAAA'.repeat(octets / 4)}"}`],
  ];
  for (const [name, text] of documents) {
    let turns = 0;
    const result = await read(text, { base64: ['x'], yieldToEventLoop: async () => (turns += 1) });
    expect(result.ok, name).toBe(true);
    expect(turns, name).toBeGreaterThanOrEqual(octets / 65_536 - 1);
  }
});

test('a long name is cut in pointers, and its length told', async () => {
  const name = 'n'.repeat(20_000);
  const result = await read(`{"${name}":{"a":1${',"a":1'.repeat(9000)},"b":"\\ud800"}}`);
  if (!result.ok) throw new Error(result.reason);
  const { repeated, illFormed } = result.document;
  expect([repeated.length, new Set(repeated)]).toEqual([9000, new Set([`/${'n'.repeat(60)}...(20000 characters)/a`])]);
  expect(illFormed).toEqual([`/${'n'.repeat(60)}...(20000 characters)/b`]);
});
