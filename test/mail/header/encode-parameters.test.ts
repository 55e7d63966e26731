import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { encodeParameters, writeField } from '../../../src/mail/write-field.ts';

/** The file name that another reader finds. */
async function fileName(field: string): Promise<string | undefined> {
  const parsed = await simpleParser(`Content-Type: application/pdf\r\n${field}\r\n\r\nx\r\n`);
  return parsed.attachments[0]?.filename;
}

test.each([
  ['sections', 'filename*0="Über "; filename*1="Grüße.txt"', 'Über Grüße.txt'],
  ['sections in another order', 'filename*1="Grüße.txt"; size=1; filename*0="Über "', 'Über Grüße.txt'],
  ['an encoded section first', 'filename*0*=utf-8\'\'%C3%9Cber; filename*1=" Grüße.txt"', 'Über Grüße.txt'],
  ['another charset', 'filename*0*=iso-8859-1\'de\'%DCber; filename*1=" Grüße.txt"', 'Über Grüße.txt'],
  ['a character cut by two sections', 'filename*0*=utf-8\'\'%C3; filename*1*=%9C; filename*2="ber ü"', 'Über ü'],
  ['a section that repeats, one that is missing', 'filename*0="ü"; filename*0="x"; filename*2="y"', 'ü'],
  ['a section that repeats', 'filename*0="ü"; filename*0="x"; filename*1="y"', 'üy'],
  ['quotation marks in a later section', "filename*0*=utf-8''a; filename*1*=b'c'd; filename*2=\"ü\"", "ab'c'dü"],
  ['both forms', 'filename="Über"; filename*=utf-8\'\'%C3%9Cber', 'Über'],
  ['an encoded-word among raw text', 'filename="=?utf-8?Q?=C3=9Cber?= Grüße"', 'Über Grüße'],
])('%s become one value', async (_, parameters, wanted) => {
  const written = encodeParameters(`attachment; ${parameters}; x=1`);
  expect(written).toMatch(/^attachment; [\x20-\x7e]*; x=1$/);
  expect(written.match(/filename/g)).toHaveLength(1);
  expect(await fileName(`Content-Disposition: ${written}`)).toBe(wanted);
});

test('ASCII stays as it is, whatever its form', () => {
  const given = 'attachment; filename*1=b; filename*0*=utf-8\'\'a%C3; name="=?utf-8?B?w6Q=?=" (ok)';
  expect(encodeParameters(given)).toBe(given);
});

test('of a name that is written anew, other parameters stay', () => {
  expect(encodeParameters('text/plain; charset=utf-8; name*0="ü"; format=flowed; name*1="ö" (é); delsp=yes')).toBe(
    "text/plain; charset=utf-8; name*=utf-8''%C3%BC%C3%B6 (=?utf-8?B?w6k=?=); delsp=yes",
  );
});

test('parameters between sections are written anew in their place', () => {
  expect(encodeParameters('attachment; a*0="ü"; b="ö"; a*1="x"; c=1')).toBe(
    "attachment; a*=utf-8''%C3%BCx; b*=utf-8''%C3%B6; c=1",
  );
});

test('a name in the form of RFC 2231 that no line can hold is cut anew, between characters', async () => {
  const name = `${'日本語の請求書'.repeat(20)}.pdf`;
  const field = writeField(
    'Content-Disposition',
    `attachment; filename*=utf-8''${encodeURIComponent(name)}; size=1`,
    'parameters',
  );
  for (const [, section = ''] of field.matchAll(/filename\*\d+\*=(?:utf-8'')?([^;\r]*)/g)) {
    expect(() => decodeURIComponent(section)).not.toThrow();
  }
  expect(Math.max(...field.split('\r\n').map((line) => line.length))).toBeLessThanOrEqual(78);
  expect(await fileName(field.trimEnd())).toBe(name);
});

test('many sections take linear time', () => {
  const sections = Array.from({ length: 20_000 }, (_, index) => `n*${index}=a`).join(';');
  expect(encodeParameters(`text/plain;${sections};n*20000="ü"`).startsWith("text/plain;n*0*=utf-8''aaa")).toBe(true);
});
