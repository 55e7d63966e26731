import { expect, test } from 'vitest';
import { type CheckResult, check } from '../../../src/pipeline/policy/check.ts';
import { type HeaderRow, headerCatalogue } from '../../../src/pipeline/policy/header-catalogue.ts';
import type { Checked, Submission } from '../../../src/pipeline/policy/submission.ts';
import {
  codes,
  context,
  restCodes,
  restSubmission,
  smtpCodes,
  smtpHeaders,
  smtpHeadersUtf8,
  smtpSubmission,
} from '../../support/policy-fixtures.ts';

function admitted(submission: Submission): Checked {
  const result = check(submission, context);
  if (!result.ok) throw new Error(JSON.stringify(result.violations));
  return result.checked;
}

function messages(result: CheckResult): string[] {
  return result.ok ? [] : result.violations.map(({ code, message }) => `${code}: ${message}`);
}

const rows: readonly HeaderRow[] = Object.values(headerCatalogue);

/** A value that the header's own rule admits. */
function goodValue(row: HeaderRow): string {
  if (row.value.kind === 'one-of') return row.value.values[0] ?? '';
  if (row.value.kind === 'exactly') return row.value.value;
  return row.value.kind === 'unsubscribe-uris' ? '<https://example.com/u>' : 'value';
}

function companions(row: HeaderRow): [string, string][] {
  return row.needs ? [[row.needs.name, '<https://example.com/u>']] : [];
}

const plainRows = rows.filter((row) => !row.name.endsWith('*'));

test.each(plainRows.filter((row) => row.class === 'allowlisted'))('$name is admitted by both doors', (row) => {
  const headers: [string, string][] = [[row.name.toUpperCase(), goodValue(row)], ...companions(row)];
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  const smtp = admitted(smtpHeaders(lines));
  expect(smtp.custom[0]).toMatchObject({ name: row.name, text: goodValue(row), decoded: goodValue(row) });
  expect(admitted(restSubmission(headers)).custom[0]).toMatchObject({ name: row.name, text: goodValue(row) });
});

test.each(plainRows.filter((row) => row.class === 'platform' || row.class === 'mime'))(
  '$name cannot be set by REST',
  (row) => {
    expect(restCodes([[row.name.toLowerCase(), 'value']])).toEqual(['E_HEADER_NOT_ALLOWED']);
  },
);

test.each(plainRows.filter((row) => row.class === 'first-class'))('$name has a field of its own by REST', (row) => {
  const result = check(restSubmission([[row.name.toUpperCase(), 'a@example.com']]), context);
  expect(result).toMatchObject({
    ok: false,
    violations: [
      { code: 'E_HEADER_USE_API_FIELD', name: row.name.toUpperCase(), pointer: `/headers/${row.name.toUpperCase()}` },
    ],
  });
});

test.each([
  'DKIM-Signature',
  'Return-Path',
  'Received',
  'Feedback-ID',
  'ARC-Seal',
  'ARC-Anything',
  'TLS-Required',
  'TLS-Report-Domain',
  'TLS-Report-Submitter',
  'CFBL-Address',
  'CFBL-Feedback-ID',
  'User-Agent',
  'Sender',
  'Disposition-Notification-To',
  'Resent-From',
  'Errors-To',
  'Mailing-List',
])('%s is refused by both doors', (name) => {
  expect(smtpCodes([`${name}: value`])).toEqual(['E_HEADER_NOT_ALLOWED']);
  expect(restCodes([[name, 'value']])).toEqual(['E_HEADER_NOT_ALLOWED']);
});

test('the words of the contract', () => {
  const lines = ['User-Agent: x', 'DKIM-Signature: x', 'Received: x', 'Precedence: first-class', 'X-A: 1', 'x-a: 2'];
  expect(messages(check(smtpHeaders(lines), context))).toEqual([
    'E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist',
    'E_HEADER_NOT_ALLOWED: DKIM-Signature is set by the platform and cannot be given',
    'E_HEADER_NOT_ALLOWED: Received is set by the platform; only a trusted hop may bring its own',
    'E_HEADER_VALUE_INVALID: Precedence must be one of bulk, list, junk; got "first-class"',
    'E_HEADER_VALUE_INVALID: X-A appears 2 times, at most once is allowed',
  ]);
});

test('a message takes its places: lifted, MIME, custom, replaced (D3)', () => {
  const checked = admitted(
    smtpHeaders([
      'To: a@recipient.example,\r\n "B" <b@recipient.example>',
      'Cc: c@recipient.example',
      'Bcc: secret@recipient.example',
      'Reply-To: r@example.com',
      'SUBJECT:  Hello \t',
      'Date: yesterday',
      'Message-Id: <own@client.example.com>',
      'Mime-Version: 1.0',
      'content-type: text/plain;\r\n charset=utf-8',
      'Content-Transfer-Encoding: 8bit',
      'Content-Disposition: inline',
      'Content-ID: <a@b>',
      'Content-Description: d',
      'Content-Location: l',
      'x-Campaign_ID: 7',
      'in-reply-to: <a@b>',
    ]),
  );
  expect(checked.lifted).toMatchObject({
    from: { name: 'From', text: 'app@example.com' },
    to: { name: 'To', text: 'a@recipient.example, "B" <b@recipient.example>' },
    cc: { text: 'c@recipient.example' },
    replyTo: { name: 'Reply-To', text: 'r@example.com' },
    subject: { name: 'Subject', text: 'Hello' },
  });
  expect(Object.keys(checked.lifted).sort()).toEqual(['cc', 'from', 'replyTo', 'subject', 'to']);
  expect(checked.custom.map(({ name, text }) => [name, text])).toEqual([
    ['x-Campaign_ID', '7'],
    ['In-Reply-To', '<a@b>'],
  ]);
  expect(Object.keys(checked.mime)).toEqual([
    'mime-version',
    'content-type',
    'content-transfer-encoding',
    'content-disposition',
    'content-id',
    'content-description',
    'content-location',
  ]);
  expect(checked.mime['content-type']).toMatchObject({ name: 'Content-Type', text: 'text/plain; charset=utf-8' });
  expect(checked.mime['content-type']?.rawBytes.toString()).toBe(' text/plain;\r\n charset=utf-8');
  expect(checked).toMatchObject({
    clientMessageId: '<own@client.example.com>',
    from: { address: 'app@example.com', domain: 'example.com' },
    sendingDomain: { name: 'example.com' },
    trace: [],
    stripped: [],
    // x-Campaign_ID: 7 and In-Reply-To: <a@b>, each with its colon, blank and line end.
    usage: { allowlisted: 1, bytes: 13 + 4 + 1 + 11 + 4 + 5 },
  });
});

test('by REST the message’s own fields are lifted by their pointers', () => {
  const checked = admitted(
    restSubmission(
      [['X-A', 'b']],
      [
        ['From', 'App <app@mail.example.com>'],
        ['To', 'a@recipient.example'],
        ['Reply-To', 'r@example.com'],
        ['Subject', 'Grüße'],
      ],
    ),
  );
  expect(checked.lifted).toMatchObject({ subject: { text: 'Grüße' }, replyTo: { text: 'r@example.com' } });
  expect(checked.from).toEqual({ address: 'app@mail.example.com', domain: 'mail.example.com' });
});

test('by REST a From in headers does not repeat the field from, nor stand in for it', () => {
  expect(restCodes([['From', 'app@example.com']])).toEqual(['E_HEADER_USE_API_FIELD']);
  const result = check(restSubmission([['From', 'app@example.com']], [['Subject', 'x']]), context);
  expect(result).toMatchObject({
    violations: [
      { code: 'E_FIELD_MISSING', name: 'From', pointer: '/from' },
      { code: 'E_HEADER_USE_API_FIELD', pointer: '/headers/From' },
    ],
  });
});

test.each([
  ['X-A: b', 'x-a: b'],
  ['List-Id: b', 'LIST-ID: b'],
  ['Subject: a', 'Subject: a'],
  ['To: a@b', 'to: a@b'],
  ['Bcc: a@b', 'Bcc: a@b'],
  ['Content-Type: text/plain', 'Content-type: text/plain'],
  ['Date: x', 'Date: x'],
  ['Message-ID: <a@b>', 'Message-Id: <a@b>'],
])('%s and %s: a header twice is refused (D5)', (first, second) => {
  const result = check(smtpHeaders([first, 'X-Between: y', second]), context);
  const name = first.slice(0, first.indexOf(':'));
  expect(messages(result)).toEqual([`E_HEADER_VALUE_INVALID: ${name} appears 2 times, at most once is allowed`]);
});

test('a header three times is one violation', () => {
  expect(messages(check(smtpHeaders(['X-A: 1', 'X-A: 2', 'X-A: 3']), context))).toEqual([
    'E_HEADER_VALUE_INVALID: X-A appears 3 times, at most once is allowed',
  ]);
  expect(smtpCodes(['Foo: 1', 'foo: 2'])).toEqual(['E_HEADER_NOT_ALLOWED']);
  expect(smtpCodes(['Foo_1: 1', 'foo_1: 2'])).toEqual(['E_HEADER_NAME_INVALID']);
});

test.each([
  [['X-A: b', 'X-A: '], 'empty'],
  [[`X-A: ${'a'.repeat(2049)}`, 'X-A: '], 'empty'],
  [['X-A: b', `X-A: ${'a'.repeat(2049)}`], 'TOO_LONG'],
  [['Precedence: bulk', 'Precedence: x'], 'must be one of'],
  [['Precedence: first', 'Precedence: second'], 'got "first"'],
  [['X-A: b', 'X-A : c'], 'white space before its colon'],
])('of one name the first rule in the order of D2 is told: %#', (lines, told) => {
  const [message, ...others] = messages(check(smtpHeaders(lines), context));
  expect(message).toContain(told);
  expect(others).toEqual([]);
});

test.each([
  [2047, []],
  [2048, []],
  [2049, ['E_HEADER_VALUE_TOO_LONG']],
])('a value of %i bytes', (bytes, wanted) => {
  const ascii = 'a'.repeat(bytes);
  const multibyte = `${'é'.repeat(Math.floor(bytes / 2))}${'a'.repeat(bytes % 2)}`;
  for (const value of [ascii, multibyte]) {
    expect(restCodes([['X-A', value]])).toEqual(wanted);
    expect(restCodes([['X-A', ` \t${value}  `]])).toEqual(wanted);
    expect(codes(check(smtpHeadersUtf8([`X-A: ${value}`]), context))).toEqual(wanted);
    // The decoded form counts (D13), not the four characters for three octets that the words take.
    const words = `=?utf-8?B?${Buffer.from(value).toString('base64')}?=`;
    expect(smtpCodes([`X-A: ${words}`])).toEqual(wanted);
  }
});

test.each([
  [99, []],
  [100, []],
  [101, ['E_HEADER_NAME_INVALID']],
])('a name of %i bytes', (bytes, wanted) => {
  const name = `X-${'a'.repeat(bytes - 2)}`;
  expect(smtpCodes([`${name}: b`])).toEqual(wanted);
  expect(restCodes([[name, 'b']])).toEqual(wanted);
});

/** Twenty-five names less the Post header, which needs a companion. */
const freeNames = plainRows.filter((row) => row.class === 'allowlisted' && !row.needs);

test.each([
  [19, []],
  [20, []],
  [21, ['E_HEADERS_TOO_MANY']],
])('%i allowlisted headers', (count, wanted) => {
  const headers = freeNames.slice(0, count).map((row): [string, string] => [row.name, goodValue(row)]);
  const extensions = Array.from({ length: 30 }, (_, index): [string, string] => [`X-${index}`, 'b']);
  const all = [...extensions, ...headers];
  expect(headers.length).toBe(count);
  expect(restCodes(all)).toEqual(wanted);
  expect(smtpCodes(all.map(([name, value]) => `${name}: ${value}`))).toEqual(wanted);
});

test.each([
  [16_383, []],
  [16_384, []],
  [16_385, ['E_HEADERS_TOO_LARGE']],
])('custom headers of %i bytes together', (bytes, wanted) => {
  // Eight times 2 KiB less one header, whose value takes up the difference; an allowlisted one counts too.
  const headers = Array.from({ length: 7 }, (_, index): [string, string] => [`X-${index}`, 'a'.repeat(2041)]);
  headers.push(['Comments', 'é'.repeat(10)]);
  const used = 7 * 2048 + 8 + 4 + 20;
  headers.push(['X-9', 'a'.repeat(bytes - used - 7)]);
  const result = check(restSubmission(headers), context);
  expect(codes(result)).toEqual(wanted);
  expect(result.ok ? result.checked.usage : result.usage).toEqual({ allowlisted: 1, bytes });
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  expect(codes(check(smtpHeadersUtf8(lines), context))).toEqual(wanted);
});

test('lifted, MIME and replaced fields count for no limit', () => {
  const lines = [
    `Subject: ${'s'.repeat(20_000)}`,
    `Message-ID: <${'m'.repeat(3000)}@x>`,
    `Content-Description: ${'d'.repeat(3000)}`,
  ];
  expect(admitted(smtpHeaders(lines)).usage).toEqual({ allowlisted: 0, bytes: 0 });
});

const controls = [...Array.from({ length: 32 }, (_, code) => code).filter((code) => code !== 9), 127];

test.each(controls)('control character %i is refused in any value by both doors (D11)', (code) => {
  const character = String.fromCharCode(code);
  for (const value of [`a${character}b`, `a${character}`, `${character} a`, character]) {
    expect(restCodes([['X-A', value]])).toEqual(['E_HEADER_VALUE_INVALID']);
    expect(smtpCodes([`X-A: ${value}x`])).toEqual(['E_HEADER_VALUE_INVALID']);
    expect(smtpCodes([`Subject: ${value}x`])).toEqual(['E_HEADER_VALUE_INVALID']);
    expect(smtpCodes([`Date: ${value}x`])).toEqual(['E_HEADER_VALUE_INVALID']);
  }
  const hex = code.toString(16).padStart(2, '0');
  expect(smtpCodes([`X-A: =?utf-8?q?a=${hex}b?=`])).toEqual(['E_HEADER_VALUE_INVALID']);
  expect(restCodes([['X-A', `=?utf-8?q?a=${hex}b?=`]])).toEqual(['E_HEADER_VALUE_INVALID']);
  expect(smtpCodes([`Subject: =?utf-8?q?a=${hex}b?=`])).toEqual(['E_HEADER_VALUE_INVALID']);
});

test('TAB is no forbidden character', () => {
  expect(smtpCodes(['X-A: a\tb'])).toEqual([]);
  expect(restCodes([['X-A', '\ta\tb\t']])).toEqual([]);
});

test.each(['a\r\n b', 'a\r\n\tb', 'a\r\n', '\r\n a', 'a\rb', 'a\nb'])(
  'by REST %j is refused, a fold too (D11)',
  (value) => {
    expect(restCodes([['X-A', value]])).toEqual(['E_HEADER_VALUE_INVALID']);
  },
);

test('words of MIME and replaced fields are not judged: they stay as they came, or go', () => {
  const word = '=?utf-8?q?a=0Ab?=';
  expect(smtpCodes([`Content-Description: ${word}`, `Message-ID: ${word}`])).toEqual([]);
  expect(smtpCodes(['Content-Description: a\nb', 'Message-ID: a\nb'])).toEqual([
    'E_HEADER_VALUE_INVALID',
    'E_HEADER_VALUE_INVALID',
  ]);
});

test('lone surrogates are refused, in JSON and in words', () => {
  expect(restCodes([['X-A', 'a\ud800']])).toEqual(['E_HEADER_VALUE_INVALID']);
  expect(smtpCodes(['X-A: =?utf-16be?q?=D8=00=00a?='])).toEqual(['E_HEADER_VALUE_INVALID']);
});

test('a value that is no string is refused', () => {
  const submission = restSubmission([['X-A', '7']]);
  const fields = submission.fields.map((field) =>
    field.name === 'X-A' ? { ...field, fault: 'not-a-string' as const } : field,
  );
  expect(messages(check({ ...submission, fields }, context))).toEqual(['E_HEADER_VALUE_INVALID: X-A must be a string']);
});

test.each(['', ' ', '\t ', '=?utf-8?q??=', '=?utf-8?q?_?=', '=?utf-8?q?=09_?='])('%j is an empty value', (value) => {
  expect(smtpCodes([`X-A: ${value}`])).toEqual(['E_HEADER_VALUE_INVALID']);
  expect(restCodes([['X-A', value]])).toEqual(['E_HEADER_VALUE_INVALID']);
});

test('a no-break space is no blank', () => {
  expect(restCodes([['X-A', '\u00a0']])).toEqual([]);
});

test('empty lifted and MIME fields count as absent', () => {
  const checked = admitted(smtpHeaders(['Subject: ', 'To:', 'Cc:  ', 'Content-Type:', 'Message-ID: ']));
  expect(Object.keys(checked.lifted)).toEqual(['from']);
  expect(checked.mime).toEqual({});
  expect(checked.clientMessageId).toBeUndefined();
});

test.each([
  ['Precedence', 'BULK', 'bulk'],
  ['Precedence', ' List ', 'list'],
  ['Auto-Submitted', 'Auto-Generated', 'auto-generated'],
  ['Importance', 'High', 'high'],
  ['Priority', 'Non-Urgent', 'non-urgent'],
  ['Sensitivity', 'company-confidential', 'company-confidential'],
  ['Importance', '=?utf-8?q?High?=', 'high'],
])('%s: %s leaves as %s (D8)', (name, value, written) => {
  expect(admitted(smtpHeaders([`${name}: ${value}`])).custom[0]?.text).toBe(written);
  expect(admitted(restSubmission([[name, value]])).custom[0]?.text).toBe(written);
});

test.each([['auto-generated (failure)'], ['Auto-Replied (vacation)'], ['(a (nested \\) one)) AUTO-NOTIFIED\t(b)(c)']])(
  'Auto-Submitted: %s leaves as it was given (D8)',
  (value) => {
    expect(admitted(smtpHeaders([`Auto-Submitted: ${value}`])).custom[0]?.text).toBe(value);
    expect(admitted(restSubmission([['Auto-Submitted', value]])).custom[0]?.text).toBe(value);
  },
);

test.each([
  ['Precedence', 'first-class'],
  ['Precedence', 'bul\u212a'],
  ['Precedence', 'bulk; x'],
  ['Precedence', 'bulk, list'],
  ['Auto-Submitted', 'no'],
  ['Auto-Submitted', 'no (comment)'],
  ['Auto-Submitted', '(auto-generated)'],
  ['Auto-Submitted', 'auto-generated (never closed'],
  ['Auto-Submitted', 'auto-(x)generated'],
  ['Auto-Submitted', 'auto-generated auto-replied'],
  ['Auto-Submitted', '=?utf-8?q?auto-generated?= (x)'],
  ['Auto-Submitted', 'auto-generated (=?utf-8?q?=29_x?=)'],
  ['Auto-Submitted', 'auto-generated (x); type=x'],
  ['Auto-Submitted', 'auto-generated; type=x'],
  ['Precedence', 'bulk (x)'],
  ['Importance', '1'],
  ['Priority', 'high'],
  ['Sensitivity', '\u017fersonal'],
  ['List-Unsubscribe', '<http://example.com>'],
])('%s: %s is refused', (name, value) => {
  expect(restCodes([[name, value]])).toEqual(['E_HEADER_VALUE_INVALID']);
  expect(codes(check(smtpHeadersUtf8([`${name}: ${value}`]), context))).toEqual(['E_HEADER_VALUE_INVALID']);
});

const post = 'List-Unsubscribe-Post';
const oneClick = 'List-Unsubscribe=One-Click';

test.each([
  [
    'Post before its companion',
    [
      [post, oneClick],
      ['List-Unsubscribe', '<https://a/>'],
    ],
    [],
  ],
  [
    'Post behind it',
    [
      ['list-unsubscribe', '<mailto:a@b>, <https://a/>'],
      [post, oneClick],
    ],
    [],
  ],
  ['Post alone', [[post, oneClick]], [post]],
  [
    'Post with mailto only',
    [
      ['List-Unsubscribe', '<mailto:a@b>'],
      [post, oneClick],
    ],
    [post],
  ],
  [
    'Post in another case',
    [
      ['List-Unsubscribe', '<https://a/>'],
      [post, 'List-Unsubscribe=one-click'],
    ],
    [post],
  ],
  [
    'Post with a comment',
    [
      ['List-Unsubscribe', '<https://a/>'],
      [post, `${oneClick} (x)`],
    ],
    [post],
  ],
  [
    'http beside https is the other’s fault',
    [
      ['List-Unsubscribe', '<http://a/>, <https://a/>'],
      [post, oneClick],
    ],
    ['List-Unsubscribe'],
  ],
  [
    'http only is both’s',
    [
      ['List-Unsubscribe', '<http://a/>'],
      [post, oneClick],
    ],
    ['List-Unsubscribe', post],
  ],
] as const)('%s (D9)', (_, headers, refused) => {
  const result = check(restSubmission(headers), context);
  expect(result.ok ? [] : result.violations.map(({ code, name }) => [code, name])).toEqual(
    refused.map((name) => ['E_HEADER_VALUE_INVALID', name]),
  );
  expect(smtpCodes(headers.map(([name, value]) => `${name}: ${value}`))).toEqual(codes(result));
});

test('names are compared without the case of ASCII letters only (D10)', () => {
  expect(restCodes([['kEYWORDS', 'a']])).toEqual([]);
  expect(restCodes([['\u212aeywords', 'a']])).toEqual(['E_HEADER_NAME_INVALID']);
  expect(restCodes([['Li\u017ft-Id', 'a']])).toEqual(['E_HEADER_NAME_INVALID']);
  expect(restCodes([['List_Id', 'a']])).toEqual(['E_HEADER_NAME_INVALID']);
  expect(restCodes([['X-', 'a']])).toEqual(['E_HEADER_NAME_INVALID']);
  expect(restCodes([['', 'a']])).toEqual(['E_HEADER_NAME_INVALID']);
  expect(restCodes([['From:', 'a']])).toEqual(['E_HEADER_NAME_INVALID']);
});

test('faults of a line are faults of a name (D10)', () => {
  const raw = Buffer.from(' folded: from nothing\r\nFrom: app@example.com\r\nno colon here\r\nX-A : b\r\n\r\nHi\r\n');
  expect(messages(check(smtpSubmission(raw), context))).toEqual([
    'E_HEADER_NAME_INVALID: The header section begins with a continuation line',
    'E_HEADER_NAME_INVALID: The header line "no colon here" has no colon',
    'E_HEADER_NAME_INVALID: The header name "X-A" has white space before its colon',
  ]);
});

test('a header section too large is one violation, and nothing else is judged', () => {
  const submission = smtpSubmission(Buffer.from(`X-A: ${'a'.repeat(300_000)}\r\n\r\nHi\r\n`));
  expect(codes(check(submission, context))).toEqual(['E_HEADERS_TOO_LARGE']);
});

test('raw octets are UTF-8, else the legacy charset; the given text leaves, the decoded is judged (D13)', () => {
  const utf8 = admitted(smtpHeadersUtf8(['X-A: caf\u00e9']));
  expect(utf8.custom[0]).toMatchObject({ text: 'caf\u00e9', decoded: 'caf\u00e9' });
  const legacy = admitted(smtpHeaders(['X-A: caf\xe9 \x80', 'Subject: \xdcber']));
  expect(legacy.custom[0]?.text).toBe('caf\u00e9 \u20ac');
  expect(legacy.lifted.subject?.text).toBe('\u00dcber');
  const words = admitted(smtpHeaders(['X-A: =?iso-8859-1?q?caf=E9?=', 'Subject: =?utf-8?q?a?=\r\n =?utf-8?q?b?=']));
  expect(words.custom[0]).toMatchObject({ text: '=?iso-8859-1?q?caf=E9?=', decoded: 'caf\u00e9' });
  expect(words.lifted.subject).toMatchObject({ text: '=?utf-8?q?a?= =?utf-8?q?b?=', decoded: 'ab' });
});

test('collected fields come first, then the sender, then headers in their order, then the limits (D42b)', () => {
  const many = freeNames.slice(0, 21).map((row) => `${row.name}: ${goodValue(row)}`);
  const raw = ['User-Agent: x', 'X-A: ', 'From: a@b, c@d', ...many, 'Foo_: x', '', 'Hi'].join('\r\n');
  expect(codes(check(smtpSubmission(Buffer.from(raw), { reversePath: 'a@elsewhere.example' }), context))).toEqual([
    'E_VALIDATION_ERROR',
    'E_SENDER_NOT_VERIFIED',
    'E_HEADER_NOT_ALLOWED',
    'E_HEADER_VALUE_INVALID',
    'E_HEADER_NAME_INVALID',
    'E_HEADERS_TOO_MANY',
  ]);
});

test('check is pure: the same submission, the same verdict, nothing changed', () => {
  const submission = smtpHeaders(['X-A: =?utf-8?q?a?=', 'Precedence: BULK']);
  const before = JSON.stringify(submission.fields);
  expect(check(submission, context)).toEqual(check(submission, context));
  expect(JSON.stringify(submission.fields)).toBe(before);
});

test('a byte-order mark before the first header is named as one (D10)', () => {
  const mark = 'A byte-order mark (U+FEFF, the octets EF BB BF) stands before';
  const messages = (raw: string): string[] => {
    const result = check(smtpSubmission(Buffer.from(raw)), context);
    return result.ok ? [] : result.violations.map(({ message }) => message);
  };
  expect(messages('\ufeffSubject: x\r\nFrom: a@example.com\r\n\r\nHi\r\n')).toEqual([
    `${mark} "Subject": save the message without one`,
  ]);
  expect(messages('\ufeff\r\nFrom: a@example.com\r\n\r\nHi\r\n')).toEqual([`${mark} "": save the message without one`]);
  expect(messages('\ufeffFrom: a@example.com\r\n\r\nHi\r\n')).toContain(`${mark} "From": save the message without one`);
  expect(codes(check(restSubmission([['\ufeffX-A', 'b']]), context))).toEqual(['E_HEADER_NAME_INVALID']);
});

test('an address that no line can hold is refused by both doors where people would see it (D12)', () => {
  const long = `b@recipient.example,${'x'.repeat(1000)}@recipient.example`;
  for (const name of ['To', 'Cc', 'Reply-To']) {
    expect(codes(check(smtpHeaders([`${name}: ${long}`]), context))).toEqual(['E_HEADER_VALUE_INVALID']);
    expect(
      codes(
        check(
          restSubmission(
            [],
            [
              ['From', 'app@example.com'],
              [name, long],
            ],
          ),
          context,
        ),
      ),
    ).toEqual(['E_HEADER_VALUE_INVALID']);
  }
  expect(codes(check(smtpHeaders([`Bcc: ${long}`]), context))).toEqual([]);
  // From has a limit of its own, and one reason.
  const from = check(smtpSubmission(Buffer.from(`From: ${'x'.repeat(1000)}@example.com\r\n\r\nHi\r\n`)), context);
  expect(from.ok ? [] : from.violations.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^From has an address of over 254 octets; /),
  ]);
  expect(codes(check(smtpHeaders([`X-To: ${long}`, `Comments: ${long}`]), context))).toEqual([]);
});
