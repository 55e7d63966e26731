import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import {
  type HeaderField,
  MAX_HEADER_FIELDS,
  MAX_HEADER_SECTION_BYTES,
  readMessage,
} from '../../../src/mail/header/header-reader.ts';
import fc from '../../support/properties.ts';

function read(text: string) {
  const { fields, body, tooLarge } = readMessage(Buffer.from(text, 'latin1'));
  return {
    fields: fields.map(({ name, rawBytes, fault }) => [name, rawBytes.toString('latin1'), ...(fault ? [fault] : [])]),
    body: body.toString('latin1'),
    tooLarge,
  };
}

test('fields keep their order, their octets and their folds; the body is what follows the first empty line', () => {
  expect(read('B: 1\r\na:  x\r\n\ty \r\nB:2\r\n\r\nbody\r\n\r\nC: no\r\n')).toEqual({
    fields: [
      ['B', ' 1'],
      ['a', '  x\r\n\ty '],
      ['B', '2'],
    ],
    body: 'body\r\n\r\nC: no\r\n',
    tooLarge: false,
  });
});

test.each([
  ['an empty message', '', [], ''],
  ['no header section', '\r\nhello\r\n', [], 'hello\r\n'],
  ['an empty line alone', '\r\n', [], ''],
  ['a header section alone', 'A: b\r\n', [['A', ' b']], ''],
  [
    'a header section cut off in a line',
    'A: b\r\nC: d',
    [
      ['A', ' b'],
      ['C', ' d'],
    ],
    '',
  ],
  ['a header section cut off before the line feed', 'A: b\r', [['A', ' b\r']], ''],
  ['an empty body', 'A: b\r\n\r\n', [['A', ' b']], ''],
  [
    'a line of blanks, which is a fold',
    'A: b\r\n \r\nC: d\r\n\r\nx',
    [
      ['A', ' b\r\n '],
      ['C', ' d'],
    ],
    'x',
  ],
  [
    'an empty value',
    'A:\r\nB: \r\n\r\n',
    [
      ['A', ''],
      ['B', ' '],
    ],
    '',
  ],
  ['colons in a value', 'A: b:c\r\n\r\n', [['A', ' b:c']], ''],
  [
    'no colon',
    'Hello there\r\nA: b\r\n\r\n',
    [
      ['Hello there', '', 'no-colon'],
      ['A', ' b'],
    ],
    '',
  ],
  ['a colon only in the fold', 'Hello\r\n x: y\r\n\r\n', [['Hello', '\r\n x: y', 'no-colon']], ''],
  [
    'no colon on the last line',
    'A: b\r\nrest',
    [
      ['A', ' b'],
      ['rest', '', 'no-colon'],
    ],
    '',
  ],
  [
    'a blank before the colon',
    'A : b\r\nC\t: d\r\n\r\n',
    [
      ['A ', ' b', 'space-before-colon'],
      ['C\t', ' d', 'space-before-colon'],
    ],
    '',
  ],
  [
    'a leading continuation',
    ' A: b\r\n\tc\r\nD: e\r\n\r\n',
    [
      ['', ' A: b\r\n\tc', 'leading-continuation'],
      ['D', ' e'],
    ],
    '',
  ],
  ['a name of nothing', ': b\r\n\r\n', [['', ' b']], ''],
  [
    'an mbox line',
    'From root Mon Jan  1 10:00:00 2024\r\nTo: x\r\n\r\n',
    [
      ['From root Mon Jan  1 10', '00:00 2024'],
      ['To', ' x'],
    ],
    '',
  ],
  ['8-bit octets', 'Subject: caf\xe9\r\n\r\n', [['Subject', ' caf\xe9']], ''],
])('%s', (_, text, fields, body) => {
  expect(read(text)).toEqual({ fields, body, tooLarge: false });
});

// D11: neither ends a field, a line or the section.
test.each([
  [
    'a bare LF',
    'A: b\nBcc: c\r\nD: e\r\n\r\nx',
    [
      ['A', ' b\nBcc: c'],
      ['D', ' e'],
    ],
    'x',
  ],
  ['two bare LF', 'A: b\n\nx: y\r\n\r\nz', [['A', ' b\n\nx: y']], 'z'],
  ['a bare CR', 'A: b\rC: d\r\n\r\nx', [['A', ' b\rC: d']], 'x'],
  [
    'LF CR LF',
    'A: b\n\r\nC: d\r\n\r\nx',
    [
      ['A', ' b\n'],
      ['C', ' d'],
    ],
    'x',
  ],
  ['CR CR LF before the empty line', 'A: b\r\r\n\r\nx', [['A', ' b\r']], 'x'],
  [
    'CR LF LF',
    'A: b\r\n\nC: d\r\n\r\nx',
    [
      ['A', ' b'],
      ['\nC', ' d'],
    ],
    'x',
  ],
  [
    'CR LF CR CR LF',
    'A: b\r\n\r\r\nC: d\r\n\r\nx',
    [
      ['A', ' b'],
      ['\r', '', 'no-colon'],
      ['C', ' d'],
    ],
    'x',
  ],
])('%s ends nothing', (_, text, fields, body) => {
  expect(read(text)).toEqual({ fields, body, tooLarge: false });
});

test.each([
  [MAX_HEADER_SECTION_BYTES - 1, false],
  [MAX_HEADER_SECTION_BYTES, false],
  [MAX_HEADER_SECTION_BYTES + 1, true],
])('a header section of %i octets: too large %s', (octets, tooLarge) => {
  const section = Buffer.from(`X-A: ${'a'.repeat(octets - 7)}\r\n`);
  expect(section.length).toBe(octets);
  const withBody = readMessage(Buffer.concat([section, Buffer.from('\r\nbody')]));
  expect([withBody.tooLarge, withBody.fields.length, withBody.body.toString()]).toEqual(
    tooLarge ? [true, 0, ''] : [false, 1, 'body'],
  );
  expect(readMessage(section).tooLarge).toBe(tooLarge);
});

test.each([
  [MAX_HEADER_FIELDS - 1, false],
  [MAX_HEADER_FIELDS, false],
  [MAX_HEADER_FIELDS + 1, true],
])('%i fields: too large %s', (count, tooLarge) => {
  const result = readMessage(Buffer.from(`${'A: b\r\n'.repeat(count)}\r\nbody`));
  expect(result).toMatchObject({ tooLarge, fields: { length: tooLarge ? 0 : count } });
});

test('the body is a view of the message, not a copy', () => {
  const raw = Buffer.from('A: b\r\n\r\nbody');
  expect(readMessage(raw).body.buffer).toBe(raw.buffer);
});

function fieldOctets({ name, rawBytes, fault }: HeaderField): Buffer {
  const colon = fault === 'no-colon' || fault === 'leading-continuation' ? '' : ':';
  return Buffer.concat([Buffer.from(name + colon, 'latin1'), rawBytes, Buffer.from('\r\n')]);
}

/** Puts a message together again from what was read: every octet must be accounted for. */
function rebuild(raw: Buffer): Buffer {
  const { fields, body } = readMessage(raw);
  const whole = Buffer.concat([...fields.map(fieldOctets), Buffer.from('\r\n'), body]);
  // A message without an empty line ends inside its header section, with or without a last line end.
  return whole.length > raw.length ? whole.subarray(0, raw.length) : whole;
}

const hostileText = fc
  .array(fc.constantFrom('\r\n', '\r', '\n', ' ', '\t', ':', 'A', 'Subject', '\0', '\xff', '\r\n\r\n', '.'), {
    maxLength: 60,
  })
  .map((parts) => Buffer.from(parts.join(''), 'latin1'));

test('fields and body account for every octet of any input', () => {
  const anything = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.oneof(hostileText, anything), (raw) => {
      expect(rebuild(raw)).toEqual(raw);
    }),
    { numRuns: 3000 },
  );
});

test('what is read stands the same when lines are read from another buffer offset', () => {
  fc.assert(
    fc.property(hostileText, fc.nat(20), (raw, offset) => {
      const shifted = Buffer.concat([Buffer.alloc(offset, 'z'), raw]).subarray(offset);
      expect(readMessage(shifted)).toEqual(readMessage(raw));
    }),
  );
});

test.each(['\r', '\n', ':', ' ', '\r\n ', 'a', 'a\r\n', ':\r\n', '\r\r\n', '\0'])(
  'a message of nothing but %j is read in linear time',
  (unit) => {
    const raw = Buffer.alloc(MAX_HEADER_SECTION_BYTES, unit, 'latin1');
    raw.write('X');
    for (let round = 0; round < 20; round += 1) readMessage(raw);
    expect(readMessage(Buffer.concat([raw, raw, raw])).tooLarge).toBe(true);
  },
);

test('mailparser keeps order, repetition and spelling of fields, but takes a bare LF for a line end (docs/adr)', async () => {
  const raw =
    'X-B: one\r\nReceived: a\r\nx-b: two\r\n folded\r\nReceived: b\nX-Smuggled: yes\r\nNo colon\r\n\r\nbody\r\n';
  const { headerLines } = await simpleParser(raw);
  const lines = ['X-B: one', 'Received: a', 'x-b: two\r\n folded', 'Received: b', 'X-Smuggled: yes', 'No colon'];
  expect(headerLines.map(({ line }) => line)).toEqual(lines);
  expect(read(raw).fields).toEqual([
    ['X-B', ' one'],
    ['Received', ' a'],
    ['x-b', ' two\r\n folded'],
    ['Received', ' b\nX-Smuggled: yes'],
    ['No colon', '', 'no-colon'],
  ]);
});
