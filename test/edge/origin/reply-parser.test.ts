// The parser of replies: whatever the pieces that a reply comes in, it says the same (RFC 9112 §6, §7).

import { expect, test } from 'vitest';
import type { ReplyHead } from '../../../src/edge/origin/message-heads.ts';
import { ReplyParser } from '../../../src/edge/origin/reply-parser.ts';
import fc from '../../support/properties.ts';

interface Transcript {
  readonly heads: readonly string[];
  readonly body: string;
  readonly end: 'whole' | 'open' | 'bad';
}

function headText({ status, reason, fields, framing, persistent }: ReplyHead): string {
  return `${status} ${reason} ${fields.join('|')} ${framing} ${persistent}`;
}

function parse(
  pieces: readonly Buffer[],
  options: { readonly forHead?: boolean; readonly closes?: boolean } = {},
): Transcript {
  const heads: string[] = [];
  let body = '';
  let end: Transcript['end'] = 'open';
  const parser = new ReplyParser();
  parser.expect(
    {
      onInterim: (head) => heads.push(`interim ${headText(head)}`),
      onHead: (head) => heads.push(headText(head)),
      onBody: (piece, last) => {
        body += piece.toString('latin1');
        if (last) end = 'whole';
      },
      onEnd: () => (end = 'whole'),
      onBad: () => (end = 'bad'),
    },
    options.forHead ?? false,
  );
  for (const piece of pieces) parser.feed(piece);
  if (options.closes) parser.close();
  return { heads, body, end };
}

function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...places].map((from, index) => bytes.subarray(from, places[index] ?? bytes.length));
}

const field = fc.constantFrom(
  'X-A: 1\r\n',
  'Set-Cookie:  a=b \t\r\n',
  'Connection: close\r\n',
  'Connection: X-A\r\n',
  'Content-Length: 5\r\n',
  'Content-Length: 0\r\n',
  'Content-Length: 7\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Bad : x\r\n',
  'X-B: \xe9\r\n',
  ' folded\r\n',
  'X: a\nb\r\n',
);
const body = fc.constantFrom(
  '',
  'hello',
  'hello, world',
  '5\r\nhello\r\n0\r\n\r\n',
  '5;x="y"\r\nhello\r\n1\r\n!\r\n0\r\nX: t\r\n\r\n',
  '5\r\nhello!\r\n0\r\n\r\n',
  'zz\r\n',
  '5\nhello\n0\n\n',
  '0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n',
);
const status = fc.constantFrom(
  'HTTP/1.1 200 OK',
  'HTTP/1.1 204 No',
  'HTTP/1.0 200 OK',
  'HTTP/1.1 404',
  'HTTP/1.1 99 x',
  'ICY 200 OK',
);
const interim = fc.constantFrom('', '', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Early\r\nLink: x\r\n\r\n');

test('any split of the octets gives the same transcript', () => {
  fc.assert(
    fc.property(
      interim,
      status,
      fc.array(field, { maxLength: 4 }),
      body,
      fc.array(fc.nat(), { maxLength: 12 }),
      fc.record({ forHead: fc.boolean(), closes: fc.boolean() }),
      (before, line, fields, after, cuts, options) => {
        const bytes = Buffer.from(`${before}${line}\r\n${fields.join('')}\r\n${after}`, 'latin1');
        const whole = parse([bytes], options);
        const octets = parse(
          Array.from(bytes, (octet) => Buffer.of(octet)),
          options,
        );
        const pieces = parse(split(bytes, cuts), options);
        // What is bad is bad; a body before it may have been passed on or not.
        expect(octets.end).toBe(whole.end);
        expect(pieces.end).toBe(whole.end);
        if (whole.end === 'bad') return;
        expect(octets).toEqual(whole);
        expect(pieces).toEqual(whole);
      },
    ),
    { numRuns: 1500 },
  );
});

test('whatever comes, it never throws, and after a fault it says nothing more', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 80 }), { maxLength: 5 }), (pieces) => {
      const said: string[] = [];
      const parser = new ReplyParser();
      const say = (what: string) => (): void => void said.push(what);
      parser.expect(
        { onInterim: say('interim'), onHead: say('head'), onBody: say('body'), onEnd: say('end'), onBad: say('bad') },
        false,
      );
      for (const piece of pieces) parser.feed(Buffer.from(piece));
      expect(said.slice(0, -1)).not.toContain('bad');
    }),
  );
});

test('a body is as long as it says, to the octet', () => {
  for (const length of [0, 1, 4, 5, 6]) {
    const { end, body } = parse([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\nhello`)]);
    expect([end, body]).toEqual(
      length < 5 ? ['bad', 'hello'.slice(0, length)] : [length === 5 ? 'whole' : 'open', 'hello'],
    );
  }
});

test('a head of 65,536 octets is taken and one of 65,537 is not, in one piece or in many', () => {
  for (const [size, end] of [
    [65_535, 'whole'],
    [65_536, 'whole'],
    [65_537, 'bad'],
  ] as const) {
    const rest = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: '.length + 4;
    const bytes = Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ${'x'.repeat(size - rest)}\r\n\r\n`);
    expect(bytes.length).toBe(size);
    expect(parse([bytes]).end).toBe(end);
    expect(parse(split(bytes, [1, 10, 1000, 30_000, 65_000])).end).toBe(end);
    expect(parse(split(bytes, [size - 1, size - 2, size - 3])).end).toBe(end);
  }
});

test('a head octet by octet costs time in proportion to its length', () => {
  const bytes = Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${`X: ${'x'.repeat(60)}\r\n`.repeat(900)}\r\n`);
  const { end, heads } = parse(Array.from(bytes, (octet) => Buffer.of(octet)));
  expect(end).toBe('whole');
  expect(heads).toHaveLength(1);
});
