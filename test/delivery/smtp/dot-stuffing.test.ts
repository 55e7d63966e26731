// Dots doubled on the way out are single again at the next hop, wherever the octets are cut.

import { expect, test } from 'vitest';
import { stuffedContent } from '../../../src/delivery/smtp/smtp-transaction.ts';
import { unstuffed } from '../../support/fault-sink.ts';
import fc from '../../support/properties.ts';

const line = fc.constantFrom('', '.', '..', '.\r\n.', 'a', '.a', 'a.', 'text of a line', '. ', '.\t');

function pieces(text: string, cuts: readonly number[]): Buffer[] {
  const octets = Buffer.from(text, 'latin1');
  const ends = [...cuts.map((cut) => cut % (octets.length + 1)), octets.length].toSorted((a, b) => a - b);
  return ends.map((end, index) => octets.subarray(ends[index - 1] ?? 0, end));
}

test('any message, cut anywhere, comes out as it went in, and ends exactly once', () => {
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 30 }),
      fc.boolean(),
      fc.array(fc.nat(), { maxLength: 8 }),
      (lines, ended, cuts) => {
        const text = lines.join('\r\n') + (ended ? '\r\n' : '');
        const sent = Buffer.concat([...stuffedContent(pieces(text, cuts))]).toString('latin1');
        // The first CRLF.CRLF, DATA's own CRLF counted in, is the end.
        const whole = `\r\n${sent}`;
        expect(whole.indexOf('\r\n.\r\n')).toBe(whole.length - 5);
        const content = Buffer.from(sent.slice(0, -3), 'latin1');
        const wanted = text === '' || text.endsWith('\r\n') ? text : `${text}\r\n`;
        expect(unstuffed(content).toString('latin1')).toBe(wanted);
      },
    ),
    { numRuns: 500 },
  );
});

test('a bare line feed before a dot cannot end the data early, for whoever takes it for a line end', () => {
  const sent = Buffer.concat([...stuffedContent([Buffer.from('a\n.\nb\n.\r\nc')])]).toString();
  expect(sent).toBe('a\n..\nb\n..\r\nc\r\n.\r\n');
});

test('octets without a dot at a line start are not copied', () => {
  const body = Buffer.alloc(1_000_000, 'no dot. here\r\n');
  const sent = [...stuffedContent([body])].slice(0, -1);
  expect(sent.every((piece) => piece.buffer === body.buffer)).toBe(true);
});

test('a body of nothing but dots is handed out in pieces, in linear time', () => {
  const body = Buffer.alloc(3_000_000, '.\r\n');
  let total = 0;
  let largest = 0;
  for (const piece of stuffedContent([body])) {
    total += piece.length;
    largest = Math.max(largest, piece.length);
  }
  expect(total).toBe(4_000_000 + 3);
  expect(largest).toBeLessThan(400_000);
});
