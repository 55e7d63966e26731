import { expect, test } from 'vitest';
import { DataReader } from '../../../src/doors/smtp/data-reader.ts';
import fc from '../../support/properties.ts';

const roomy = { messageBytes: 1_000_000, headerBytes: 1_000_000 };

/** The rule in one line each, over the whole text: where the data ends, and what it is. */
function model(text: string): { readonly message: string; readonly rest: string } | undefined {
  const framed = `\r\n${text}`;
  const end = framed.indexOf('\r\n.\r\n');
  if (end < 0) return undefined;
  const message = framed.slice(0, end + 2).replaceAll('\r\n.', '\r\n');
  return { message: message.slice(2), rest: framed.slice(end + 5) };
}

function read(text: string, sizes: readonly number[], limits = roomy): { reader: DataReader; rest: string } {
  const reader = new DataReader(limits);
  let octets: Buffer = Buffer.from(text, 'latin1');
  let turn = 0;
  while (octets.length > 0 && !reader.ended) {
    const piece = Buffer.from(octets.subarray(0, sizes[turn % sizes.length] ?? octets.length));
    const taken = reader.feed(piece, 0);
    octets = octets.subarray(reader.ended ? taken : piece.length);
    turn += 1;
  }
  return { reader, rest: octets.toString('latin1') };
}

const nearLineEnds = fc
  .array(fc.constantFrom('\r', '\n', '.', '\r\n', '\r\n.', '\r\n.\r\n', 'a', 'bc'), { maxLength: 24 })
  .map((parts) => parts.join(''));

test('end of data and unstuffing follow the rule, in any pieces', () => {
  fc.assert(
    fc.property(
      nearLineEnds,
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 8 }),
      (text, sizes) => {
        const wanted = model(text);
        const { reader, rest } = read(text, sizes);
        expect(reader.ended).toBe(wanted !== undefined);
        if (!wanted) return;
        expect(reader.message().toString('latin1')).toBe(wanted.message);
        expect(reader.size).toBe(wanted.message.length);
        expect(rest).toBe(wanted.rest);
      },
    ),
    { numRuns: 5000 },
  );
});

test('it reads from where it is told, and says where it stopped', () => {
  const chunk = Buffer.from('DATA\r\nx\r\n.\r\nQUIT\r\n');
  const reader = new DataReader(roomy);
  expect(reader.feed(chunk, 6)).toBe(12);
  expect(reader.message().toString()).toBe('x\r\n');
  expect(chunk.subarray(12).toString()).toBe('QUIT\r\n');
});

test('large and small pieces come together in their order', () => {
  const large = 'l'.repeat(20_000);
  const text = `${'s'.repeat(100)}${large}${'t'.repeat(100)}${large}`;
  const reader = new DataReader(roomy);
  for (const piece of [text.slice(0, 50), text.slice(50, 100), large, text.slice(20_100, 20_200), large, '\r\n.\r\n']) {
    reader.feed(Buffer.from(piece), 0);
  }
  expect(reader.ended).toBe(true);
  expect(reader.message().toString()).toBe(`${text}\r\n`);
});

test.each([
  [19, false, false],
  [20, false, false],
  [21, true, false],
  [39, true, false],
  [40, true, false],
  [41, true, true],
])('%i octets against a limit of 20: over %s, flooded %s', (size, oversize, flooded) => {
  const { reader } = read(`${'a'.repeat(size - 2)}\r\n.\r\n`, [7], { messageBytes: 20, headerBytes: 1000 });
  expect(reader.size).toBe(size);
  expect(reader.oversize).toBe(oversize);
  expect(reader.flooded).toBe(flooded);
  if (oversize) expect(reader.message()).toHaveLength(0);
});

test('a header section without an end is not kept beyond its limit, but counted', () => {
  const limits = { messageBytes: 1_000_000, headerBytes: 100 };
  const { reader } = read(`X: ${'a'.repeat(5000)}\r\n\r\nbody\r\n.\r\n`, [64], limits);
  expect(reader.ended).toBe(true);
  expect(reader.size).toBe(5013);
  expect(reader.message().length).toBeGreaterThanOrEqual(100);
  expect(reader.message().length).toBeLessThan(200);
});

test.each(['X: a\r\n\r\n', '\r\n'])('with the section ended in time (%j) the body is kept whole', (header) => {
  const limits = { messageBytes: 1_000_000, headerBytes: 100 };
  const { reader } = read(`${header}${'b'.repeat(5000)}\r\n.\r\n`, [64], limits);
  expect(reader.message().toString()).toBe(`${header}${'b'.repeat(5000)}\r\n`);
});

test('a message of nothing but stuffed dots is unstuffed whole', () => {
  const text = `${'..\r\n'.repeat(100_000)}.\r\n`;
  const { reader } = read(text, [65_536]);
  expect(reader.message().toString()).toBe('.\r\n'.repeat(100_000));
});
