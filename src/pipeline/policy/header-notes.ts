// What the page of a header tells besides the catalogue: examples, and who sends it. Tests judge both.

import type { headerCatalogue } from './header-catalogue.ts';

/** Values of a header. */
export interface HeaderExamples {
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

/** By the catalogue's own keys. */
export const headerExamples: Readonly<Record<keyof typeof headerCatalogue, HeaderExamples>> = {
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
export interface SenderNote {
  readonly names: readonly string[];
  readonly who: string;
  /** What to change in the mailer; '' where nothing can be. */
  readonly mailer: string;
  /** What to set on the credential. */
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
