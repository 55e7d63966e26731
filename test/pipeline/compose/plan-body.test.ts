import { simpleParser } from 'mailparser';
import { describe, expect, test } from 'vitest';
import type { BodyPlan } from '../../../src/pipeline/compose/compose.ts';
import { planBody } from '../../../src/pipeline/compose/plan-body.ts';
import { type Circumstances, composeRaw, octetsOf, submissionOf } from '../../support/checked.ts';
import fc from '../../support/properties.ts';

async function plan(raw: string | Buffer, circumstances: Circumstances = {}): Promise<BodyPlan> {
  const planned = await planBody(submissionOf(raw, circumstances));
  if (!planned.ok) throw new Error(JSON.stringify(planned.violations));
  return planned.plan;
}

async function refused(raw: string | Buffer, circumstances: Circumstances = {}): Promise<readonly string[]> {
  const planned = await planBody(submissionOf(raw, circumstances));
  return planned.ok ? [] : planned.violations.map(({ code, message }) => `${code}: ${message}`);
}

const latin1 = (text: string): Buffer => Buffer.from(text.replace(/\n/g, '\r\n'), 'latin1');

/** A raw message and what leaves of it: parsed alike, 7-bit, lines of at most 998 octets. */
async function expectSameContent(raw: string | Buffer): Promise<string> {
  const message = await composeRaw(raw);
  const octets = octetsOf(message);
  for (const line of octets.toString('latin1').split('\r\n')) expect(line).toMatch(/^[\x00-\x7f]{0,998}$/);
  const [before, after] = await Promise.all([
    simpleParser(typeof raw === 'string' ? raw.replace(/\n/g, '\r\n') : raw),
    simpleParser(octets),
  ]);
  expect(after.text).toBe(before.text);
  expect(after.html).toBe(before.html);
  expect(after.attachments.map(({ content }) => content.toString('hex'))).toEqual(
    before.attachments.map(({ content }) => content.toString('hex')),
  );
  expect(after.attachments.map(({ filename }) => filename)).toEqual(before.attachments.map(({ filename }) => filename));
  return octets.toString('latin1');
}

describe('what needs nothing passes as the same octets', () => {
  const passing = {
    'plain text': 'From: a@example.com\n\nHello\n',
    'an empty body': 'From: a@example.com\n\n',
    'a line of 998 octets': `From: a@example.com\n\n${'x'.repeat(998)}\n`,
    'base64 declared':
      'From: a@example.com\nContent-Type: application/pdf\nContent-Transfer-Encoding: base64\n\nAAAA\n',
    'a multipart of 7-bit parts':
      'From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\npre\n--b\nX-Odd:  kept \n\n  text  \n--b--\nepilogue\n',
    'a multipart whose boundary is missing':
      'From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\nonly text\n',
  };
  test.each(Object.entries(passing))('%s', async (_, raw) => {
    const submission = submissionOf(raw);
    const planned = await planBody(submission);
    expect(planned.ok && planned.plan.body).toBe(submission.body.kind === 'mime' && submission.body.bytes);
    expect(planned.ok && Object.keys(planned.plan)).toEqual(['body']);
  });
});

describe('line ends and NUL', () => {
  const raw = 'From: a@example.com\r\n\r\none\rtwo\nthree';
  test('bare CR and LF become CRLF, and the body ends with CRLF', async () => {
    expect((await plan(Buffer.from(raw))).body.toString()).toBe('one\r\ntwo\r\nthree\r\n');
  });
  test('or are refused where the listener says so', async () => {
    const via = { lineEndings: 'reject' } as const;
    expect(await refused(Buffer.from(raw), { via })).toEqual([
      'E_VALIDATION_ERROR: The body holds a bare CR and a bare LF: lines end with CRLF',
    ]);
    expect(await refused(Buffer.from('From: a@example.com\r\n\r\none\ntwo\r\n'), { via })).toEqual([
      'E_VALIDATION_ERROR: The body holds a bare LF: lines end with CRLF',
    ]);
    expect(await refused('From: a@example.com\n\none\n', { via })).toEqual([]);
  });
  test('NUL is refused', async () => {
    const [reason] = await refused('From: a@example.com\n\no\0ne\n');
    expect(reason).toMatch(/^E_VALIDATION_ERROR: The body holds a NUL octet/);
  });
});

describe('a body of one part', () => {
  test('undeclared 8-bit text is utf-8 where it is valid', async () => {
    const { body, contentType, transferEncoding } = await plan('From: a@example.com\n\nGrüße an alle hier =)\n');
    expect(body.toString()).toBe('Gr=C3=BC=C3=9Fe an alle hier =3D)\r\n');
    expect([contentType, transferEncoding]).toEqual(['text/plain; charset=utf-8', 'quoted-printable']);
  });
  test('else the legacy charset', async () => {
    const { body, contentType } = await plan(latin1('From: a@example.com\n\nGr\xfc\xdfe \x80 and more\n'));
    expect(body.toString()).toBe('Gr=FC=DFe =80 and more\r\n');
    expect(contentType).toBe('text/plain; charset=windows-1252');
    const other = await plan(latin1('From: a@example.com\n\nGr\xfc\xdfe and more\n'), {
      via: { legacyCharset: 'iso-8859-15' },
    });
    expect(other.contentType).toBe('text/plain; charset=iso-8859-15');
  });
  test('a Content-Type without a charset, or with us-ascii, gets the true one and keeps the rest', async () => {
    const html = await plan('From: a@example.com\nContent-Type: text/html; x="a; b";\n\n<p>é is a letter</p>\n');
    expect(html.contentType).toBe('text/html; x="a; b"; charset=utf-8');
    const ascii = await plan(
      'From: a@example.com\nContent-Type: text/plain; charset="us-ascii"; format=flowed\n\né is a letter\n',
    );
    expect(ascii.contentType).toBe('text/plain; charset=utf-8; format=flowed');
  });
  test.each([
    ['', 'text/plain; charset=utf-8'],
    [' ', 'text/plain; charset=utf-8'],
    ['; format=flowed; charset=us-ascii', 'text/plain; format=flowed; charset=utf-8'],
  ])('a Content-Type without a type becomes one that is whole: %j', async (value, becomes) => {
    const given = await plan(`From: a@example.com\nContent-Type:${value}\n\né is a letter\n`);
    expect(given.contentType).toBe(becomes);
    const part = await plan(
      `From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type:${value}\n\né is a letter\n--b--\n`,
    );
    expect(part.body.toString()).toContain(`Content-Type: ${becomes}\r\n`);
  });
  test('a declared charset stays', async () => {
    const given = await plan(
      latin1(
        'From: a@example.com\nContent-Type: text/plain; charset=iso-8859-2\nContent-Transfer-Encoding: 8bit\n\n\xb1 and more text\n',
      ),
    );
    expect(given).toEqual({ body: Buffer.from('=B1 and more text\r\n'), transferEncoding: 'quoted-printable' });
  });
  test('base64 where that is smaller', async () => {
    const { body, transferEncoding } = await plan('From: a@example.com\n\n日本語の本文です\n');
    expect(transferEncoding).toBe('base64');
    expect(Buffer.from(body.toString(), 'base64').toString()).toBe('日本語の本文です\r\n');
    expect(body.toString()).toMatch(/\r\n$/);
  });
  test.each([
    [997, undefined],
    [998, undefined],
    [999, 'quoted-printable'],
  ])('a line of %i octets: %s', async (length, wanted) => {
    const { transferEncoding, contentType, body } = await plan(`From: a@example.com\n\n${'x'.repeat(length)}\n`);
    expect(transferEncoding).toBe(wanted);
    expect(contentType).toBeUndefined();
    expect(body.toString().replace(/=\r\n/g, '')).toBe(`${'x'.repeat(length)}\r\n`);
  });
  test.each(['8bit', '8BIT', 'binary', '8-bit'])(
    '7-bit in fact and declared %s: the label alone changes',
    async (label) => {
      const submission = submissionOf(`From: a@example.com\nContent-Transfer-Encoding: ${label}\n\nplain = text\n`);
      const planned = await planBody(submission);
      expect(planned).toEqual({ ok: true, plan: { body: Buffer.from('plain = text\r\n'), transferEncoding: '7bit' } });
      expect(planned.ok && planned.plan.body).toBe(submission.body.kind === 'mime' && submission.body.bytes);
    },
  );
  test.each([
    ['text/plain; charset=utf-8', '8bit'],
    ['application/octet-stream', 'binary'],
  ])('so it is with a leaf of %s, declared %s', async (type, label) => {
    const leaf = (encoding: string): string =>
      `--b\nContent-Type: ${type}\nContent-Transfer-Encoding: ${encoding}\n\nFrom  = text \n--b--\n`;
    const top = 'From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n';
    const { body } = await plan(top + leaf(label));
    expect(body.toString()).toBe(leaf('7bit').replaceAll('\n', '\r\n'));
  });
  test('data that is no text keeps every octet but the line end SMTP put behind it', async () => {
    const raw = latin1(
      'From: a@example.com\nContent-Type: application/octet-stream\nContent-Transfer-Encoding: binary\n\n\xff\xfe\n\x01\n',
    );
    const { body, transferEncoding } = await plan(raw);
    expect(transferEncoding).toBe('base64');
    expect(Buffer.from(body.toString(), 'base64')).toEqual(Buffer.from('\xff\xfe\r\n\x01', 'latin1'));
  });
  test.each(['x-uuencode', 'utf-8', 'x-yenc'])('%s, an encoding nobody knows, is never replaced', async (encoding) => {
    const top = `From: a@example.com\nContent-Transfer-Encoding: ${encoding}\n\n`;
    const reason = `encoded as "${encoding}", which nobody knows: only quoted-printable and base64 can leave (RFC 2045 section 6)`;
    expect(await refused(`${top}é is a letter\n`)).toEqual([
      `E_VALIDATION_ERROR: The body (text/plain) holds 8-bit data and is ${reason}`,
    ]);
    expect(await refused(`${top}${'x'.repeat(999)}\n`)).toEqual([
      `E_VALIDATION_ERROR: The body (text/plain) holds a line over 998 octets and is ${reason}`,
    ]);
    const clean = submissionOf(`${top}begin 644 a.bin\n`);
    expect(await planBody(clean)).toEqual({
      ok: true,
      plan: { body: clean.body.kind === 'mime' && clean.body.bytes },
    });
  });
  test('a message under an encoding nobody knows is not gone into', async () => {
    const raw =
      'From: a@example.com\nContent-Type: message/rfc822\nContent-Transfer-Encoding: x-uuencode\n\nSubject: é\n';
    expect(await refused(raw)).toEqual([expect.stringContaining('encoded as "x-uuencode"')]);
  });
  test('base64 in one long line is wrapped, quoted-printable with raw octets repaired', async () => {
    const long = Buffer.alloc(3000, 'pdf').toString('base64');
    const base64 = await plan(
      `From: a@example.com\nContent-Type: application/pdf\nContent-Transfer-Encoding: base64\n\n${long}\n`,
    );
    expect(base64.transferEncoding).toBeUndefined();
    expect(base64.body.toString().split('\r\n')[0]).toHaveLength(76);
    expect(Buffer.from(base64.body.toString(), 'base64')).toEqual(Buffer.alloc(3000, 'pdf'));
    const qp = await plan('From: a@example.com\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9 é =3D\n');
    expect(qp).toEqual({ body: Buffer.from('=C3=A9 =C3=A9 =3D\r\n') });
  });
});

function nested(text: string, extra = ''): string {
  return `From: a@example.com
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="outer"
Content-Transfer-Encoding: 8bit

Eine mehrteilige Nachricht für Sie.
--outer
Content-Type: multipart/alternative;
 boundary=inner
Content-Transfer-Encoding: 8bit
${extra}
--inner
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

${text}
--inner
Content-Type: text/html; charset=utf-8

<p>${text}</p>
--inner--

--outer
Content-Type: application/pdf; name="plain.pdf"
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename="plain.pdf"

JVBERi0xLjQ=
--outer--
`;
}

describe('a MIME tree', () => {
  test('leaves are re-encoded, containers declare 7bit, the rest stays octet by octet', async () => {
    const octets = await expectSameContent(nested('Grüße an alle, mit = und Leerzeichen '));
    expect(octets.slice(octets.indexOf('\r\n\r\n') + 4)).toBe(
      `Eine mehrteilige Nachricht f??r Sie.
--outer
Content-Type: multipart/alternative;
 boundary=inner
Content-Transfer-Encoding: 7bit

--inner
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Gr=C3=BC=C3=9Fe an alle, mit =3D und Leerzeichen=20
--inner
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<p>Gr=C3=BC=C3=9Fe an alle, mit =3D und Leerzeichen </p>
--inner--

--outer
Content-Type: application/pdf; name="plain.pdf"
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename="plain.pdf"

JVBERi0xLjQ=
--outer--
`.replace(/\n/g, '\r\n'),
    );
    expect(octets).toContain('\r\nContent-Transfer-Encoding: 7bit\r\n\r\nEine');
  });

  test('a long line in one part changes that part only', async () => {
    const octets = await expectSameContent(nested('x'.repeat(2000)).replace('für', 'fuer'));
    expect(octets).toContain('\r\n\r\nEine mehrteilige Nachricht fuer Sie.\r\n--outer\r\n');
  });

  test('a declared 8bit inside a clean tree is no longer declared', async () => {
    const octets = await expectSameContent(nested('plain text').replace('für', 'fuer'));
    expect(octets).not.toMatch(/8bit/);
  });

  test('raw 8-bit fields of parts become ASCII that says the same', async () => {
    const octets = await expectSameContent(`From: a@example.com
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain
Content-Description: Übersicht
Subject: für später

text
--b
Content-Type: application/pdf; name="Résumé 2025.pdf"
Content-Disposition: attachment; filename="Résumé 2025.pdf"
Content-Transfer-Encoding: base64

JVBERi0xLjQ=
--b--
`);
    expect(octets).toContain("filename*=utf-8''R%C3%A9sum%C3%A9%202025.pdf");
    expect(octets).toContain('Content-Description: =?utf-8?');
    expect(octets).toContain('Content-Type: text/plain\r\n');
  });

  test('parts without header section or description get what they need', async () => {
    const octets = await expectSameContent(
      'From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nGrüße an alle hier\n--b\n\nplain\n--b--\n',
    );
    expect(octets).toContain(
      '--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC',
    );
    expect(octets).toContain('--b\r\n\r\nplain\r\n--b--\r\n');
    const { body } = await plan(
      'From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n--b\nno header, für sich\n--b--\n',
    );
    expect(body.toString()).toBe(
      '--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nno header, f=C3=BCr sich\r\n--b--\r\n',
    );
  });

  test('embedded messages are gone into', async () => {
    const { body } = await plan(`From: a@example.com
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: message/rfc822
Content-Transfer-Encoding: 8bit

From: Jörg <j@example.net>
Subject: für dich
X-Kept:   as it was

Grüße an alle hier
--b--
`);
    expect(body.toString()).toBe(
      `--b
Content-Type: message/rfc822
Content-Transfer-Encoding: 7bit

From: =?utf-8?B?SsO2cmc=?= <j@example.net>
Subject: =?utf-8?Q?f=C3=BCr?= dich
X-Kept:   as it was
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Gr=C3=BC=C3=9Fe an alle hier
--b--
`.replace(/\n/g, '\r\n'),
    );
  });

  test('a message/global with raw fields is encoded as a whole', async () => {
    const { body, transferEncoding } = await plan(
      'From: a@example.com\nContent-Type: message/global\n\nFrom: jörg@example.net\n\nHi there, this is all\n',
    );
    expect(transferEncoding).toBe('quoted-printable');
    expect(body.toString()).toBe('From: j=C3=B6rg@example.net\r\n\r\nHi there, this is all\r\n');
  });

  const report = (type: string, text: string): string =>
    `From: a@example.com\nContent-Type: multipart/report; boundary=b\n\n--b\nContent-Type: ${type}\n\n${text}\n--b--\n`;
  test.each([
    'message/delivery-status',
    'message/disposition-notification',
    'message/feedback-report',
    'message/partial; id="a"; number=1',
    'message/external-body; access-type=URL',
  ])('%s is never encoded: 8-bit in it is refused, and what needs nothing passes', async (type) => {
    const name = type.split(';', 1)[0];
    const why = 'and a part of type message may not be encoded (RFC 2045 section 6.4): encode what stands in it';
    expect(await refused(report(type, 'Diagnostic-Code: smtp; 550 unbekannter Empfänger'))).toEqual([
      `E_VALIDATION_ERROR: Part 1 (${name}) holds 8-bit data ${why}`,
    ]);
    expect(await refused(report(type, `X: ${'x'.repeat(1000)}`))).toEqual([
      `E_VALIDATION_ERROR: Part 1 (${name}) holds a line over 998 octets ${why}`,
    ]);
    const clean = report(type, 'Action: failed');
    expect((await plan(clean)).body.toString()).toBe(clean.slice(clean.indexOf('--b')).replaceAll('\n', '\r\n'));
    const labelled = clean.replace('\n\nAction', '\nContent-Transfer-Encoding: 8bit\n\nAction');
    expect((await plan(labelled)).body.toString()).toContain('Content-Transfer-Encoding: 7bit\r\n\r\nAction: failed');
  });
  test('what came with message/global may be encoded (RFC 6532 §3.5)', async () => {
    const { body } = await plan(report('message/global-delivery-status', 'Final-Recipient: utf-8; jörg@example.net'));
    expect(body.toString()).toContain(
      'Content-Transfer-Encoding: quoted-printable\r\n\r\nFinal-Recipient: utf-8; j=C3',
    );
  });

  test('what cannot be re-encoded is refused', async () => {
    expect(await refused('From: a@example.com\nContent-Type: multipart/mixed\n\nGrüße\n')).toEqual([
      'E_VALIDATION_ERROR: The body (multipart/mixed) holds 8-bit data but its boundary is missing, so that nothing in it can be re-encoded',
    ]);
    const [reason] = await refused(
      'From: a@example.com\nContent-Type: multipart/mixed; boundary="ü"\n\n--ü\n\nGrüße\n--ü--\n',
    );
    expect(reason).toMatch(/^E_VALIDATION_ERROR: The body \(multipart\/mixed\) has a boundary outside ASCII/);
  });
});

function signed(text: string): string {
  return `From: a@example.com
Content-Type: multipart/signed; protocol="application/pgp-signature";
 micalg=pgp-sha256; boundary="sig"

This is an OpenPGP/MIME signed message
--sig
Content-Type: multipart/mixed; boundary="in"

--in
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

${text}
${'long line '.repeat(120)}
--in--

--sig
Content-Type: application/pgp-signature; name="signature.asc"

-----BEGIN PGP SIGNATURE-----
=abcd
-----END PGP SIGNATURE-----

--sig--
`;
}

describe('signed and encrypted mail', () => {
  test('passes byte for byte, even with long lines', async () => {
    const submission = submissionOf(signed('trailing blanks  '));
    const planned = await planBody(submission);
    expect(planned.ok && planned.plan.body).toBe(submission.body.kind === 'mime' && submission.body.bytes);
    expect(octetsOf(await composeRaw(signed('x'))).toString()).toContain(
      'Content-Type: multipart/signed; protocol="application/pgp-signature";\r\n micalg=pgp-sha256; boundary="sig"\r\n',
    );
  });
  test('with 8-bit data inside is refused, naming the part', async () => {
    const [reason] = await refused(signed('Grüße'));
    expect(reason).toMatch(/^E_VALIDATION_ERROR: Part 1\.1 \(text\/plain\) inside multipart\/signed holds 8-bit data/);
  });
  test('inside a multipart/mixed stays while its neighbour is re-encoded', async () => {
    const inner = signed('kept').replace(/^From: .*\n/, '');
    const raw = `From: a@example.com\nContent-Type: multipart/mixed; boundary=o\n\n--o\n${inner}\n--o\n\nGrüße an alle hier\n--o--\n`;
    const { body } = await plan(raw);
    expect(body.toString()).toContain(inner.slice(inner.indexOf('--sig')).replace(/\n/g, '\r\n'));
    expect(body.toString()).toContain('Gr=C3=BC=C3=9Fe an alle hier');
  });
  test('encrypted mail passes byte for byte', async () => {
    const raw = `From: a@example.com
Content-Type: multipart/encrypted; protocol="application/pgp-encrypted"; boundary=e

--e
Content-Type: application/pgp-encrypted

Version: 1

--e
Content-Type: application/octet-stream

-----BEGIN PGP MESSAGE-----

hQEMA==
-----END PGP MESSAGE-----
--e--
`;
    const submission = submissionOf(raw);
    const planned = await planBody(submission);
    expect(planned.ok && planned.plan.body).toBe(submission.body.kind === 'mime' && submission.body.bytes);
  });
});

test('header faults do not keep the body from being judged', async () => {
  const submission = submissionOf('no colon here\nContent-Type: multipart/signed; boundary=s\n\n--s\n\nü\n--s--\n');
  const planned = await planBody(submission);
  expect(planned.ok).toBe(false);
});

describe('the header section of a part has the limits of the message’s own', () => {
  const embedded = (fields: string, text: string): Buffer =>
    latin1(`From: a@example.com\nContent-Type: message/rfc822\n\nSubject: x\n${fields}\n${text}\n`);
  const fieldsOf = (count: number): string => 'X-A: b\n'.repeat(count);
  // 'Subject: x' and its line end are 12 octets, 'X: ' and its line end 5.
  const octetsOf = (octets: number, line = 990): string => {
    const folds = Math.floor((octets - 17) / line);
    const rest = octets - 17 - folds * line;
    return `X: ${'y'.repeat(rest)}\n${` ${'y'.repeat(line - 3)}\n`.repeat(folds)}`;
  };
  test.each([
    ['1,999 fields', fieldsOf(1998), true],
    ['2,000 fields', fieldsOf(1999), true],
    ['2,001 fields', fieldsOf(2000), false],
    ['262,143 octets', octetsOf(262_143), true],
    ['262,144 octets', octetsOf(262_144), true],
    ['262,145 octets', octetsOf(262_145), false],
  ])('%s', async (_, fields, isRead) => {
    const reasons = await refused(embedded(fields, 'caf\xe9 is a word'));
    if (isRead) expect(reasons).toEqual([]);
    else
      expect(reasons).toEqual([
        expect.stringMatching(
          /^E_VALIDATION_ERROR: Part 1 \(text\/plain\) holds 8-bit data but its header section is over 262144 octets or 2000 fields/,
        ),
      ]);
    // What needs no repair passes as it is, however long its header section.
    const clean = embedded(fields, 'coffee');
    const { body } = await plan(clean);
    expect(body.equals(clean.subarray(clean.indexOf('\r\n\r\n') + 4))).toBe(true);
  });

  test('300,000 folds, and one raw octet', async () => {
    expect(await refused(embedded(`X: y\n${' y\n'.repeat(300_000)}Y: \xe9\n`, 'text'))).toEqual([
      expect.stringContaining('its header section is over 262144 octets'),
    ]);
  });

  test('many folds within the limits are repaired', async () => {
    const raw = embedded(`X: y\n${' y\n'.repeat(60_000)}Y: \xe9t\xe9\n`, 'text');
    const { body } = await plan(raw);
    expect(body.toString('latin1')).toMatch(/\r\nY: =\?utf-8\?B\?w6l0w6k=\?=\r\n/);
    expect(body.length).toBeGreaterThan(240_000);
  });

  test('a field of 5 MB with a raw octet', async () => {
    expect(await refused(embedded(`X: \xe9${' word'.repeat(1_000_000)}\n`, 'text'))).toEqual([
      expect.stringContaining('its header section is over 262144 octets'),
    ]);
  });
});

test('of very many reasons twenty are told, and the rest is not looked at', async () => {
  const part = '--b\nContent-Type: message/partial\n\n\xe9\n';
  const reasons = await refused(
    latin1(`From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n${part.repeat(5000)}--b--\n`),
  );
  expect(reasons).toHaveLength(20);
});

test('8-bit in a preamble and an epilogue, and their long lines', async () => {
  const { body } = await plan(
    latin1(
      `From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n\xe9${'x'.repeat(998)}\n--b\n\ntext\n--b--\n${'y'.repeat(1997)}`,
    ),
  );
  const wanted = `?${'x'.repeat(997)}\nx\n--b\n\ntext\n--b--\n${'y'.repeat(998)}\n${'y'.repeat(998)}\ny\n`;
  expect(body.toString()).toBe(wanted.replaceAll('\n', '\r\n'));
});

test('many small parts give turns to others as one large part does', async () => {
  const turnsOf = async (parts: number): Promise<number> => {
    let turns = 0;
    const part = '--b\nContent-Type: text/plain\nSubject: caf\xe9\n\ncaf\xe9\n';
    const raw = latin1(
      `From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n${part.repeat(parts)}--b--\n`,
    );
    const planned = await planBody(submissionOf(raw), {
      yieldToEventLoop: () => {
        turns += 1;
        return Promise.resolve();
      },
    });
    expect(planned.ok).toBe(true);
    return turns;
  };
  const [few, many] = [await turnsOf(500), await turnsOf(4000)];
  expect(few).toBeGreaterThan(4);
  expect(many).toBeGreaterThan(few * 7);
  expect(many).toBeLessThan(few * 10);
});

test('a large 8-bit message is re-encoded with turns for others', async () => {
  let turns = 0;
  const raw = `From: a@example.com\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n${'Größe mit vielen Wörtern\n'.repeat(60_000)}--b--\n`;
  const planned = await planBody(submissionOf(raw), {
    yieldToEventLoop: () => {
      turns += 1;
      return Promise.resolve();
    },
  });
  expect(planned.ok).toBe(true);
  expect(turns).toBeGreaterThan(8);
});

const oddLines =
  '--a|--a--|--b|--b--|--a \t||text|Grüße|caf\xe9\xff|  |x: y|x: ü|Subject: ü|Content-Transfer-Encoding: 8bit|Content-Transfer-Encoding: binary|Content-Transfer-Encoding: base64|Content-Transfer-Encoding: quoted-printable|Content-Transfer-Encoding: x-odd|Content-Type: text/html|Content-Type: text/plain; charset=us-ascii|Content-Type: application/json|Content-Type: multipart/mixed; boundary=a|Content-Type: multipart/mixed; boundary=b|Content-Type: message/rfc822|Content-Type: message/global|Content-Disposition: attachment; filename=ü.txt|MIME-Version: 1.0';
const oddLine = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(...oddLines.split('|')) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('x'.repeat(998), 'x'.repeat(999), `X: ${'y '.repeat(600)}`, 'ü'.repeat(700)),
  },
);
const oddTop = fc.constantFrom(
  '',
  'Content-Type: text/html\n',
  'Content-Type: multipart/mixed; boundary=a\n',
  'Content-Type: multipart/mixed; boundary=a\nContent-Transfer-Encoding: 8bit\n',
  'Content-Type: message/rfc822\n',
);

test('whatever comes, what is planned is 7-bit with short lines, and planning it again changes nothing', async () => {
  let planned = 0;
  await fc.assert(
    fc.asyncProperty(oddTop, fc.array(oddLine, { maxLength: 30 }), fc.boolean(), async (top, lines, utf8) => {
      const text = `From: a@example.com\n${top}\n${lines.map((line) => `${line}\n`).join('')}`.replace(/\n/g, '\r\n');
      const result = await planBody(submissionOf(Buffer.from(text, utf8 ? 'utf8' : 'latin1')));
      if (!result.ok) {
        expect(result.violations.every(({ code }) => code === 'E_VALIDATION_ERROR')).toBe(true);
        return;
      }
      planned += 1;
      const { body, contentType, transferEncoding } = result.plan;
      for (const line of body.toString('latin1').split('\r\n')) expect(line).toMatch(/^[\x00-\x7f]{0,998}$/);
      const given = (name: string): string | undefined => new RegExp(`^${name}: (.*)$`, 'm').exec(top)?.[1];
      const type = contentType ?? given('Content-Type');
      const encoding = transferEncoding ?? given('Content-Transfer-Encoding');
      const head = `From: a@example.com\r\n${type ? `Content-Type: ${type}\r\n` : ''}${encoding ? `Content-Transfer-Encoding: ${encoding}\r\n` : ''}\r\n`;
      const again = await plan(Buffer.concat([Buffer.from(head), body]));
      expect(again.body.toString('latin1')).toBe(body.toString('latin1'));
      expect(Object.keys(again)).toEqual(['body']);
    }),
    { numRuns: 1500 },
  );
  expect(planned).toBeGreaterThan(1000);
});
