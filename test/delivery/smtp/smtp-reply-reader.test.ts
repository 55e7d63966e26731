// Replies are read the same however their octets are cut, and what is no reply is told from one.

import { describe, expect, test } from 'vitest';
import { capabilitiesOf } from '../../../src/delivery/smtp/envelope-commands.ts';
import { ReplyReader } from '../../../src/delivery/smtp/smtp-reply-reader.ts';
import type { SmtpReply } from '../../../src/mail/smtp-reply.ts';
import { heapOctetsOfEach } from '../../support/heap-octets.ts';
import fc from '../../support/properties.ts';

function read(chunks: readonly (string | Buffer)[]): {
  readonly replies: SmtpReply[];
  readonly fault: string | undefined;
  readonly pending: number;
} {
  const reader = new ReplyReader();
  const replies: SmtpReply[] = [];
  for (const chunk of chunks) {
    reader.push(Buffer.from(chunk));
    for (let reply = reader.next(); reply; reply = reader.next()) replies.push(reply);
  }
  return { replies, fault: reader.fault, pending: reader.pending };
}

test.each([
  ['250 ok\r\n', { code: 250, text: 'ok' }],
  ['250 2.1.0 ok\r\n', { code: 250, enhanced: '2.1.0', text: 'ok' }],
  ['250\r\n', { code: 250, text: '' }],
  ['250 \r\n', { code: 250, text: '' }],
  ['250 2.0.0\r\n', { code: 250, enhanced: '2.0.0', text: '' }],
  ['250 ok\n', { code: 250, text: 'ok' }],
  ['550-5.7.1 one\r\n550-5.7.1\r\n550 5.7.1 three\r\n', { code: 550, enhanced: '5.7.1', text: 'one\n\nthree' }],
  ['550-5.7.1 one\r\n550 two\r\n', { code: 550, enhanced: '5.7.1', text: 'one\ntwo' }],
  ['550 4.7.1 classes differ\r\n', { code: 550, text: '4.7.1 classes differ' }],
  ['550 5.7.1234 no status\r\n', { code: 550, text: '5.7.1234 no status' }],
  ['550 5.7.1x no status\r\n', { code: 550, text: '5.7.1x no status' }],
  ['354 go\r\n', { code: 354, text: 'go' }],
  // What would steer a terminal does not come through.
  ['450 4.2.0 a\x1b[31m\x07\rb\x7f\xc2\u009b\tc\r\n', { code: 450, enhanced: '4.2.0', text: 'a?[31m??b?Â?\tc' }],
  ['550 kein Empfänger\r\n', { code: 550, text: 'kein Empfänger' }],
])('%j is %j', (octets, wanted) => {
  expect(read([octets])).toEqual({ replies: [wanted], fault: undefined, pending: 0 });
});

test.each([
  'hello\r\n',
  '25 x\r\n',
  '2500 x\r\n',
  '199 x\r\n',
  '600 x\r\n',
  '250+x\r\n',
  '\r\n',
  '250-a\r\n251 b\r\n',
  'x50 a\r\n',
])('%j is no reply', (octets) => {
  expect(read([octets])).toMatchObject({ replies: [], fault: expect.stringContaining('Not a reply') });
});

describe('limits', () => {
  test.each([
    ['a line without end', 'x'.repeat(4097)],
    ['a line too long', `250 ${'x'.repeat(4093)}\r\n`],
    ['a reply without end', '250-x\r\n'.repeat(20_000)],
  ])('%s is a fault', (_, octets) => {
    expect(read([octets])).toMatchObject({ replies: [], fault: expect.stringContaining('too long') });
  });

  test('what just fits is none, and what is kept of it is cut', () => {
    const { replies, fault } = read([`250 ${'x'.repeat(4092)}\r\n`]);
    expect(fault).toBeUndefined();
    expect(replies[0]?.text).toHaveLength(1000);
  });
});

test('any cut of the octets gives the same replies', () => {
  const reply = fc.constantFrom(
    '250 ok\r\n',
    '250-a\r\n250-\r\n250 b\r\n',
    '550 5.1.1 nö\r\n',
    '354\r\n',
    'junk\r\n',
    '250-x\r\n251 y\r\n',
  );
  fc.assert(
    fc.property(fc.array(reply, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 10 }), (replies, cuts) => {
      const octets = Buffer.from(replies.join(''));
      const ends = [...cuts.map((cut) => cut % (octets.length + 1)), octets.length].toSorted((a, b) => a - b);
      const chunks = ends.map((end, index) => octets.subarray(ends[index - 1] ?? 0, end));
      const whole = read([octets]);
      const cut = read(chunks);
      expect(cut.replies).toEqual(whole.replies);
      expect(cut.fault).toBe(whole.fault);
    }),
  );
});

test('octets that no reply has used are counted', () => {
  expect(read(['220 go\r\n250 inj']).pending).toBe(7);
  expect(read(['250-a\r\n']).pending).toBe(7);
});

test('reads what is offered', () => {
  const text =
    'mx.test\nPIPELINING\nSIZE 1000\n8bitmime\nAUTH=LOGIN\nAUTH PLAIN CRAM-MD5\nSTARTTLS\nREQUIRETLS\nSMTPUTF8';
  expect(capabilitiesOf({ code: 250, text })).toEqual({
    pipelining: true,
    size: true,
    maxSize: 1000,
    eightBitMime: true,
    smtputf8: true,
    startTls: true,
    requireTls: true,
    dsn: false,
    auth: new Set(['LOGIN', 'PLAIN', 'CRAM-MD5']),
  });
  expect(capabilitiesOf({ code: 250, text: 'PIPELINING' }).pipelining).toBe(false);
  expect(capabilitiesOf({ code: 250, text: 'mx\nSIZE' }).maxSize).toBeUndefined();
  expect(capabilitiesOf({ code: 250, text: 'mx\nSIZE 0' }).maxSize).toBeUndefined();
});

describe('what is kept of a reply does not keep the rest of what was read', () => {
  /** Octets of the heap for each text of a reply, of many that are kept. */
  const octetsOfText = (octets: (index: number) => string): number =>
    heapOctetsOfEach(500, (index) => {
      const reader = new ReplyReader();
      reader.push(Buffer.from(octets(index)));
      return reader.next()?.text;
    });

  test('the other lines of a long reply', () => {
    const line = (index: number): string => `421-${index} `.padEnd(4000, 'x');
    const reply = (index: number): string => `${Array<string>(15).fill(line(index)).join('\r\n')}\r\n421 end\r\n`;
    expect(octetsOfText(reply)).toBeLessThan(4000);
  });

  test('what stands behind a short one', () => {
    const behind = '250-'.padEnd(60_000, 'x');
    expect(octetsOfText((index) => `421 4.3.2 come again later, number ${index}\r\n${behind}`)).toBeLessThan(4000);
  });
});
