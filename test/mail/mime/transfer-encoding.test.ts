import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import {
  encodeBase64,
  encodeQuotedPrintable,
  encodeSmaller,
  rewrapBase64,
} from '../../../src/mail/mime/transfer-encoding.ts';
import fc from '../../support/properties.ts';

const octets = fc
  .array(
    fc.constantFrom(
      '\r\n',
      ' ',
      '\t',
      '=',
      'a',
      'Ü',
      '\x00',
      '\x7f',
      '.',
      'word '.repeat(20),
      'x'.repeat(80),
      '=41',
      '=\r\n',
      '\r',
      '\n',
    ),
    {
      maxLength: 60,
    },
  )
  .map((parts) => Buffer.from(parts.join(''), 'latin1'));

/** RFC 2045 §6.7, slowly. */
function decodeQuotedPrintable(bytes: Buffer): Buffer {
  const text = bytes
    .toString('latin1')
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(text, 'latin1');
}

function expectSafe(bytes: Buffer): void {
  for (const line of bytes.toString('latin1').split('\r\n')) {
    expect(line).toMatch(/^[\t -~]{0,76}$/);
    expect(line).not.toMatch(/[ \t]$/);
  }
}

test('quoted-printable decodes to what it was, in safe lines', async () => {
  await fc.assert(
    fc.asyncProperty(octets, fc.boolean(), async (content, text) => {
      const encoded = await encodeQuotedPrintable(content, { text });
      expectSafe(encoded);
      expect(decodeQuotedPrintable(encoded).equals(content)).toBe(true);
    }),
    { numRuns: 1000 },
  );
});

test('base64 decodes to what it was, in lines of 76', async () => {
  await fc.assert(
    fc.asyncProperty(octets, async (content) => {
      const encoded = await encodeBase64(content);
      expectSafe(encoded);
      expect(Buffer.from(encoded.toString(), 'base64').equals(content)).toBe(true);
    }),
  );
});

test.each([56, 57, 58, 114, 115])('base64 of %i octets has no line end behind its last line', async (length) => {
  const encoded = (await encodeBase64(Buffer.alloc(length, 1))).toString();
  expect(encoded.split('\r\n').map((line) => line.length)).toHaveLength(Math.ceil(length / 57));
  expect(encoded.endsWith('\n')).toBe(false);
});

test('the smaller encoding is taken', async () => {
  const mostlyAscii = Buffer.from(`${'plain words '.repeat(20)}é\r\n`.repeat(10));
  expect((await encodeSmaller(mostlyAscii, { text: true })).encoding).toBe('quoted-printable');
  expect((await encodeSmaller(Buffer.from('日本語の本文です。'.repeat(20)), { text: true })).encoding).toBe('base64');
  await fc.assert(
    fc.asyncProperty(octets, async (content) => {
      const [smaller, qp, base64] = await Promise.all([
        encodeSmaller(content, { text: true }),
        encodeQuotedPrintable(content, { text: true }),
        encodeBase64(content),
      ]);
      expect(smaller.bytes.length).toBe(Math.min(qp.length, base64.length));
      expect(smaller.bytes.equals(smaller.encoding === 'base64' ? base64 : qp)).toBe(true);
    }),
  );
});

test('large contents are encoded in slices', async () => {
  let turns = 0;
  const yieldToEventLoop = (): Promise<void> => {
    turns += 1;
    return Promise.resolve();
  };
  const content = Buffer.from(`ü${'abcdefghi '.repeat(20)}\r\n`.repeat(6000));
  const qp = await encodeQuotedPrintable(content, { text: true, yieldToEventLoop });
  expect(decodeQuotedPrintable(qp).equals(content)).toBe(true);
  expect(turns).toBeGreaterThan(3);
  const base64 = await encodeBase64(content, yieldToEventLoop);
  expect(Buffer.from(base64.toString(), 'base64').equals(content)).toBe(true);
  const rewrapped = await rewrapBase64(Buffer.from(content.toString('base64')), yieldToEventLoop);
  expect(rewrapped.equals(base64)).toBe(true);
});

async function read(bytes: Buffer): Promise<string | undefined> {
  const head = 'Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n';
  return (await simpleParser(Buffer.concat([Buffer.from(head), bytes]))).text;
}

test('quoted-printable that was not 7-bit, or too long, is repaired without changing what it says', async () => {
  const content = Buffer.from(`caf=C3=A9 caf\xe9 a=b ${'x'.repeat(1200)}=20\r\nsoft=\r\nend =\r\n`, 'latin1');
  const repaired = await encodeQuotedPrintable(content, { text: true, repair: true });
  expectSafe(repaired);
  expect(await read(repaired)).toBe(await read(content));
});

// RFC 2045 §6.7 (3): blanks at a line's end were added in transport; decoders delete them, behind a soft break's = too.
test('blanks at the ends of quoted-printable lines do not become text when it is repaired', async () => {
  const content = Buffer.from('soft= \t\r\nbreak \xe4 \r\nlast=\t', 'latin1');
  const repaired = await encodeQuotedPrintable(content, { text: true, repair: true });
  expect(repaired.toString('latin1')).toBe('soft=\r\nbreak =E4 \r\nlast=\t');
});

test('base64 with long lines or other octets in it is wrapped again', async () => {
  const content = Buffer.from(`${Buffer.alloc(3000, 'abc').toString('base64')}\xff\r\n==`, 'latin1');
  const wrapped = await rewrapBase64(content);
  expectSafe(wrapped);
  expect(Buffer.from(wrapped.toString(), 'base64').equals(Buffer.alloc(3000, 'abc'))).toBe(true);
});
