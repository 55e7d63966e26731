// Who a message is from: D4b and D50.

import { expect, test } from 'vitest';
import { stripRules } from '../../../src/accounts/strip-rules.ts';
import { check } from '../../../src/pipeline/policy/check.ts';
import type { Checked } from '../../../src/pipeline/policy/submission.ts';
import { context, type SubmissionOptions, smtpSubmission } from '../../support/policy-fixtures.ts';

function messageOf(lines: readonly string[], options?: SubmissionOptions) {
  return smtpSubmission(Buffer.from([...lines, '', 'Hi', ''].join('\r\n')), options);
}

function send(lines: readonly string[], options?: SubmissionOptions) {
  return check(messageOf(lines, options), context);
}

function verdict(lines: readonly string[], options?: SubmissionOptions): string[] {
  const result = send(lines, options);
  return result.ok ? [] : result.violations.map(({ code, message }) => `${code}: ${message}`);
}

function admitted(lines: readonly string[], options?: SubmissionOptions): Checked {
  const result = send(lines, options);
  if (!result.ok) throw new Error(JSON.stringify(result.violations));
  return result.checked;
}

test.each([
  ['app@example.com', 'app@example.com', 'example.com'],
  ['App <app@EXAMPLE.com>', 'app@example.com', 'example.com'],
  ['App <app@mail.Example.com>', 'app@mail.example.com', 'example.com'],
  ['app@b\u00fccher.example', 'app@xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ['"a@elsewhere.example" <app@example.net>', 'app@example.net', 'example.net'],
  ['"q b"@example.com (x)', '"q b"@example.com', 'example.com'],
])('From: %s is %s of sending domain %s', (from, address, sendingDomain) => {
  const checked = admitted([`From: ${from}`]);
  expect(checked.from.address).toBe(address);
  expect(checked.sendingDomain.name).toBe(sendingDomain);
  expect(checked.lifted.from.text).toBe(from.replace('b\u00fccher', 'xn--bcher-kva'));
});

test.each([
  ['a@example.com <a@example.com>', '"a@example.com" <a@example.com>'],
  ['App <@relay.example:a@example.com>', 'App <a@example.com>'],
  [' a . b @ example . com ', 'a.b@example.com'],
  ['(x) App (y (z)) <a@example.com>, ', 'App <a@example.com> (x) (=?utf-8?B?eSAoeik=?=)'],
  ['"a"@example.com', 'a@example.com'],
  ['John Q. Public <a@example.com>', '"John Q. Public" <a@example.com>'],
  ['=?utf-8?Q?Smith,_J?= <a@example.com>', '"Smith, J" <a@example.com>'],
  ['"=?utf-8?Q?J=C3=B6?=" <a@example.com>', '=?utf-8?B?SsO2?= <a@example.com>'],
  ['=?iso-8859-1?Q?J=F6?= =?x-nobody?Q?a?= <a@example.com>', '=?iso-8859-1?Q?J=F6?= =?x-nobody?Q?a?= <a@example.com>'],
  ['A \u00e9 B <a@example.com>', 'A \u00e9 B <a@example.com>'],
  ['<a@example.com> (Cron Daemon)', '<a@example.com> (Cron Daemon)'],
])('From: %s is written as %s (D4b)', (given, written) => {
  expect(admitted([`From: ${given}`]).lifted.from.text).toBe(written);
});

test.each([
  ['*.example.com', 'no domain name'],
  ['x/y.example.com', 'no domain name'],
  ['a..example.com', 'no domain name'],
  ['.example.com', 'no domain name'],
  ['example.com.', 'no domain name'],
  ['evil.test\\.example.com', 'unexpected'],
])('a@%s is no domain that From may have (D4b)', (domain, reason) => {
  expect(verdict([`From: a@${domain}`])).toEqual([expect.stringMatching(`^E_VALIDATION_ERROR: From .*${reason}`)]);
});

test.each([
  ['Boss [<ceo@bank.test>] <a@example.com>', 'a display name with "\\["'],
  ['[Desk] <a@example.com>', 'a display name with "\\["'],
  ['"ceo@bank.test "@example.com', 'a local part that mail readers disagree about'],
  ['" b"@example.com', 'a local part that mail readers disagree about'],
  ['"b "@example.com', 'a local part that mail readers disagree about'],
  ['"a  b"@example.com', 'a local part that mail readers disagree about'],
  ['=?utf-8?Q?ceo=40bank.test=2C?=@example.com', 'a local part that mail readers disagree about'],
  ['"<ceo@bank.test>"@example.com', 'a local part that mail readers disagree about'],
  ['a\u00a0b@example.com', 'a local part that mail readers disagree about'],
  ['.@example.com', 'a local part that mail readers disagree about'],
  [`${'a'.repeat(243)}@example.com`, 'an address of over 254 octets'],
])('From: %s is refused: not all readers would see the same (D4b)', (from, reason) => {
  expect(verdict([`From: ${from}`])).toEqual([expect.stringMatching(`^E_VALIDATION_ERROR: From .*${reason}`)]);
});

test('a From of over 8,192 octets is refused unread: it is one mailbox', () => {
  const of = (octets: number): string => {
    const [start, end] = [' "', '" <a@example.com>'];
    return `From:${start}${'x '.repeat(octets).slice(0, octets - start.length - end.length)}${end}`;
  };
  expect(verdict([of(8192)])).toEqual([]);
  expect(verdict([of(8193)])).toEqual([
    'E_VALIDATION_ERROR: From has 8193 octets, at most 8192 are allowed: it is one mailbox',
  ]);
});

test.each([['elsewhere.example'], ['badexample.com'], ['com'], ['mail.example.net'], ['[192.0.2.1]'], ['localhost']])(
  'From a@%s is not verified',
  (domain) => {
    expect(verdict([`From: a@${domain}`])).toEqual([
      `E_SENDER_NOT_VERIFIED: ${domain} (domain of From) is not a sending domain of account dev`,
    ]);
  },
);

test.each([
  [[], 'E_FIELD_MISSING: From is missing'],
  [['From:'], 'E_FIELD_MISSING: From holds no address'],
  [['From: (nobody)'], 'E_FIELD_MISSING: From holds no address'],
  [
    ['From: a@example.com, b@example.com'],
    'E_VALIDATION_ERROR: From must be one mailbox; got 2: "a@example.com, b@example.com"',
  ],
  [['From: Us: a@example.com;'], 'E_VALIDATION_ERROR: From must be one mailbox; got a group: "Us: a@example.com;"'],
  [['From: a@'], 'E_VALIDATION_ERROR: From is malformed: unexpected "@" at character 2; got "a@"'],
  [['From: root (Cron Daemon)'], 'E_VALIDATION_ERROR: The address "root" of From has no domain'],
])('%j is %s (D4b)', (lines, wanted) => {
  expect(verdict(lines)).toEqual([wanted]);
});

test('a second mailbox cannot hide in what looks like an encoded-word (D4b)', () => {
  expect(verdict(['From: =?utf-8?Q?boss@elsewhere.example,x?= <app@example.com>'])).toEqual([
    expect.stringMatching(/^E_VALIDATION_ERROR: From must be one mailbox/),
  ]);
});

test('a From that its own rules refuse is told once', () => {
  expect(verdict(['From: a@example.com', 'From: a@example.com'])).toEqual([
    'E_HEADER_VALUE_INVALID: From appears 2 times, at most once is allowed',
  ]);
  expect(verdict(['From: a@', 'From: a@example.com'])).toEqual([
    'E_VALIDATION_ERROR: From is malformed: unexpected "@" at character 2; got "a@"',
  ]);
  expect(verdict(['From: a@example.com\nBcc: x'])).toEqual(['E_HEADER_VALUE_INVALID: From holds a bare LF']);
  expect(verdict(['From : a@example.com'])).toEqual([
    'E_HEADER_NAME_INVALID: The header name "From" has white space before its colon',
  ]);
});

test('a second From does not hide whose domain the first one is', () => {
  expect(verdict(['From: a@elsewhere.example', 'From: a@example.com'])).toEqual([
    'E_SENDER_NOT_VERIFIED: elsewhere.example (domain of From) is not a sending domain of account dev',
    'E_HEADER_VALUE_INVALID: From appears 2 times, at most once is allowed',
  ]);
});

test.each([
  ['root (Cron Daemon)', 'root@example.com (Cron Daemon)'],
  ['"Cron" <root>', '"Cron" <root@example.com>'],
  ['root', 'root@example.com'],
])('a credential with a default domain completes From: %s', (from, completed) => {
  const checked = admitted([`From: ${from}`], { credential: 'cron' });
  expect(checked.lifted.from).toMatchObject({ text: completed, decoded: completed });
  expect(checked.from).toEqual({ address: 'root@example.com', domain: 'example.com' });
});

test('it completes To, Cc and Reply-To too, and leaves what it cannot read', () => {
  const lines = ['From: root', 'To: root, Us: a, b@x.example;, c', 'Cc: John Smith', 'Reply-To: =?utf-8?q?R?= <root>'];
  const { lifted } = admitted(lines, { credential: 'cron' });
  expect(lifted.to?.text).toBe('root@example.com, Us: a@example.com, b@x.example;, c@example.com');
  expect(lifted.cc?.text).toBe('John Smith');
  expect(lifted.replyTo).toMatchObject({ text: '=?utf-8?q?R?= <root@example.com>', decoded: 'R <root@example.com>' });
  expect(admitted(['From: root@example.com', 'To: root']).lifted.to?.text).toBe('root');
});

test.each(['John Smith', 'a@', 'undisclosed-recipients:;', '<>', '"'])(
  'To, Cc and Reply-To are not refused for %s (D14)',
  (text) => {
    const { lifted } = admitted(['From: a@example.com', `To: ${text}`, `Cc: ${text}`, `Reply-To: ${text}`]);
    expect([lifted.to?.text, lifted.cc?.text, lifted.replyTo?.text]).toEqual([text, text, text]);
  },
);

test.each([
  ['', []],
  ['a@example.net', []],
  ['a@sub.example.com', []],
  [
    'a@elsewhere.example',
    ['E_SENDER_NOT_VERIFIED: elsewhere.example (domain of MAIL FROM) is not a sending domain of account dev'],
  ],
  ['root', ['E_VALIDATION_ERROR: The reverse-path "root" has no domain']],
])('the reverse-path "%s" is judged too (D50)', (reversePath, wanted) => {
  expect(verdict(['From: a@example.com'], { reversePath })).toEqual(wanted);
});

test('a domain in both places is told once', () => {
  expect(verdict(['From: a@elsewhere.example'], { reversePath: 'b@elsewhere.example' })).toHaveLength(1);
  expect(verdict(['From: a@elsewhere.example'], { reversePath: 'b@other.example' })).toHaveLength(2);
});

const bounce = { credential: 'oldbox', reversePath: '' };

test.each([
  // As Postfix, Exim, OpenSMTPD, nullmailer, dma and Sendmail write it.
  'MAILER-DAEMON (Mail Delivery System)',
  'MAILER-DAEMON@box.internal (Mail Delivery System)',
  'Mail Delivery System <Mailer-Daemon@box.internal>',
  'Mailer Daemon <MAILER-DAEMON@localhost>',
  'Message Delivery Subsystem <MAILER-DAEMON@box.internal>',
  'MAILER-DAEMON <>',
  '<>',
  '< > (Mail Delivery System)',
  '(nobody)',
  '"<>" <postmaster>',
  'Postmaster',
  'MAILER-DAEMON@[192.0.2.1]',
  'MAILER-DAEMON@old_box..internal',
  'Mail [box] <mailer-daemon@mail.example.net>',
  'Boss <ceo@bank.test>',
  '=?utf-8?Q?Zustellung_=C3=BC?= <MAILER-DAEMON@box.internal>',
])('a mail server’s bounce From: %s leaves from MAILER-DAEMON of the default domain (D4b)', (from) => {
  const checked = admitted([`From: ${from}`, 'X-A: b'], bounce);
  expect(checked.lifted.from).toMatchObject({ name: 'From', text: 'MAILER-DAEMON@example.com' });
  expect(checked.lifted.from.decoded).toBe('MAILER-DAEMON@example.com');
  expect(checked.from).toEqual({ address: 'MAILER-DAEMON@example.com', domain: 'example.com' });
  expect(checked.sendingDomain.name).toBe('example.com');
  expect(checked.custom.map(({ name, text }) => [name, text])).toEqual([
    ['X-A', 'b'],
    ['X-Original-From', from],
  ]);
  // What the client sent is what is counted.
  expect(checked.usage.bytes).toBe(3 + 2 + 1 + 2);
});

test('an empty From of a bounce has nothing to keep (D4b)', () => {
  const checked = admitted(['From:', 'x-original-from: kept'], bounce);
  expect(checked.lifted.from.text).toBe('MAILER-DAEMON@example.com');
  expect(checked.custom.map(({ text }) => text)).toEqual(['kept']);
});

test.each([
  ['MAILER-DAEMON@mail.example.com', 'MAILER-DAEMON@mail.example.com'],
  ['Shop <shop@example.net>', 'Shop <shop@example.net>'],
  ['root (Cron Daemon)', 'root@example.com (Cron Daemon)'],
])('a bounce From: %s stays, as all that the account may send from (D4b)', (from, wanted) => {
  const checked = admitted([`From: ${from}`, 'X-Original-From: mine'], bounce);
  expect(checked.lifted.from.text).toBe(wanted);
  expect(checked.custom.map(({ text }) => text)).toEqual(['mine']);
});

test('the X-Original-From that says what From was takes the place of the client’s own (D4b)', () => {
  const { custom } = admitted(['x-ORIGINAL-from: mine', 'From: MAILER-DAEMON@box.internal'], bounce);
  expect(custom.map(({ name, text }) => [name, text])).toEqual([['X-Original-From', 'MAILER-DAEMON@box.internal']]);
  expect(verdict(['X-Original-From: a', 'X-Original-From: b', 'From: <>'], bounce)).toEqual([
    'E_HEADER_VALUE_INVALID: X-Original-From appears 2 times, at most once is allowed',
  ]);
});

test.each([
  [['From: MAILER-DAEMON@box.internal'], /^E_SENDER_NOT_VERIFIED: box\.internal /],
  [['From: MAILER-DAEMON <>'], /^E_VALIDATION_ERROR: From is malformed/],
  [['From: MAILER-DAEMON'], /^E_VALIDATION_ERROR: The address "MAILER-DAEMON" of From has no domain/],
])('without a default domain %j is refused as ever (D4b)', (lines, wanted) => {
  expect(verdict(lines, { reversePath: '' })).toEqual([expect.stringMatching(wanted)]);
});

test('with a reverse-path it is no bounce (D4b)', () => {
  const options = { credential: 'oldbox', reversePath: 'root@example.com' };
  expect(verdict(['From: MAILER-DAEMON@box.internal'], options)).toHaveLength(1);
  expect(verdict(['From: MAILER-DAEMON <>'], options)).toHaveLength(1);
  expect(admitted(['From: MAILER-DAEMON'], options).lifted.from.text).toBe('MAILER-DAEMON@example.com');
  expect(admitted(['From: MAILER-DAEMON'], options).custom).toEqual([]);
});

test.each([
  [[]],
  [['From: MAILER-DAEMON@box.internal, a@example.com']],
  [['From: Us: MAILER-DAEMON@box.internal;']],
  [['From: MAILER-DAEMON@']],
  [['From: Mail Delivery System']],
  [['From: <> <a@example.com>']],
  [['From: <>, <>']],
  [['From: <>, a@bank.test']],
  [['From: none <>x']],
  [['From: <>', 'From: <>']],
  [['From: \x01<>']],
  [['From: =?utf-8?Q?=0D=0ABcc:?= <>']],
])('a bounce with %j is refused (D4b)', (lines) => {
  expect(verdict(lines, bounce)).not.toEqual([]);
});

test('a default domain that the account may not send from is told (D50)', () => {
  const submission = smtpSubmission(Buffer.from('From: <>\r\n\r\nHi\r\n'), bounce);
  const credential = { ...submission.submitter.credential, defaultDomain: 'elsewhere.example' };
  const result = check({ ...submission, submitter: { ...submission.submitter, credential } }, context);
  expect(result).toMatchObject({ ok: false, violations: [{ code: 'E_SENDER_NOT_VERIFIED', name: 'From' }] });
});

const received = Array.from({ length: 60 }, (_, hop) => `Received: from h${hop} by h${hop + 1}; date`);

test('a trusted hop’s Received fields are kept as trace; any other’s are refused (D4)', () => {
  const checked = admitted(['Received: one', 'From: a@example.com', 'Received: two\r\n folded'], {
    credential: 'oldbox',
  });
  expect(checked.trace.map(({ name, rawBytes }) => [name, rawBytes.toString()])).toEqual([
    ['Received', ' one'],
    ['Received', ' two\r\n folded'],
  ]);
  expect(verdict(['Received: one', 'From: a@example.com'])).toHaveLength(1);
  expect(verdict(['DKIM-Signature: x', 'From: a@example.com'], { credential: 'oldbox' })).toHaveLength(1);
  expect(verdict(['Received: a\nb', 'From: a@example.com'], { credential: 'oldbox' })).toEqual([
    'E_HEADER_VALUE_INVALID: Received holds a bare LF',
  ]);
});

test.each([
  [49, []],
  [50, []],
  [51, ['E_MAIL_LOOP: 51 Received headers, over 50 are a mail loop']],
])('%i Received fields of a trusted hop', (count, wanted) => {
  expect(verdict([...received.slice(0, count), 'From: a@example.com'], { credential: 'oldbox' })).toEqual(wanted);
});

const ownReceived = 'Received: from a (b [192.0.2.1])\r\n\tby MX.example (Postern) with ESMTPSA id 1; date';

test.each([
  [3, []],
  [4, ['E_MAIL_LOOP: The message has passed this gateway 4 times, over 3 are a mail loop']],
])('%i Received fields of our own, from a trusted hop', (count, wanted) => {
  const lines = [...Array.from({ length: count }, () => ownReceived), ...received.slice(0, 20), 'From: a@example.com'];
  expect(verdict(lines, { credential: 'oldbox' })).toEqual([]);
  const result = check(messageOf(lines, { credential: 'oldbox' }), { ...context, hostname: 'mx.example' });
  expect(result.ok ? [] : result.violations.map(({ code, message }) => `${code}: ${message}`)).toEqual(wanted);
});

test('strip takes out what the operator named, and nothing else (D4a)', () => {
  const lines = ['X-Cron-Env: <A=1>', 'x-cron-env: \x01', 'USER-AGENT: s-nail', 'From: a@example.com', 'X-Other: y'];
  const checked = admitted(lines, { credential: 'cron' });
  expect(checked.stripped).toEqual(['X-Cron-Env', 'x-cron-env', 'USER-AGENT']);
  expect(checked.custom.map(({ name }) => name)).toEqual(['X-Other']);
  expect(checked.usage.bytes).toBe(7 + 4 + 1);
  expect(verdict(lines)).toHaveLength(2);
  expect(verdict(['User-Agent : x', 'From: a@example.com'], { credential: 'cron' })).toHaveLength(1);
});

test('lifted and MIME fields are not stripped, whatever the set holds (D4a)', () => {
  const raw = Buffer.from('From: a@example.com\r\nSubject: s\r\nContent-Type: text/plain\r\nX-A: b\r\n\r\nHi\r\n');
  const submission = smtpSubmission(raw);
  const strip = stripRules({ strip: ['from', 'subject', 'content-type', 'x-a'] });
  const submitter = { ...submission.submitter, credential: { ...submission.submitter.credential, strip } };
  const result = check({ ...submission, submitter }, context);
  expect(result).toMatchObject({
    ok: true,
    checked: {
      lifted: { subject: { text: 's' } },
      mime: { 'content-type': { text: 'text/plain' } },
      stripped: ['X-A'],
    },
  });
});
