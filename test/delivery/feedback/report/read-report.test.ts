// Reading what comes to a bounce address: reports in fields and in words, complaints, and what is neither.

import { expect, test } from 'vitest';
import { readReport } from '../../../../src/delivery/feedback/report/read-report.ts';
import type { Report } from '../../../../src/delivery/feedback/report/report.ts';

function read(text: string, isFromNobody = true): Promise<Report> {
  return readReport(Buffer.from(text.replaceAll(/\r?\n/g, '\r\n')), isFromNobody);
}

function withStatus(status: string, type = 'message/delivery-status', more = ''): string {
  return `From: MAILER-DAEMON@mx.example.net
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: ${type}
${more}
${status}
--b--
`;
}

test('the fields of RFC 3464, folded, in any case, with comments and without types', async () => {
  const report = await read(
    withStatus(`reporting-mta : dns; mx.example.net
Arrival-Date: Sat, 21 Nov 2026 12:00:00 +0000

FINAL-RECIPIENT: RFC822;
 bob@example.org (forwarded)
Original-Recipient: rfc822;alice@example.net
Action: failed (user unknown)
Status: 5.1.1 (bad destination)
Remote-MTA: dns; mx.example.org
Diagnostic-Code: smtp; 550-5.1.1 first line
\t550 5.1.1 second line
Final-Recipient: rfc822; second@example.org

Final-Recipient: <carol@example.org>
Action: DELAYED
Status: 4.4.1

Final-Recipient: rfc822; dave@example.org
Status: 5.2.2
`),
  );
  expect(report).toEqual({
    kind: 'delivery',
    form: 'fields',
    reportingMta: 'mx.example.net',
    recipients: [
      {
        final: 'bob@example.org',
        original: 'alice@example.net',
        action: 'failed',
        status: '5.1.1',
        remoteMta: 'mx.example.org',
        diagnostic: '550-5.1.1 first line 550 5.1.1 second line',
      },
      { final: 'carol@example.org', action: 'delayed', status: '4.4.1' },
      { final: 'dave@example.org', action: 'failed', status: '5.2.2' },
    ],
  });
});

test.each([
  ['Action: deliverable\nStatus: 2.1.5', 'delivered'],
  ['Action: deliverable', 'delivered'],
  ['Action: failed\nStatus: 2.6.0', 'delivered'],
  ['Action: delayed\nStatus: 2.0.0', 'delivered'],
  ['Action: relayed\nStatus: 2.0.0', 'relayed'],
  ['Action: expanded\nStatus: 2.0.0', 'expanded'],
  ['Action: retried\nStatus: 4.4.1', 'delayed'],
  ['Action: constructor\nStatus: 5.1.1', 'failed'],
  ['Action: something-new\nStatus: 5.1.1', 'failed'],
])('%j is %s', async (fields, action) => {
  // The words for people name an address as failed; the fields decide.
  const report = await read(
    withStatus(`Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; a@example.org\n${fields}\n`).replace(
      '--b\n',
      '--b\n\n<a@example.org>: user unknown\n--b\n',
    ),
  );
  expect(report).toMatchObject({ form: 'fields', recipients: [{ final: 'a@example.org', action }] });
});

test('message/global-delivery-status in base64, with an address beyond ASCII', async () => {
  const fields =
    'Reporting-MTA: dns; mx\r\n\r\nFinal-Recipient: utf-8; bücher@example.org\r\nAction: failed\r\nStatus: 5.1.1\r\n';
  const octets = Buffer.from(fields).toString('base64');
  const report = await read(
    withStatus(octets, 'message/global-delivery-status', 'Content-Transfer-Encoding: base64\n'),
  );
  expect(report).toMatchObject({ recipients: [{ final: 'bücher@example.org', status: '5.1.1' }] });
});

test.each([
  ['utf-8; b\\x{FC}cher\\x{2B}tag@example.org', 'bücher+tag@example.org'],
  ['utf-8; b\\x{D800}cher@example.org', 'b\\x{D800}cher@example.org'],
  ['rfc822; b\\x{FC}cher@example.org', 'b\\x{FC}cher@example.org'],
])('the address of %j is %s', async (field, final) => {
  const report = await read(
    withStatus(`Reporting-MTA: dns; mx\n\nFinal-Recipient: ${field}\nAction: failed\nStatus: 5.1.1\n`),
  );
  expect(report).toMatchObject({ recipients: [{ final }] });
});

test('control characters and endless values come to nothing', async () => {
  const report = await read(
    withStatus(`Reporting-MTA: dns; mx

Final-Recipient: rfc822; a@example.org
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; \u001b[31mred\u202e ${'x'.repeat(100_000)}
`),
  );
  expect(report.kind === 'delivery' && report.recipients[0]?.diagnostic).toMatch(/^\[31mred x{900,1000}$/);
});

const texts: Readonly<Record<string, { readonly text: string; readonly recipients: readonly object[] }>> = {
  qmail: {
    text: `From: MAILER-DAEMON@mx.example.net
Subject: failure notice

Hi. This is the qmail-send program at mx.example.net.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<bob@example.org>:
192.0.2.9 does not like recipient.
Remote host said: 550 5.1.1 no such user
Giving up on 192.0.2.9.

<carol@example.org>:
The users mailfolder is over the allowed quota (size). (#5.2.2)

--- Below this line is a copy of the message.

Return-Path: <b+token@bounces.platform.example>
From: nobody@example.com
`,
    recipients: [
      {
        final: 'bob@example.org',
        action: 'failed',
        status: '5.1.1',
        diagnostic: expect.stringContaining('no such user'),
      },
      { final: 'carol@example.org', action: 'failed', status: '5.2.2', diagnostic: expect.stringContaining('quota') },
    ],
  },
  'X-Failed-Recipients': {
    text: `From: Mail Delivery System <Mailer-Daemon@mx.example.net>
Subject: Mail delivery failed: returning message to sender
X-Failed-Recipients: bob@example.org
Auto-Submitted: auto-replied

This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  bob@example.org
    SMTP error from remote mail server after RCPT TO:<bob@example.org>:
    host mx.example.org [192.0.2.9]: 550 unrouteable address

------ This is a copy of the message, including all the headers. ------

To: carol@example.org
`,
    recipients: [
      { final: 'bob@example.org', action: 'failed', diagnostic: expect.stringContaining('550 unrouteable') },
    ],
  },
  'Sendmail before it wrote fields': {
    text: `From: MAILER-DAEMON (Mail Delivery Subsystem)
Subject: Returned mail: User unknown

   ----- The following addresses had permanent fatal errors -----
<bob@example.org>

   ----- Transcript of session follows -----
... while talking to mx.example.org.:
>>> RCPT To:<bob@example.org>
<<< 550 <bob@example.org>... User unknown
550 <bob@example.org>... User unknown

   ----- Original message follows -----
To: carol@example.org
`,
    recipients: [{ final: 'bob@example.org', action: 'failed' }],
  },
  'a delay in words': {
    text: `From: postmaster@mx.example.net
Subject: Warning: message delayed

Your message has not yet been delivered. You do not need to resend it.

<bob@example.org>: connection timed out
`,
    recipients: [{ final: 'bob@example.org', action: 'delayed', diagnostic: 'connection timed out' }],
  },
  Japanese: {
    text: `From: MAILER-DAEMON@mx.example.net
Content-Type: text/plain; charset=utf-8

次の宛先にメールを配信できませんでした。

bob@example.org
  ユーザーが存在しません

----- 元のメール -----
To: carol@example.org
`,
    recipients: [{ final: 'bob@example.org', diagnostic: 'ユーザーが存在しません' }],
  },
  HTML: {
    text: `From: postmaster@mx.example.net
Content-Type: text/html; charset=utf-8

<html><body><p>Delivery has failed to these recipients:</p><p>&lt;bob@example.org&gt;<br>550 5.1.1 user unknown</p></body></html>
`,
    recipients: [{ final: 'bob@example.org', status: '5.1.1' }],
  },
};

test.each(Object.entries(texts))('words for people: %s', async (_, { text, recipients }) => {
  const report = await read(text);
  expect(report).toMatchObject({ kind: 'delivery', form: 'text' });
  const named = report.kind === 'delivery' ? report.recipients.filter(({ final }) => final !== undefined) : [];
  expect(named).toMatchObject(recipients);
  expect(JSON.stringify(report)).not.toContain('carol@example.org"}');
});

const replies: Readonly<Record<string, string>> = {
  'an absence notice': 'From: bob@example.org\nSubject: Out of Office: Re: Hello\n\nbob@example.org',
  'one in German': 'From: bob@example.org\nSubject: Abwesenheitsnotiz\n\nIch bin im Urlaub',
  'one by its field': 'From: bob@example.org\nSubject: Hello\nAuto-Submitted: auto-replied\n\nHi',
  'one in the name of the server': 'From: postmaster@example.org\nSubject: Automatic reply: Hello\n\nHi',
  'a challenge': 'From: bob@example.org\nSubject: Please confirm your message\n\nHi',
  'what a person writes': 'From: bob@example.org\nSubject: Re: Hello\n\nUser unknown: bob@example.org',
  'what a ticket system answers':
    'From: Support <noreply@example.org>\nSubject: Ticket 1\n\nbob@example.org: user unknown',
  'what another name of a system answers':
    'From: "Mail Delivery System" <bounces@example.org>\nSubject: Ticket 1\n\nbob@example.org: user unknown',
  'a name like that of a mailer':
    'From: postmaster-team@example.org\nSubject: Ticket 1\n\nbob@example.org: user unknown',
  "a mailer's name beside another address":
    'From: MAILER-DAEMON <noreply@example.org>\nSubject: Ticket 1\n\nbob@example.org: user unknown',
  'nothing at all': '\n',
  'a confirmation of reading':
    'From: bob@example.org\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\n\n--b\n\nread\n--b\nContent-Type: message/disposition-notification\n\nFinal-Recipient: rfc822; bob@example.org\nDisposition: manual-action/MDN-sent-manually; displayed\n--b--\n',
};

test.each(Object.entries(replies))('no report: %s', async (_, text) => {
  expect(await read(text)).toEqual({ kind: 'reply' });
});

test.each([
  'MAILER-DAEMON@mx.example.net',
  'Mail <Mailer-Daemon@mx.example.net>',
  'MAILER-DAEMON (Mail Delivery System)',
  'MAILER-DAEMON <>',
  'postmaster@example.net',
  '"Post" <postmaster@[192.0.2.1]>',
])('words for people from %s are a report, whatever sender they come with', async (from) => {
  const text = `From: ${from}\nSubject: failed\n\nbob@example.org: 550 user unknown`;
  for (const isFromNobody of [true, false])
    expect(await read(text, isFromNobody)).toMatchObject({
      form: 'text',
      recipients: [{ final: 'bob@example.org' }, {}],
    });
});

test('a field that names failed recipients counts from the null sender, or a mailer', async () => {
  const text = 'From: noreply@example.org\nX-Failed-Recipients: bob@example.org\n\nbob@example.org: user unknown';
  expect(await read(text, false)).toEqual({ kind: 'reply' });
  expect(await read(text, true)).toMatchObject({ form: 'text' });
  expect(await read(text.replace('noreply', 'postmaster'), false)).toMatchObject({ form: 'text' });
});

test('the mark of qmail counts from the null sender alone', async () => {
  const text = 'From: bob@example.org\n\nHi. This is the qmail-send program at x.\n\n<bob@example.org>:\nno such user';
  expect(await read(text, true)).toMatchObject({ form: 'text' });
  expect(await read(text, false)).toEqual({ kind: 'reply' });
});

test('words for people that tell of a success are no failure', async () => {
  const report = await read(
    'From: MAILER-DAEMON\n\n<bob@example.org>: 250 2.1.5 relayed\n\n<eve@example.org>: 250 2.1.0 sender ok; 550 5.1.1 unknown\n',
  );
  expect(report).toMatchObject({
    recipients: [
      { final: 'bob@example.org', action: 'delivered' },
      { final: 'eve@example.org', action: 'failed', status: '5.1.1' },
      {},
    ],
  });
});

test('a complaint, with its tokens in all places where one may stand', async () => {
  const report = await read(`From: fbl@mx.example.net
CFBL-Feedback-ID: first
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b

words
--b
Content-Type: message/feedback-report

Feedback-Type: Fraud (sure)
User-Agent: Reporter/1.0
Version: 1
Original-Rcpt-To: <bob@example.org>
CFBL-Feedback-ID: second

--b
Content-Type: text/rfc822-headers

To: Bob <other@example.org>
CFBL-Feedback-ID: th
 ird

--b--
`);
  expect(report).toEqual({
    kind: 'complaint',
    feedbackType: 'fraud',
    userAgent: 'Reporter/1.0',
    recipients: ['bob@example.org'],
    feedbackIds: ['first', 'second', 'third'],
  });
});

// What each costs is measured by bench/bounces.ts; that they end at all, within bounds, is seen here.
const hostile: Readonly<Record<string, { readonly octets: () => string; readonly want: RegExp }>> = {
  'a megabyte of nested multiparts': {
    octets: () =>
      `Content-Type: multipart/mixed; boundary=b0\r\n\r\n${Array.from({ length: 15_000 }, (_, at) => `--b${at}\r\nContent-Type: multipart/mixed; boundary=b${at + 1}\r\n\r\n`).join('')}`,
    want: /Max allowed child nodes exceeded/,
  },
  'a status of a million fields': {
    octets: () => withStatus(`Reporting-MTA: dns; x\r\n\r\n${'X:y\r\n'.repeat(1_000_000)}`),
    want: /"reply"|"delivery"/,
  },
  'a report that names 10,000 recipients': {
    octets: () =>
      withStatus(
        `Reporting-MTA: dns; x\r\n\r\n${Array.from({ length: 10_000 }, (_, at) => `Final-Recipient: rfc822; u${at}@example.org\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n`).join('')}`,
      ),
    want: /^\{"kind":"delivery".{30000,200000}\}$/,
  },
  'a text that names 30,000 recipients': {
    octets: () =>
      `From: MAILER-DAEMON@x\r\n\r\n${Array.from({ length: 30_000 }, (_, at) => `<u${at}@example.org>`).join('\r\n')}`,
    want: /^\{"kind":"delivery".{30000,400000}\}$/,
  },
  'a megabyte of one line': {
    octets: () => `From: MAILER-DAEMON@x\r\n\r\n${'a@b.c '.repeat(170_000)}`,
    want: /"delivery"/,
  },
  'a megabyte that is nearly an address everywhere': {
    octets: () => `From: MAILER-DAEMON@x\r\n\r\n${`${'a'.repeat(900)}\r\n`.repeat(1100)}`,
    want: /"delivery"/,
  },
  'a megabyte of header fields': {
    octets: () => `${'X-Failed-Recipients: a@b.c,\r\n'.repeat(35_000)}\r\n`,
    want: /kind|Max/,
  },
  'octets that are nothing': { octets: () => '\0\xff'.repeat(300_000), want: /"reply"/ },
};

test.each(Object.entries(hostile))('%s comes to an end', async (_, { octets, want }) => {
  const text = octets();
  const result = await readReport(Buffer.from(text, 'latin1'), true).then(
    (report) => JSON.stringify(report),
    (error: unknown) => String(error),
  );
  expect(result).toMatch(want);
});
