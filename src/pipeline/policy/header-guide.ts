// What is told of a header, at /headers and in docs/headers.md: its rule, examples, who sends it, the cure.

import { findHeader, type HeaderRow, headerCatalogue, type OverSmtp } from './header-catalogue.ts';
import { stripSetNames, stripSets } from './strip-sets.ts';
import { asciiLower, headerLimits, nameFault } from './value-rules.ts';

interface HeaderExamples {
  /** Each passes. */
  readonly good: readonly string[];
  /** Each is refused. Of a header that is no custom header in a message, each is refused in the `headers` of a request. */
  readonly bad: readonly string[];
  /** Lines that must stand beside the good ones. */
  readonly beside?: string;
}

const aDate = 'Mon, 02 Mar 2026 10:20:30 +0000';
const link = { good: ['<https://lists.example.com/news>'], bad: [''] } as const;
const words = { good: ['Spring sale'], bad: ['', '=?utf-8?q?two=0Alines?='] } as const;

const headerExamples: Readonly<Record<keyof typeof headerCatalogue, HeaderExamples>> = {
  date: { good: [aDate], bad: [aDate] },
  'message-id': { good: ['<1@app.example.com>'], bad: ['<1@app.example.com>'] },
  'mime-version': { good: ['1.0'], bad: ['1.0'] },
  'content-type': { good: ['text/plain; charset=utf-8'], bad: ['text/plain; charset=utf-8'] },
  'content-transfer-encoding': { good: ['quoted-printable'], bad: ['quoted-printable'] },
  'dkim-signature': { good: [], bad: ['v=1; a=rsa-sha256; d=example.com; s=s1; bh=...; b=...'] },
  'return-path': { good: [], bad: ['<bounces@example.com>'] },
  received: { good: [], bad: [`from app by mail.example.com; ${aDate}`] },
  'feedback-id': { good: [], bad: ['spring:shop:example'] },
  'arc-*': { good: [], bad: ['i=1; cv=none'] },
  'tls-required': { good: [], bad: ['No'] },
  'tls-report-domain': { good: [], bad: ['example.com'] },
  'tls-report-submitter': { good: [], bad: ['example.com'] },
  'cfbl-address': { good: [], bad: ['fbl@example.com; report=arf'] },
  'cfbl-feedback-id': { good: [], bad: ['4711'] },
  'content-disposition': { good: ['inline'], bad: ['inline'] },
  'content-id': { good: ['<logo@example.com>'], bad: ['<logo@example.com>'] },
  'content-description': { good: ['The monthly report'], bad: ['The monthly report'] },
  'content-location': { good: ['https://example.com/report.html'], bad: ['https://example.com/report.html'] },
  from: { good: ['Shop <shop@example.com>'], bad: ['shop@example.com'] },
  to: { good: ['Ana <ana@example.net>'], bad: ['ana@example.net'] },
  cc: { good: ['ana@example.net, ben@example.net'], bad: ['ana@example.net'] },
  bcc: { good: ['ana@example.net'], bad: ['ana@example.net'] },
  subject: { good: ['Your order', '=?utf-8?q?Gr=C3=BC=C3=9Fe?='], bad: ['Your order'] },
  'reply-to': { good: ['help@example.com'], bad: ['help@example.com'] },
  'in-reply-to': { good: ['<1@app.example.com>'], bad: [''] },
  references: { good: ['<1@app.example.com> <2@app.example.com>'], bad: [''] },
  'thread-index': { good: ['AdqZ0nq1k2yXo3aTQ0C5Zf0mJ1gU2Q=='], bad: [''] },
  'thread-topic': words,
  'list-unsubscribe': {
    good: ['<https://example.com/leave?id=4711>', '<mailto:leave@example.com>, <https://example.com/leave?id=4711>'],
    bad: ['<http://example.com/leave>', 'https://example.com/leave', '<https://example.com/leave?id={{id}}>'],
  },
  'list-unsubscribe-post': {
    good: ['List-Unsubscribe=One-Click'],
    bad: ['One-Click'],
    beside: 'List-Unsubscribe: <https://example.com/leave?id=4711>',
  },
  'list-id': { good: ['News of the shop <news.example.com>'], bad: [''] },
  'list-archive': link,
  'list-help': link,
  'list-owner': { good: ['<mailto:owner@example.com>'], bad: [''] },
  'list-post': { good: ['<mailto:news@example.com>', 'NO'], bad: [''] },
  'list-subscribe': link,
  precedence: { good: ['bulk', 'List'], bad: ['first-class', 'urgent'] },
  'auto-submitted': { good: ['auto-generated', 'auto-replied (vacation)'], bad: ['no', 'yes'] },
  'content-language': { good: ['de'], bad: [''] },
  keywords: { good: ['order, invoice'], bad: [''] },
  comments: words,
  importance: { good: ['high', 'Normal'], bad: ['1', 'urgent'] },
  priority: { good: ['urgent', 'non-urgent'], bad: ['high', '1'] },
  sensitivity: { good: ['personal', 'company-confidential'], bad: ['secret'] },
  organization: { good: ['Example Ltd'], bad: [''] },
  'require-recipient-valid-since': { good: [`ana@example.net; ${aDate}`], bad: [''] },
  expires: { good: [aDate], bad: [''] },
  'reply-by': { good: [aDate], bad: [''] },
  'archived-at': { good: ['<https://lists.example.com/news/4711>'], bad: [''] },
  'x-*': { good: ['4711'], bad: [''] },
};

/** Who sends a header that is often refused, and what helps: a row of the table in docs/mailers.md. Markdown. */
interface SenderNote {
  readonly names: readonly string[];
  readonly who: string;
  /** What to change in the mailer; '' where nothing can be. */
  readonly mailer: string;
  readonly credential: string;
}

/** The rows that are about a header. */
export const senderNotes: readonly SenderNote[] = [
  {
    names: ['User-Agent'],
    who: 's-nail, GNU mailutils, Gnus, Thunderbird; mutt when told to',
    mailer: 'switch it off, see below',
    credential: '`strip: [User-Agent]`',
  },
  {
    names: ['Received'],
    who: 'every mail server, and the small `sendmail` replacements that queue',
    mailer: 'Exim, Postfix: remove it on the way out, see below',
    credential: '`trustedHop: true` (keeps it, and detects loops)',
  },
  {
    names: ['Sender'],
    who: 'libraries when given a sender besides From',
    mailer: 'leave it out: set From',
    credential: '`strip: [Sender]`',
  },
  {
    names: ['Disposition-Notification-To', 'Return-Receipt-To'],
    who: '"ask for a receipt" in desktop programs; PHPMailer\'s `ConfirmReadingTo`',
    mailer: 'switch it off',
    credential: '`strip` names them',
  },
  {
    names: ['Content-Length'],
    who: "MIME::Lite with `Encoding => 'binary'`",
    mailer: 'another encoding: the default is `8bit` or `base64`',
    credential: '`strip: [Content-Length]`',
  },
  {
    names: ['X-Cron-Env'],
    who: 'cron, one for each variable',
    mailer: '',
    credential: '`strip: [X-Cron-Env]`',
  },
  {
    names: ['Autocrypt'],
    who: 'Thunderbird with an OpenPGP key',
    mailer: 'switch it off',
    credential: '`strip: [Autocrypt]`',
  },
  {
    names: ['Mail-Followup-To'],
    who: 'mutt, NeoMutt writing to a list that `lists` or `subscribe` names',
    mailer: '`set followup_to=no`',
    credential: '`strip: [Mail-Followup-To]`',
  },
  {
    names: ['List-Unsubscribe'],
    who: 'nodemailer given a flat array of URIs',
    mailer: 'a nested array: `[[...]]`, see below',
    credential: 'nothing: a reader would take one of the two',
  },
  {
    names: ['Resent-*'],
    who: 'nmh `dist`, the bounce command of mutt',
    mailer: 'forward it instead',
    credential: '`strip: [Resent-*]`',
  },
];

/** Everything that is told of a header. Texts are plain but for code, which stands between backticks. */
export interface HeaderGuide {
  /** In its canonical casing; a row that stands for a prefix has a star at its end. */
  readonly name: string;
  readonly rule: string;
  /** What it is; absent for a name that the catalogue does not have. */
  readonly about?: string;
  readonly reference?: { readonly text: string; readonly url?: string };
  readonly good: readonly string[];
  readonly bad: readonly string[];
  readonly senders: readonly string[];
  readonly cure: readonly string[];
}

const overSmtpRules = {
  lifted:
    'A message may have it once, and it becomes one of the own fields of the message; a request has a field for it.',
  mime: 'A message may bring it once, to describe its body; in the `headers` of a request it is refused.',
  replaced:
    'A message may bring one, which is left out, since the platform writes its own; in the `headers` of a request it is refused.',
  trace: 'The platform alone writes it; a trusted hop may bring its own.',
  refused: 'The platform alone writes it, and a message that brings one is refused.',
} as const satisfies Record<Exclude<OverSmtp, 'custom'>, string>;

function valueRule({ value, needs }: HeaderRow): string {
  const beside = needs ? `, beside a ${needs.name} with ${needs.with}` : '';
  if (value.kind === 'one-of')
    return `Its value must be one of ${value.values.join(', ')}, in any case${value.comments ? '; comments may stand beside it' : ''}`;
  if (value.kind === 'exactly') return `Its value must be exactly \`${value.value}\`${beside}`;
  if (value.kind === 'unsubscribe-uris')
    return 'Its value must be one or more `<https://...>` and `<mailto:...>`, separated by commas';
  return 'Its value is free';
}

function ruleOf(row: HeaderRow | undefined, name: string): string {
  if (row === undefined)
    return `${name} is on no list and does not begin with X-, so that a message that brings it is refused.`;
  if (row.overSmtp !== 'custom') return overSmtpRules[row.overSmtp];
  return `A message may have it once. ${valueRule(row)}, and has from 1 to ${headerLimits.valueBytes.toLocaleString('en')} bytes.`;
}

/** Whether a name is that of a list, of which one with a star at its end is the beginning of names. */
function isLike(name: string, pattern: string): boolean {
  const [lower, wanted] = [asciiLower(name), asciiLower(pattern)];
  return wanted.endsWith('*') ? lower.startsWith(wanted.slice(0, -1)) : lower === wanted;
}

function noteOf(name: string): SenderNote | undefined {
  return senderNotes.find(({ names }) => names.some((pattern) => isLike(name, pattern)));
}

function sendersOf(name: string): string[] {
  const note = noteOf(name);
  const ofSets = stripSetNames.flatMap((set) =>
    stripSets[set]
      .filter(({ pattern }) => isLike(name, pattern))
      .map(({ why }) => `Systems of the set \`${set}\`: ${why}.`),
  );
  return [...(note ? [`${note.who}.`] : []), ...ofSets];
}

function cureOfValue({ name, value }: HeaderRow): string {
  if (value.kind === 'free')
    return `Give it once and with a value, or have the operator set \`stripEmpty: true\` or \`keepFirst: [${name}]\` for the credential.`;
  return `Send a value that is allowed, or have the operator set \`stripInvalid: [${name}]\` for the credential.`;
}

function generalCure(row: HeaderRow | undefined, name: string): string {
  const strip = `have the operator set \`strip: [${name}]\` for the credential`;
  if (row === undefined) return `Leave it out, rename it to \`X-${name}\`, or ${strip}.`;
  if (row.overSmtp === 'custom') return cureOfValue(row);
  if (row.apiField !== undefined) return `In a request, use the field \`${row.apiField}\`.`;
  if (row.overSmtp === 'mime' || row.overSmtp === 'replaced')
    return 'In a request, leave it out: the platform writes it.';
  return `Leave it out, or ${strip}.`;
}

function cureOf(row: HeaderRow | undefined, name: string): string[] {
  const note = noteOf(name);
  const own = note?.mailer ? [`In the mailer: ${note.mailer.replace(/, see below$/, '')}.`] : [];
  return [...own, generalCure(row, name), ...(note ? [`For the credential: ${note.credential}.`] : [])];
}

/** The lines of a message, or the member of a request, that a value stands in. */
function written(row: HeaderRow, value: string, isRequest: boolean): string {
  const name = row.name.replace('*', row.class === 'extension' ? 'Order' : 'Seal');
  if (isRequest) return `"headers": { ${JSON.stringify(name)}: ${JSON.stringify(value)} }`;
  return value === '' ? `${name}:` : `${name}: ${value}`;
}

const isOfRequest: ReadonlySet<OverSmtp> = new Set(['lifted', 'mime', 'replaced']);

function examplesOf(row: HeaderRow, key: string): Pick<HeaderGuide, 'good' | 'bad'> {
  const given: Readonly<Record<string, HeaderExamples>> = headerExamples;
  const { good, bad, beside } = given[key] ?? { good: [], bad: [] };
  const before = beside === undefined ? '' : `${beside}\n`;
  return {
    good: good.map((value) => `${before}${written(row, value, false)}`),
    bad: bad.map((value) => `${before}${written(row, value, isOfRequest.has(row.overSmtp))}`),
  };
}

const examples = new Map<HeaderRow, Pick<HeaderGuide, 'good' | 'bad'>>();
for (const [key, row] of Object.entries(headerCatalogue)) examples.set(row, examplesOf(row, key));

/** Names that the catalogue does not have and that are often sent all the same, in their order. */
export const otherNames: readonly string[] = [
  ...new Set([
    ...senderNotes.flatMap(({ names }) => names),
    ...stripSetNames.flatMap((set) => stripSets[set].map(({ pattern }) => pattern)),
  ]),
].filter(
  (name) =>
    findHeader(asciiLower(name)) === undefined && !/^x-/i.test(name) && nameFault(name.replace('*', '')) === undefined,
);

/** The name as it is written: of the catalogue, of the other names that are told of, or as given. */
function spelling(row: HeaderRow | undefined, given: string): string {
  const names = row ? [row.name, ...senderNotes.flatMap(({ names: noted }) => noted)] : otherNames;
  return names.find((name) => asciiLower(name) === asciiLower(given)) ?? given;
}

function referenceOf({ standard }: HeaderRow): NonNullable<HeaderGuide['reference']> {
  const rfc = /^RFC (\d+)$/.exec(standard)?.[1];
  return { text: standard, ...(rfc ? { url: `https://www.rfc-editor.org/rfc/rfc${rfc}` } : {}) };
}

/** Tells of a header. @param given its name, or how it begins with a star @returns undefined where no header has that name */
export function guideOf(given: string): HeaderGuide | undefined {
  if (nameFault(given.replace(/\*$/, 'x')) !== undefined) return undefined;
  const row = findHeader(asciiLower(given));
  const name = spelling(row, given);
  const id = name.replace('*', 'Id');
  const told = row && examples.get(row);
  return {
    name,
    rule: ruleOf(row, name),
    ...(row ? { about: row.about, reference: referenceOf(row) } : {}),
    ...(told ?? { good: [`X-${id}: 4711`], bad: [`${id}: 4711`] }),
    senders: sendersOf(name),
    cure: cureOf(row, name),
  };
}
