// From reasons of refusals to what cures them: every line that is proposed is put into a configuration and makes the message
// pass; what no setting cures says what to change in the program.

import { describe, expect, test } from 'vitest';
import { check } from '../../../src/pipeline/policy/check.ts';
import { rejections } from '../../../src/pipeline/policy/rejections.ts';
import type { Submission } from '../../../src/pipeline/policy/submission.ts';
import { type Cure, cureOf, type MessageFacts } from '../../../src/pipeline/report/cure.ts';
import {
  credentialLines,
  hasSetting,
  smallestSets,
  withLines,
  yamlLines,
} from '../../../src/pipeline/report/settings.ts';
import { eventBounds } from '../../../src/spool/events/event-bounds.ts';
import type { EventViolation } from '../../../src/spool/events/mail-event.ts';
import { context, devAccount, smtpSubmission } from '../../support/policy-fixtures.ts';
import { loadYaml } from '../../support/scratch.ts';

const facts: MessageFacts = { sendingDomains: devAccount.sendingDomains.map(({ name }) => name) };

interface Case {
  readonly headers: string;
  readonly reversePath?: string;
}

function submission({ headers, reversePath }: Case): Submission {
  const raw = Buffer.from(`${headers.replaceAll('\n', '\r\n')}\r\n\r\nx\r\n`, 'latin1');
  return smtpSubmission(raw, reversePath === undefined ? {} : { reversePath });
}

function curesOf(message: Submission, more: MessageFacts = {}): Cure[] {
  const result = check(message, context);
  if (result.ok) throw new Error('It is not refused');
  return result.violations.map(({ code, message: text, name }) => {
    const reason: EventViolation = {
      code,
      message: text.slice(0, eventBounds.violationMessage),
      ...(name === undefined ? {} : { field: name }),
    };
    const { reversePath: senderPath } = message.envelope;
    return cureOf(reason, { ...facts, senderPath, fieldNames: message.fields.map((one) => one.name), ...more });
  });
}

function settingsOf(cures: readonly Cure[]) {
  return cures.flatMap((cure) => (cure.kind === 'config' ? cure.settings : []));
}

/** A configuration with these lines in a credential. */
function configured(lines: readonly string[]) {
  const yaml = [
    'accounts:',
    '  - id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"',
    '    name: dev',
    '    sendingDomains: [{ name: example.com }]',
    '    credentials:',
    '      - name: default',
    ...lines.map((line) => `        ${line}`),
  ];
  const { credentials } = loadYaml(`${yaml.join('\n')}\n`).accounts[0] ?? { credentials: new Map() };
  const found = credentials.get('default');
  if (!found) throw new Error('The configuration has no credential');
  return found;
}

const from = 'From: a@example.com\n';

const configCases: readonly (readonly [string, Case, readonly string[]])[] = [
  ['a field on no list', { headers: `${from}User-Agent: Mua/1` }, ['strip: [User-Agent]']],
  ['several of them', { headers: `${from}User-Agent: x\nSender: b@example.com` }, ['strip: [Sender, User-Agent]']],
  ['the trace of a server', { headers: `Received: from a by b; x\n${from}Subject: x` }, ['trustedHop: true']],
  ['a signature of before', { headers: `DKIM-Signature: v=1\n${from}Subject: x` }, ['strip: [DKIM-Signature]']],
  ['an empty field', { headers: `${from}X-Foo:` }, ['stripEmpty: true']],
  ['a field that repeats', { headers: `${from}X-Loop: a\nX-Loop: b` }, ['keepFirst: [X-Loop]']],
  ['Date twice', { headers: `${from}Date: a\nDate: b` }, ['keepFirst: [Date]']],
  [
    'cron',
    { headers: 'From: root (Cron Daemon)\nX-Cron-Env: <A=1>\nX-Cron-Env: <B=2>' },
    ['strip: [X-Cron-Env]', 'defaultDomain: example.com'],
  ],
  [
    'cron by a mail command',
    { headers: `${from}X-Cron-Env: <A=1>\nX-Cron-Env: <B=2>\nUser-Agent: x` },
    ['stripSets: [cron]'],
  ],
  ['an outdated word', { headers: `${from}Precedence: first-class` }, ['stripInvalid: [Precedence]']],
  ['a control character in an X- field', { headers: `${from}X-Foo: a\u0007b` }, ['stripInvalid: [X-Foo]']],
  ['an X- value that is too long', { headers: `${from}X-Foo: ${'a '.repeat(1100)}b` }, ['stripInvalid: [X-Foo]']],
  [
    'a verdict of a filter that is too long',
    { headers: `${from}X-Microsoft-Antispam: ${'a '.repeat(1100)}b` },
    ['strip: [X-Microsoft-Antispam]'],
  ],
  ['an underscore in a name', { headers: `${from}List_Id: x` }, ['strip: [List_Id]']],
  ['a reverse-path without a domain', { headers: from.trim(), reversePath: 'root' }, ['defaultDomain: example.com']],
  [
    "a server's bounce",
    { headers: 'From: MAILER-DAEMON@box.internal', reversePath: '' },
    ['defaultDomain: example.com'],
  ],
  [
    'Exchange',
    { headers: `${from}X-MS-Has-Attach:\nX-MS-TNEF-Correlator:\nAccept-Language: de\nmsip_labels: x` },
    ['stripSets: [exchange]'],
  ],
  [
    'cPanel',
    { headers: `${from}X-AntiAbuse: 1\nX-AntiAbuse: 2\nX-Source:\nX-Source-Args:\nX-Source-Dir:` },
    ['stripSets: [cpanel]'],
  ],
];

describe('settings', () => {
  test.each(configCases)('%s', (_, message, expected) => {
    const given = submission(message);
    const settings = settingsOf(curesOf(given));
    const lines = credentialLines(settings);
    expect(yamlLines(lines)).toEqual(expected);

    // The lines as they are printed, in a real configuration, let the message pass.
    const credential = configured(yamlLines(lines));
    const { defaultDomain, trustedHop } = credential;
    const { envelope, via } = given;
    const completed = envelope.reversePath === 'root' ? `root@${defaultDomain}` : envelope.reversePath;
    const cured = {
      ...given,
      via: { ...via, trustedHop },
      envelope: { ...envelope, reversePath: completed },
      submitter: { account: devAccount, credential },
    };
    expect(check(cured, context).ok).toBe(true);
    // What is judged again with is what the lines say.
    expect(withLines(credential, lines)).toEqual(credential);
  });

  test('the credential keeps what it has, in the words of the file', () => {
    const present = configured([
      'stripSets: [cron]',
      'strip: [X-Old, X-Very-*]',
      'trustedHop: true',
      'stripEmpty: true',
    ]);
    const lines = credentialLines([{ kind: 'strip', name: 'Sender' }], present);
    expect(yamlLines(lines)).toEqual([
      'strip: [Sender, X-Old, X-Very-*]',
      'stripSets: [cron]',
      'stripEmpty: true',
      'trustedHop: true',
    ]);
    expect(configured(yamlLines(lines)).strip).toEqual({
      ...present.strip,
      names: new Set([...present.strip.names, 'sender']),
      spellings: new Map([...present.strip.spellings, ['sender', 'Sender']]),
    });
  });

  test('the program is named where it can be changed instead', () => {
    const message = submission({ headers: `${from}User-Agent: s-nail v14.9.24` });
    expect(curesOf(message, { mailer: 'User-Agent: s-nail v14.9.24' })).toEqual([
      {
        kind: 'config',
        settings: [{ kind: 'strip', name: 'User-Agent' }],
        instead: 'set stealthmua=noagent',
      },
    ]);
  });

  test('what a known system has added goes where there is too much of it', () => {
    const many = Array.from({ length: 12 }, (_, at) => `X-MS-Exchange-${at}: ${'x'.repeat(2000)}`);
    const message = submission({ headers: `${from}Accept-Language: de\nX-Originating-IP: 1\n${many.join('\n')}` });
    expect(yamlLines(credentialLines(settingsOf(curesOf(message))))).toEqual(['stripSets: [exchange]']);
  });
});

const nobodys = [
  ...['box.internal', 'localhost', 'box.localhost', 'nas.local', 'srv1.corp.lan', 'ci.test', 'ci.invalid'],
  ...['nas.home.arpa', 'box.example', 'example.org', 'www.example.org'],
];

test.each(nobodys)('mail of %s, which nobody can have a key for, is mapped to the account', (host) => {
  const cures = curesOf(submission({ headers: `From: root@${host}` }));
  expect(yamlLines(credentialLines(settingsOf(cures)))).toEqual([`senders: { "*@${host}": "*@example.com" }`]);
});

const programCases: readonly (readonly [string, Case, RegExp])[] = [
  ['no From', { headers: 'Subject: x' }, /From is missing/],
  ['two mailboxes', { headers: 'From: a@example.com, b@example.com' }, /From must be one mailbox/],
  [
    'a domain of somebody else',
    { headers: 'From: a@example.edu' },
    /Set From to an address in a sending domain .*example\.com.* add example\.edu/,
  ],
  [
    'a header of the allowlist twice',
    { headers: `${from}List-Unsubscribe: <https://a.test>\nList-Unsubscribe: <mailto:a@a.test>` },
    /once/,
  ],
  ['a value that a reader needs', { headers: `${from}List-Unsubscribe: http://a.test` }, /Correct the value/],
  ['Auto-Submitted, which stops loops', { headers: `${from}Auto-Submitted: yes` }, /Correct the value/],
  ['a line without a colon', { headers: `${from}oops` }, /no colon/],
  ['a bare LF in Subject', { headers: `${from}Subject: a\rb` }, /bare CR/],
  ['a name that is too long', { headers: `${from}X-${'a'.repeat(99)}: x` }, /101 bytes/],
];

test.each(programCases)('no setting cures %s; the program is told', (_, message, expected) => {
  const cures = curesOf(submission(message));
  expect(cures.map(({ kind }) => kind)).toEqual(['program']);
  expect(cures[0]).toMatchObject({ text: expect.stringMatching(expected) });
});

test('every code has a cure, also one that nobody knows', () => {
  for (const code of [...Object.keys(rejections), 'E_NEW', '10001', '452', '__proto__']) {
    const cure = cureOf({ code, message: 'x', field: 'X-Foo' }, {});
    expect(cure.kind === 'program' ? cure.text : cure.settings.length).toBeTruthy();
  }
});

describe('sets', () => {
  test('fields that any desktop program writes make nobody a mailing list', () => {
    const names = ['User-Agent', 'Sender', 'Disposition-Notification-To', 'Autocrypt', 'DKIM-Signature'];
    expect(smallestSets(names)).toEqual({ sets: [], rest: names });
  });

  test('the smallest set that has them is taken, and the rest stays by name', () => {
    expect(smallestSets(['X-Cron-Env', 'User-Agent', 'Foo'])).toEqual({ sets: ['cron'], rest: ['Foo'] });
    expect(smallestSets(['X-BeenThere', 'Errors-To', 'Sender', 'X-Mailman-Version']).sets).toEqual(['mailman']);
    expect(smallestSets(['X-BeenThere']).sets).toEqual([]);
  });
});

test.each([
  ['No', 'strip: ["No"]'],
  ['a"b', 'strip: ["a\\"b"]'],
  ['#x', 'strip: ["#x"]'],
  ['X-A,b', 'strip: ["X-A,b"]'],
])('a name such as %s is quoted for YAML', (name, line) => {
  expect(yamlLines({ strip: [name] })).toEqual([line]);
  expect([...configured([line]).strip.names]).toEqual([name.toLowerCase()]);
});

test('a field whose bad values go keeps its good ones, also beside another cure', () => {
  const bad = submission({ headers: `${from}Precedence: urgent\nUser-Agent: x` });
  const lines = credentialLines(settingsOf(curesOf(bad)));
  expect(yamlLines(lines)).toEqual(['strip: [User-Agent]', 'stripInvalid: [Precedence]']);
  const credential = configured(yamlLines(lines));
  const good = submission({ headers: `${from}Precedence: bulk` });
  const result = check({ ...good, submitter: { account: devAccount, credential } }, context);
  expect(result).toMatchObject({ ok: true, checked: { stripped: [], custom: [{ name: 'Precedence', text: 'bulk' }] } });
});

test('what goes anyhow is not named again for its bad values', () => {
  const wanted = [
    { kind: 'strip', name: 'X-Foo' },
    { kind: 'stripInvalid', name: 'x-foo' },
    { kind: 'stripInvalid', name: 'X-Old-A' },
    { kind: 'stripInvalid', name: 'Precedence' },
    { kind: 'stripInvalid', name: 'Importance' },
  ] as const;
  const present = configured(['strip: [X-Old-*]', 'stripInvalid: [imp*]']);
  expect(yamlLines(credentialLines(wanted, present))).toEqual([
    'strip: [X-Foo, X-Old-*]',
    'stripInvalid: [imp*, Precedence]',
  ]);
  expect(wanted.map((setting) => hasSetting(present, setting))).toEqual([false, false, true, false, true]);
});

test('lines to paste keep the names that the file has, as it spells them', () => {
  const present = configured(['strip: [x-mailer, Received, X-MS-Exchange-*]', 'keepFirst: [LIST-Id]']);
  expect(yamlLines(credentialLines([{ kind: 'strip', name: 'User-Agent' }], present))).toEqual([
    'strip: [Received, User-Agent, x-mailer, X-MS-Exchange-*]',
    'keepFirst: [LIST-Id]',
  ]);
});
