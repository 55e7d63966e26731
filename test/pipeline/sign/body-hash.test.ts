import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { relaxedBodyHash } from '../../../src/pipeline/sign/sign.ts';
import fc from '../../support/properties.ts';

/** RFC 6376 §3.4.4 to the letter, slowly. */
function reference(body: string): string {
  const lines = body.split('\r\n').map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, ''));
  while (lines.length > 0 && lines.at(-1) === '') lines.pop();
  return lines.map((line) => `${line}\r\n`).join('');
}

const piece = fc.constantFrom('a', ' ', '  ', '\t', '\r\n', '\r\n\r\n', ' \r\n', 'word', '\t ', 'x'.repeat(300));
const body = fc
  .array(piece, { maxLength: 80 })
  .chain((pieces) => fc.constantFrom(1, 1, 1, 700).map((times) => pieces.join('').repeat(times)));

test('the hash is that of the reference', async () => {
  await fc.assert(
    fc.asyncProperty(body, async (text) => {
      const wanted = reference(text);
      expect(await relaxedBodyHash(Buffer.from(text))).toBe(createHash('sha256').update(wanted).digest('base64'));
    }),
    { numRuns: 400 },
  );
});

test('canonicalising twice is canonicalising once', async () => {
  await fc.assert(
    fc.asyncProperty(body, async (text) => {
      expect(await relaxedBodyHash(Buffer.from(reference(text)))).toBe(await relaxedBodyHash(Buffer.from(text)));
    }),
    { numRuns: 200 },
  );
});

test.each(['', '\r\n', ' \t\r\n\r\n \r\n'])('the empty body %j has the hash of nothing', async (text) => {
  expect(await relaxedBodyHash(Buffer.from(text))).toBe('47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=');
});

test.each([65_535, 65_536, 65_537])('white space around a block of %i octets is joined', async (length) => {
  for (const gap of [' ', '  ', '\t \t', ' '.repeat(70_000), ' \r\n', '\r\n ']) {
    const text = `${'a'.repeat(length - 1)}${gap}${'b'.repeat(80_000)}${gap}\r\n`;
    const wanted = createHash('sha256').update(reference(text)).digest('base64');
    expect(await relaxedBodyHash(Buffer.from(text))).toBe(wanted);
  }
});

test('a body over 1 MiB lets others have a turn', async () => {
  let turns = 0;
  const large = Buffer.from(`${'z'.repeat(76)}\r\n`.repeat(20_000));
  const hash = await relaxedBodyHash(large, () => {
    turns += 1;
    return Promise.resolve();
  });
  expect(turns).toBeGreaterThan(3);
  expect(hash).toBe(createHash('sha256').update(large).digest('base64'));
});

test.each([65_535, 65_536, 65_537, 131_072, 300_000])(
  '%i octets of white space at the end are none',
  async (octets) => {
    const blanks = Buffer.from('\r\n \t'.repeat(octets / 4 + 1)).subarray(0, octets & ~1);
    const body = Buffer.concat([Buffer.from('text'), blanks, Buffer.from('\r\n')]);
    let turns = 0;
    const yieldToEventLoop = (): Promise<void> => {
      turns += 1;
      return Promise.resolve();
    };
    expect(await relaxedBodyHash(body, yieldToEventLoop)).toBe(await relaxedBodyHash(Buffer.from('text\r\n')));
    expect(turns).toBe(Math.ceil(body.length / 65_536) - 1);
  },
);
