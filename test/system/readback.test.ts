// What REST is given is what a reader is shown: messages go through a real Postern, and mailparser and Python's email
// package read the captured files back to the same texts, attachments, names and addresses, in any script.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type AddressObject, type ParsedMail, simpleParser } from 'mailparser';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createEmailBinding, type EmailAttachment, type EmailBinding } from '../../packages/binding/src/index.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import fc from '../support/properties.ts';
import { requirePrograms } from './programs.ts';

interface Mailbox {
  readonly name: string;
  readonly address: string;
}

/** A message as it is given to REST. */
interface Given {
  readonly from: Mailbox;
  readonly to: readonly Mailbox[];
  readonly cc: readonly Mailbox[];
  readonly replyTo: readonly Mailbox[];
  readonly subject: string;
  readonly custom: string;
  readonly text: string;
  readonly html: string | undefined;
  readonly attachments: readonly (EmailAttachment & { readonly content: Buffer; readonly filename: string })[];
}

/** What a reader shows of it, in one form for both readers. */
interface Shown {
  readonly subject: string;
  readonly from: readonly Mailbox[];
  readonly to: readonly Mailbox[];
  readonly cc: readonly Mailbox[];
  readonly replyTo: readonly Mailbox[];
  readonly custom: string;
  readonly text: string;
  readonly html: string | undefined;
  /** Sorted by their names. */
  readonly attachments: readonly {
    readonly filename: string | undefined;
    readonly type: string | undefined;
    readonly contentId: string | undefined;
    readonly content: string;
  }[];
}

const scripts = [
  '\u65e5\u672c\u8a9e\u306e\u30e1\u30fc\u30eb', // Japanese
  '\u9af8\ud842\udfb7\u7530', // with a character beyond the basic plane
  '\ud83d\udc69\u200d\ud83d\udcbb\ud83c\uddef\ud83c\uddf5\ud83d\udc4d\ud83c\udffd', // emoji of several characters
  '\u05e9\u05dc\u05d5\u05dd', // Hebrew
  '\u0645\u0631\u062d\u0628\u0627', // Arabic
  '\u202b(abc)\u202c', // right-to-left embedding
  'cafe\u0301 A\u030a\u0323', // combining characters, not composed
  '\u0915\u094d\u0937\u093f', // Devanagari conjunct
  '\ud55c\uad6d\uc5b4',
  '\u041f\u0440\u0438\u0432\u0435\u0442',
  'na\u00efve \u2014 \u201cquoted\u201d',
  'Gr\u00fc\u00dfe',
];
const plain = [
  'Smith, Ann',
  'O\u2019Hara "The Boss"',
  'a\\b',
  '(not a comment)',
  'x@y.example',
  '<angle>',
  'a;b:c',
  '50%',
  '=?',
  '?=',
  '_',
  'word',
];

const piece = fc.oneof(
  fc.constantFrom(...scripts),
  fc.constantFrom(...plain),
  fc
    .string({ unit: 'grapheme-composite', minLength: 1, maxLength: 12 })
    .filter((text) => /^[^\p{Cc}\p{Zs}\u2028\u2029]+$/u.test(text)),
);
/** Words with one blank between; text that looks like an encoded-word is read as one by every reader (D13). */
const line = fc
  .array(piece, { minLength: 1, maxLength: 8 })
  .map((pieces) => pieces.join(' '))
  .filter((text) => text.isWellFormed() && !/=\?[^?]*\?[bq]\?/i.test(text));
const paragraph = fc.oneof(
  line,
  fc.constantFrom(
    '',
    '.',
    '..leading dots',
    'From the start',
    '> quoted',
    'trailing blank ',
    '\ttab\t',
    '=3D',
    '-- ',
    'x'.repeat(1500),
    `${scripts[0]?.repeat(200)}`,
  ),
);
const text = fc.array(paragraph, { minLength: 1, maxLength: 8 }).map((lines) => `${lines.join('\n')}\n`);

const asciiAddress = fc.constantFrom(
  'a@example.net',
  "o'neil+tag@example.org",
  'first.last@sub.example.net',
  'UPPER@example.net',
  '"two words"@example.net',
);
const mailbox: fc.Arbitrary<Mailbox> = fc.record({ name: fc.oneof(line, fc.constant('')), address: asciiAddress });
const attachment = fc.record({
  content: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  filename: line.map((name) => Array.from(name).slice(0, 60).join('').trim()),
  // Not application/octet-stream: mailparser then shows a type that it guesses from the name.
  type: fc.constantFrom('application/pdf', 'image/png', 'application/x-of-our-own'),
});

const given: fc.Arbitrary<Given> = fc.record({
  from: fc.record({ name: fc.oneof(line, fc.constant('')), address: fc.constant('app@example.com') }),
  to: fc.array(mailbox, { minLength: 1, maxLength: 4 }),
  cc: fc.array(mailbox, { maxLength: 2 }),
  replyTo: fc.array(mailbox, { maxLength: 2 }),
  subject: line,
  custom: line,
  text,
  html: fc.option(
    text.map((body) => `<p>${body}</p>`),
    { nil: undefined },
  ),
  attachments: fc.uniqueArray(attachment, { maxLength: 3, selector: ({ filename }) => filename }),
});

let postern: PosternProcess;
let binding: EmailBinding;
beforeAll(async () => {
  requirePrograms('python3');
  postern = await startPostern();
  binding = createEmailBinding({
    endpoint: `http://127.0.0.1:${postern.ports['http']}`,
    token: testToken,
    account: 'dev',
  });
});
afterAll(() => postern?.cleanUp());

/** Sends messages and gives the captured files' paths in their order. */
async function captured(messages: readonly Given[]): Promise<readonly string[]> {
  const ids: string[] = [];
  for (const { from, to, cc, replyTo, subject, custom, text, html, attachments } of messages) {
    const { messageId } = await binding.send({
      from,
      to,
      ...(cc.length > 0 ? { cc } : {}),
      ...(replyTo.length > 0 ? { replyTo } : {}),
      subject,
      text,
      html,
      attachments,
      headers: { 'X-Custom': custom },
    });
    ids.push(messageId);
  }
  const folder = join(postern.dataDir, 'capture/new');
  const found = new Map<string, string>();
  const seen = new Set<string>();
  return await postern.until(() => {
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      if (seen.has(name)) continue;
      seen.add(name);
      const id = /\r\nMessage-ID: <(.+)>\r\n/.exec(readFileSync(join(folder, name), 'latin1'))?.[1];
      if (id !== undefined) found.set(id, join(folder, name));
    }
    const paths = ids.flatMap((id) => found.get(id) ?? []);
    return paths.length === ids.length ? paths : undefined;
  });
}

function boxes(field: AddressObject | AddressObject[] | undefined): readonly Mailbox[] {
  const lists = field === undefined ? [] : Array.isArray(field) ? field : [field];
  return lists.flatMap(({ value }) => value.map(({ name, address = '' }) => ({ name, address })));
}

/** Line ends as JavaScript has them. */
function withLf(text: string): string {
  return text.replaceAll('\r\n', '\n');
}

function byFilename<T extends { readonly filename: string | undefined }>(list: readonly T[]): readonly T[] {
  return [...list].sort((a, b) => ((a.filename ?? '') < (b.filename ?? '') ? -1 : 1));
}

/** mailparser leaves the quotation marks of a local part out. */
function unquoted(list: readonly Mailbox[]): readonly Mailbox[] {
  return list.map(({ name, address }) => ({ name, address: address.replaceAll('"', '') }));
}

/** Custom headers are left out: mailparser gives them as they stand, encoded. */
async function byMailparser(path: string): Promise<Omit<Shown, 'custom'>> {
  const mail: ParsedMail = await simpleParser(readFileSync(path), { skipTextToHtml: true, skipImageLinks: true });
  return {
    subject: mail.subject ?? '',
    from: boxes(mail.from),
    to: unquoted(boxes(mail.to)),
    cc: unquoted(boxes(mail.cc)),
    replyTo: unquoted(boxes(mail.replyTo)),
    text: withLf(mail.text ?? ''),
    html: typeof mail.html === 'string' ? withLf(mail.html) : undefined,
    attachments: byFilename(
      mail.attachments.map(({ filename, contentType, cid, content }) => ({
        filename,
        type: contentType,
        contentId: cid,
        content: content.toString('hex'),
      })),
    ),
  };
}

interface PythonView {
  readonly subject: string;
  readonly from: readonly [string, string][];
  readonly to: readonly [string, string][];
  readonly cc: readonly [string, string][];
  readonly 'reply-to': readonly [string, string][];
  readonly custom: string;
  readonly text: string;
  readonly html: string | null;
  readonly attachments: readonly {
    readonly filename: string | null;
    readonly type: string;
    readonly contentId: string | null;
    readonly content: string;
  }[];
  readonly defects: readonly string[];
}

function byPython(paths: readonly string[]): readonly (Shown & { readonly defects: readonly string[] })[] {
  const script = join(import.meta.dirname, 'read-messages.py');
  const output = execFileSync('python3', [script, ...paths], { encoding: 'utf8', maxBuffer: 1 << 28 });
  const named = (list: readonly [string, string][]): readonly Mailbox[] =>
    list.map(([name, address]) => ({ name, address }));
  return output
    .trimEnd()
    .split('\n')
    .map((line) => {
      const view = JSON.parse(line) as PythonView;
      return {
        subject: view.subject,
        from: named(view.from),
        to: unquoted(named(view.to)),
        cc: unquoted(named(view.cc)),
        replyTo: unquoted(named(view['reply-to'])),
        custom: view.custom,
        text: withLf(view.text),
        html: view.html === null ? undefined : withLf(view.html),
        attachments: byFilename(
          view.attachments.map(({ filename, type, contentId, content }) => ({
            filename: filename ?? undefined,
            type,
            contentId: contentId?.replace(/^<|>$/g, ''),
            content,
          })),
        ),
        defects: view.defects,
      };
    });
}

function expected({ from, to, cc, replyTo, subject, custom, text, html, attachments }: Given): Shown {
  return {
    subject,
    from: [from],
    to: unquoted(to),
    cc: unquoted(cc),
    replyTo: unquoted(replyTo),
    custom,
    text,
    html,
    attachments: byFilename(
      attachments.map(({ filename, type, contentId, content }) => ({
        filename,
        type: type ?? undefined,
        contentId: contentId ?? undefined,
        content: content.toString('hex'),
      })),
    ),
  };
}

/** toEqual passes over what is undefined. */
function withoutCustom(shown: Shown): object {
  return { ...shown, custom: undefined };
}

test('a message in many scripts', async () => {
  const all = [...scripts, ...plain].join(' ');
  const boxOf = (name: string, index: number): Mailbox => ({ name, address: `a${index}@example.net` });
  const message: Given = {
    from: { name: scripts[0] ?? '', address: 'app@example.com' },
    to: [...scripts, ...plain].map(boxOf),
    cc: [{ name: all, address: 'all@example.net' }],
    replyTo: [{ name: '', address: 'bare@example.net' }],
    subject: all,
    custom: all,
    text: `${[...scripts, ...plain].join('\n')}\n`,
    html: `<p>${scripts.join('</p>\n<p>')}</p>\n`,
    attachments: scripts.map((name, index) => ({
      filename: `${name}.pdf`,
      type: 'application/pdf',
      content: Buffer.from([0, 255, index]),
    })),
  };
  const paths = await captured([message]);
  expect(await byMailparser(paths[0] ?? '')).toEqual(withoutCustom(expected(message)));
  expect(byPython(paths)).toEqual([{ ...expected(message), defects: [] }]);
});

test('an image in the HTML', async () => {
  const { messageId } = await binding.send({
    from: 'app@example.com',
    to: 'a@example.net',
    subject: 'Inline',
    text: 'See the logo.\n',
    html: '<p><img src="cid:logo@example.com"> \u65e5\u672c</p>\n',
    attachments: [
      {
        content: Buffer.from('PNG'),
        filename: '\u30ed\u30b4.png',
        type: 'image/png',
        disposition: 'inline',
        contentId: 'logo@example.com',
      },
      { content: Buffer.from('PDF'), filename: 'terms.pdf', type: 'application/pdf' },
    ],
  });
  const path = await postern.until(() => {
    const folder = join(postern.dataDir, 'capture/new');
    return readdirSync(folder)
      .map((name) => join(folder, name))
      .find((file) => readFileSync(file, 'latin1').includes(`Message-ID: <${messageId}>`));
  });
  const wanted = {
    text: 'See the logo.\n',
    html: '<p><img src="cid:logo@example.com"> \u65e5\u672c</p>\n',
    attachments: byFilename([
      {
        filename: '\u30ed\u30b4.png',
        type: 'image/png',
        contentId: 'logo@example.com',
        content: Buffer.from('PNG').toString('hex'),
      },
      {
        filename: 'terms.pdf',
        type: 'application/pdf',
        contentId: undefined,
        content: Buffer.from('PDF').toString('hex'),
      },
    ]),
  };
  expect(await byMailparser(path)).toMatchObject(wanted);
  expect(byPython([path])).toMatchObject([{ ...wanted, defects: [] }]);
});

test('generated messages', { timeout: 300_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(given, { minLength: 10, maxLength: 10 }), async (messages) => {
      const paths = await captured(messages);
      const seen = await Promise.all(paths.map(byMailparser));
      expect(seen).toEqual(messages.map((message) => withoutCustom(expected(message))));
      expect(byPython(paths)).toEqual(messages.map((message) => ({ ...expected(message), defects: [] })));
    }),
    { numRuns: 20, endOnFailure: true },
  );
});
