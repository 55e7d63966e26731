import { simpleParser } from 'mailparser';
import MailComposer from 'nodemailer/lib/mail-composer';
import { expect, test } from 'vitest';
import { compose } from '../../../src/pipeline/compose/compose.ts';
import { composeParts } from '../../../src/pipeline/compose/compose-parts.ts';
import { planBody } from '../../../src/pipeline/compose/plan-body.ts';
import type { Attachment, Submission, SubmissionBody } from '../../../src/pipeline/policy/submission.ts';
import { checkedOf, messageUuid, noon, octetsOf, platform, submissionOf } from '../../support/checked.ts';

type Parts = Partial<Extract<SubmissionBody, { kind: 'parts' }>>;

function submission(parts: Parts): Submission {
  const base = submissionOf('From: a@example.com\nSubject: x\n\n', { via: { kind: 'rest', protocol: 'HTTP' } });
  return { ...base, body: { kind: 'parts', attachments: [], ...parts } };
}

async function sent(parts: Parts): Promise<Buffer> {
  const given = submission(parts);
  const planned = await planBody(given);
  if (!planned.ok) throw new Error(JSON.stringify(planned.violations));
  const context = { id: messageUuid, nowMs: noon, hostname: 'mx.platform.example', platform };
  const octets = octetsOf(compose(checkedOf(given), planned.plan, context));
  for (const line of octets.toString('latin1').split('\r\n')) expect(line).toMatch(/^[\x00-\x7f]{0,998}$/);
  return octets;
}

/** The types of the parts, in the order of the text. */
const types = (octets: Buffer): string[] =>
  [...octets.toString().matchAll(/^Content-Type: ([a-z]+\/[a-z0-9-]+)/gim)].map((match) => match[1] ?? '');

const attachment = (given: Partial<Attachment> = {}): Attachment => ({
  content: Buffer.from('%PDF-1.4\n\xff\n', 'latin1'),
  filename: 'plain.pdf',
  contentType: 'application/pdf',
  disposition: 'attachment',
  ...given,
});
const logo = attachment({ contentType: 'image/png', filename: 'logo.png', disposition: 'inline', contentId: 'logo@x' });

test.each<[string, Parts, string[]]>([
  ['text', { text: 'Hi' }, ['text/plain']],
  ['html', { html: '<p>Hi' }, ['text/html']],
  ['both', { text: 'Hi', html: '<p>Hi' }, ['multipart/alternative', 'text/plain', 'text/html']],
  [
    'text and a file',
    { text: 'Hi', attachments: [attachment()] },
    ['multipart/mixed', 'text/plain', 'application/pdf'],
  ],
  ['html and an image', { html: '<p>', attachments: [logo] }, ['multipart/related', 'text/html', 'image/png']],
  [
    'html and an inline image without a Content-ID',
    { html: '<p>', attachments: [attachment({ contentType: 'image/png', disposition: 'inline' })] },
    ['multipart/related', 'text/html', 'image/png'],
  ],
  ['an empty text and an empty html', { text: '', html: '' }, ['multipart/alternative', 'text/plain', 'text/html']],
  ['text and an inline image', { text: 'Hi', attachments: [logo] }, ['multipart/mixed', 'text/plain', 'image/png']],
  [
    'everything',
    { text: 'Hi', html: '<p>', attachments: [attachment(), logo] },
    [
      'multipart/mixed',
      'multipart/alternative',
      'text/plain',
      'multipart/related',
      'text/html',
      'image/png',
      'application/pdf',
    ],
  ],
])('%s', async (_, parts, wanted) => {
  expect(types(await sent(parts))).toEqual(wanted);
});

test('what is read back is what was given', async () => {
  const text = `Grüße,\nein langer Text ${'wort '.repeat(300)}\n.\nFrom me\n`;
  const html = `<p>日本語</p>${'x'.repeat(3000)}`;
  const files = ['plain.pdf', 'Résumé 2025.pdf', 'a "quoted"; name.pdf', `${'長い'.repeat(60)}.pdf`];
  const octets = await sent({ text, html, attachments: [...files.map((filename) => attachment({ filename })), logo] });
  const parsed = await simpleParser(octets, { skipImageLinks: true });
  expect(parsed.text).toBe(text);
  expect(parsed.html).toBe(html);
  const read = parsed.attachments.filter(({ related }) => !related);
  expect(read.map(({ filename }) => filename)).toEqual(files);
  for (const { content } of read) expect(content).toEqual(attachment().content);
  expect(parsed.attachments.find(({ related }) => related)).toMatchObject({
    cid: 'logo@x',
    contentDisposition: 'inline',
  });
});

test('the boundary is this message’s own', async () => {
  const octets = await sent({ text: 'Hi', html: '<p>Hi' });
  expect(octets.toString()).toMatch(/\r\nContent-Type: multipart\/alternative; boundary="[^"]*session1[^"]*"\r\n/);
});

test('an attached message stays a message, in 7-bit', async () => {
  const content = Buffer.from('From: Jörg <j@example.net>\nSubject: Grüße\n\nGrüße an alle hier\n');
  const octets = await sent({
    text: 'Hi',
    attachments: [attachment({ contentType: 'message/rfc822', filename: 'a.eml', content })],
  });
  const parsed = await simpleParser(octets);
  const inner = await simpleParser(parsed.attachments[0]?.content ?? Buffer.alloc(0));
  expect([inner.subject, inner.text]).toEqual(['Grüße', 'Grüße an alle hier\n']);
});

test('a bare CR or LF in text or in an attached message becomes CRLF (D11)', async () => {
  const message = Buffer.from('From: a@b.example\nSubject: x\r\n\r\none\rtwo\r\n');
  const attachments = [attachment({ contentType: 'message/rfc822', content: message })];
  const octets = await sent({ text: 'a\rb\nc', html: '<p>a\rb\r\nc', attachments });
  expect(octets.toString('latin1')).not.toMatch(/\r(?!\n)|(?<!\r)\n/);
  const parsed = await simpleParser(octets);
  expect(parsed.text).toBe('a\nb\nc');
  expect(parsed.attachments[0]?.content.toString()).toContain('Subject: x\r\n\r\none\r\ntwo');
});

test('names and types cannot carry header lines', async () => {
  const octets = await sent({
    text: 'Hi',
    attachments: [attachment({ filename: 'a\r\nBcc: evil@example.org\r\n.pdf' })],
  });
  expect(octets.toString()).not.toMatch(/^Bcc/m);
});

test('a media type with a very long parameter leaves in lines of at most 998 octets', async () => {
  const contentType = `a/b; ${'n'.repeat(985)}="\\""`;
  const octets = await sent({ text: 'Hi', attachments: [attachment({ contentType })] });
  expect(types(octets)).toEqual(['multipart/mixed', 'text/plain', 'a/b']);
});

test('what is no attachment is refused with its pointer', async () => {
  const attachments = [
    attachment({ contentType: 'application/pdf\r\nBcc: evil@example.org' }),
    attachment({ contentType: 'pdf' }),
    attachment({ contentType: 'multipart/mixed; boundary=x' }),
    attachment({ contentId: '<a b>' }),
    attachment({ contentType: 'message/rfc822', content: Buffer.from('From: a@b.example\r\n\r\n\0\r\n') }),
  ];
  const planned = await planBody(submission({ text: 'Hi', attachments }));
  expect(!planned.ok && planned.violations.map(({ code, pointer }) => [code, pointer])).toEqual([
    ['E_VALIDATION_ERROR', '/attachments/0/type'],
    ['E_VALIDATION_ERROR', '/attachments/1/type'],
    ['E_VALIDATION_ERROR', '/attachments/2/type'],
    ['E_VALIDATION_ERROR', '/attachments/3/content_id'],
    ['E_VALIDATION_ERROR', '/attachments/4/content'],
  ]);
});

test.each([65_535, 65_536, 65_537, 65_538, 65_539, 57 * 1200, 300_000])(
  'large attachments of %i octets and more keep each octet, inline and attached ones mixed',
  async (size) => {
    const content = (seed: number): Buffer =>
      Buffer.from(Array.from({ length: size + seed }, (_, at) => (at * seed) % 251));
    const attachments = [
      attachment({ content: content(3), filename: 'a' }),
      { ...logo, content: content(5), filename: 'b' },
      attachment({ content: Buffer.from('small'), filename: 'c' }),
      attachment({ content: content(7), filename: 'd' }),
      attachment({ content: content(0), filename: 'e' }),
    ];
    const octets = await sent({ text: 'Hi', html: '<img src="cid:logo@x">', attachments });
    for (const line of octets.toString('latin1').split('\r\n')) expect(line.length).toBeLessThanOrEqual(78);
    const read = await simpleParser(octets, { keepCidLinks: true });
    expect(read.attachments.map(({ filename }) => filename)).toEqual(['b', 'a', 'c', 'd', 'e']);
    for (const { filename, content: found } of read.attachments) {
      expect(found.equals(attachments.find((given) => given.filename === filename)?.content ?? found.subarray(1))).toBe(
        true,
      );
    }
  },
);

const textKinds: Readonly<Record<string, { readonly line: string; readonly encoding: string }>> = {
  'short lines of ASCII': { line: 'Ten words of text stand in this line, no more.\n', encoding: '7bit' },
  'lines of 76 octets': { line: `${'x'.repeat(76)}\n`, encoding: '7bit' },
  'lines of 77 octets': { line: `${'x'.repeat(77)}\n`, encoding: 'quoted-printable' },
  'some letters outside ASCII': {
    line: 'Eine Größe mit sehr vielen Worten, fast alle ASCII \n',
    encoding: 'quoted-printable',
  },
  'letters outside ASCII alone': { line: '日本語の本文です\n', encoding: 'base64' },
  'bare CR, NUL and other controls': { line: 'some words\rand\0some more of them\x07\n', encoding: 'quoted-printable' },
  'a lone surrogate': { line: 'some words and \ud800 and some more\n', encoding: 'quoted-printable' },
};

test.each(Object.entries(textKinds))(
  'a large text, %s, is encoded as a small one is',
  async (_, { line, encoding }) => {
    const encodingOf = (octets: Buffer): string | undefined =>
      /^Content-Transfer-Encoding: (.*)\r$/m.exec(octets.toString('latin1'))?.[1];
    const small = line.repeat(3);
    const large = line.repeat(Math.ceil(40_000 / line.length));
    for (const text of [small, large]) {
      const octets = await sent({ text, attachments: [] });
      expect(encodingOf(octets)).toBe(encoding);
      const parsed = await simpleParser(octets);
      expect(parsed.text).toBe(text.toWellFormed().replace(/\r\n?/g, '\n'));
    }
  },
);

test('large texts, files and messages side by side keep each octet', async () => {
  const text = 'Größe und mehr\n'.repeat(4000);
  const html = `<p>${'日本語'.repeat(9000)}</p>\n`;
  const message = Buffer.from(`From: a@b.example\r\nSubject: x\r\n\r\n${'inner text\r\n'.repeat(3000)}`);
  const file = Buffer.from(Array.from({ length: 90_001 }, (_, at) => (at * 7) % 256));
  const octets = await sent({
    text,
    html,
    attachments: [
      attachment({ content: file }),
      attachment({ contentType: 'message/rfc822', filename: 'a.eml', content: message }),
    ],
  });
  const parsed = await simpleParser(octets);
  expect([parsed.text, parsed.html]).toEqual([text, html]);
  expect(parsed.attachments.map(({ content }) => content.equals(file) || content.equals(message))).toEqual([
    true,
    true,
  ]);
});

test.each([
  ['text', { text: 'Größe\n'.repeat(100_000) }],
  ['html', { html: 'x'.repeat(600_000) }],
  ['a file', { attachments: [attachment({ content: Buffer.alloc(600_000) })] }],
  ['a message', { attachments: [attachment({ contentType: 'message/rfc822', content: Buffer.alloc(600_000, 'x') })] }],
])('a large part gives turns to others: %s', async (_, parts) => {
  let turns = 0;
  const planned = await planBody(submission(parts), {
    yieldToEventLoop: () => {
      turns += 1;
      return Promise.resolve();
    },
  });
  expect(planned.ok).toBe(true);
  expect(turns).toBeGreaterThan(8);
});

const composedAlike: readonly Parts[] = [
  { text: 'Hi', html: '<p>Hi' },
  { text: 'Hi\n', attachments: [attachment({ filename: 'a "quoted"; name.pdf' }), logo] },
  { html: '<p>', attachments: [logo, attachment({ contentType: 'text/plain; charset=latin1; name=other' })] },
  {
    text: 'Hi',
    html: '<p>',
    attachments: [
      attachment({ contentId: '<file@x>' }),
      logo,
      attachment({ filename: `${'長い'.repeat(60)}.pdf` }),
      attachment({ filename: 'Résumé 2025.pdf', content: Buffer.alloc(20_000, 7) }),
    ],
  },
];

test.each(composedAlike)('nodemailer composes the same octets: case %#', async (parts) => {
  const boundary = '0123456789abcdef';
  const { text, html, attachments = [] } = parts;
  const composer = new MailComposer({
    alternatives: [
      ...(text === undefined ? [] : [{ content: text, contentType: 'text/plain; charset=utf-8' }]),
      ...(html === undefined ? [] : [{ content: html, contentType: 'text/html; charset=utf-8' }]),
    ],
    attachments: attachments.map(({ content, contentType, disposition, filename, contentId }) => ({
      content,
      contentType,
      contentDisposition: disposition,
      filename: filename ?? false,
      ...(contentId === undefined ? {} : { cid: contentId }),
      ...(contentId?.startsWith('<') ? { cid: undefined, headers: { 'Content-ID': contentId } } : {}),
    })),
    baseBoundary: boundary,
    newline: 'win',
  });
  const octets = await composer.compile().build();
  const { body } = await composeParts({ kind: 'parts', attachments: [], ...parts }, boundary);
  expect(body.toString('latin1')).toBe(octets.toString('latin1', octets.indexOf('\r\n\r\n') + 4));
});
