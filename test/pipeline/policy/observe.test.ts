// Observing in place of refusing (D4c): which reasons go with a header, what is left of a message, and until when.

import { describe, expect, test } from 'vitest';
import { laterPeriod, observePeriod } from '../../../src/accounts/observe-period.ts';
import { stripRules } from '../../../src/accounts/strip-rules.ts';
import { type CheckResult, check } from '../../../src/pipeline/policy/check.ts';
import { curedByRemoval } from '../../../src/pipeline/policy/observe.ts';
import { type RejectionCode, rejections } from '../../../src/pipeline/policy/rejections.ts';
import type { Submission } from '../../../src/pipeline/policy/submission.ts';
import { build } from '../../../src/pipeline/submit.ts';
import { goldenParts, makeGoldenKeys, withoutSignatureValues } from '../../support/golden-gateway.ts';
import { clockOf } from '../../support/manual-clock.ts';
import {
  codes,
  context,
  restSubmission,
  type SubmissionOptions,
  smtpSubmission,
} from '../../support/policy-fixtures.ts';
import fc from '../../support/properties.ts';

const hostname = 'mx.platform.example';
const period = observePeriod('2027-01-31');
const during = Date.UTC(2027, 0, 15);
const observing = { ...context, observing: { nowMs: during, hostname } };

function message(lines: readonly string[], options: SubmissionOptions = {}, body = 'Hi'): Submission {
  const raw = Buffer.from([...lines, '', body, ''].join('\r\n'), 'latin1');
  return { ...smtpSubmission(raw, options), observe: period };
}

const from = 'From: app@example.com';

function judged(lines: readonly string[], options: SubmissionOptions = {}): CheckResult {
  return check(message([from, ...lines], options), observing);
}

/** `Name CODE` of what was removed; the codes of the refusal, each with `!`, where it was refused. */
function removed(lines: readonly string[], options: SubmissionOptions = {}): readonly string[] {
  const result = judged(lines, options);
  return result.ok
    ? result.checked.observed.map(({ name, code }) => `${name} ${code}`)
    : codes(result).map((code) => `!${code}`);
}

const invalid = 'E_HEADER_VALUE_INVALID';
const many = (count: number, line: (index: number) => string): string[] =>
  Array.from({ length: count }, (_, index) => line(index));
const allowlisted = [
  'In-Reply-To: <a@b.example>',
  'References: <a@b.example>',
  'Thread-Index: a',
  'Thread-Topic: a',
  'List-Id: a',
  'List-Archive: a',
  'List-Help: a',
  'List-Owner: a',
  'List-Post: a',
  'List-Subscribe: a',
  'Precedence: bulk',
  'Auto-Submitted: auto-generated',
  'Content-Language: en',
  'Keywords: a',
  'Comments: a',
  'Importance: high',
  'Priority: urgent',
  'Sensitivity: private',
  'Organization: a',
  'Expires: a',
  'Reply-By: a',
  'Archived-At: a',
];

/** A message for every reason that the policy has, and what observing makes of it; `never`: it goes with no header. */
const rows: Readonly<Record<RejectionCode, 'never' | readonly (readonly [readonly string[], readonly string[]])[]>> = {
  E_HEADER_NOT_ALLOWED: [
    [['User-Agent: x'], ['User-Agent E_HEADER_NOT_ALLOWED']],
    [
      ['DKIM-Signature: v=1', 'ARC-Seal: i=1', 'Sender: a@b.example', 'Received: from a by b.example; now'],
      ['DKIM-Signature', 'ARC-Seal', 'Sender', 'Received'].map((name) => `${name} E_HEADER_NOT_ALLOWED`),
    ],
  ],
  E_HEADER_USE_API_FIELD: 'never',
  E_HEADER_VALUE_INVALID: [
    [['Precedence: first-class'], [`Precedence ${invalid}`]],
    [['X-A:'], [`X-A ${invalid}`]],
    [['X-A: \0'], [`X-A ${invalid}`]],
    [
      ['Date: a', 'Date: b'],
      [`Date ${invalid}`, `Date ${invalid}`],
    ],
    [['Subject: a\0'], [`!${invalid}`]],
    [['Subject: a', 'Subject: a'], [`!${invalid}`]],
    [['To: a@b.example', 'To: c@d.example'], [`!${invalid}`]],
    [['Content-Type: text/plain', 'Content-Type: text/html'], [`!${invalid}`]],
    [['Require-Recipient-Valid-Since: \0'], [`!${invalid}`]],
  ],
  E_HEADER_VALUE_TOO_LONG: [[[`X-A: ${'a'.repeat(2049)}`], ['X-A E_HEADER_VALUE_TOO_LONG']]],
  E_HEADER_NAME_INVALID: [
    [['MSIP_Labels: x'], ['MSIP_Labels E_HEADER_NAME_INVALID']],
    [[`X-${'a'.repeat(120)}: x`], [`X-${'a'.repeat(120)} E_HEADER_NAME_INVALID`]],
    [['X-A : x'], ['X-A  E_HEADER_NAME_INVALID']],
    [['Subject : x'], ['!E_HEADER_NAME_INVALID']],
    [['From : b@example.com'], ['!E_HEADER_NAME_INVALID']],
    [['No colon here'], ['!E_HEADER_NAME_INVALID']],
    [['Hello'], ['!E_HEADER_NAME_INVALID']],
    [['Dear Sir, note: text of the body'], ['!E_HEADER_NAME_INVALID']],
    [['\xef\xbb\xbfSubject: x'], ['!E_HEADER_NAME_INVALID']],
  ],
  E_HEADERS_TOO_LARGE: [
    [many(9, (index) => `X-${index}: ${'a'.repeat(2000)}`), ['X-8 E_HEADERS_TOO_LARGE']],
    [many(2001, (index) => `X-${index}: a`), ['!E_HEADERS_TOO_LARGE']],
  ],
  E_HEADERS_TOO_MANY: [[allowlisted, ['Reply-By E_HEADERS_TOO_MANY', 'Archived-At E_HEADERS_TOO_MANY']]],
  E_VALIDATION_ERROR: 'never',
  E_FIELD_MISSING: 'never',
  E_MAIL_LOOP: 'never',
  E_TOO_MANY_RECIPIENTS: 'never',
  E_TOO_MANY_ATTACHMENTS: 'never',
  E_SENDER_NOT_VERIFIED: 'never',
  E_RECIPIENT_SUPPRESSED: 'never',
  E_CONTENT_TOO_LARGE: 'never',
  E_RATE_LIMIT_EXCEEDED: 'never',
  E_DAILY_LIMIT_EXCEEDED: 'never',
  E_NO_ROOM: 'never',
  E_INTERNAL_SERVER_ERROR: 'never',
};

test('every reason has its row', () => {
  expect(Object.keys(rows)).toEqual(Object.keys(rejections));
});

for (const [code, cases] of Object.entries(rows)) {
  if (cases === 'never') {
    test(`${code} is no reason that goes with a header`, () => {
      expect(curedByRemoval.has(code as RejectionCode)).toBe(false);
    });
    continue;
  }
  for (const [lines, wanted] of cases) {
    test(`${code}: ${JSON.stringify(lines).slice(0, 60)}`, () => {
      expect(removed(lines)).toEqual(wanted);
    });
  }
}

test.each([
  ['From: a@elsewhere.example', 'E_SENDER_NOT_VERIFIED'],
  ['From: a@example.com, b@example.com', 'E_VALIDATION_ERROR'],
  ['From: <', 'E_VALIDATION_ERROR'],
  ['X-No-From: x', 'E_FIELD_MISSING'],
])('%s stays refused, and every reason is told as ever', (line, code) => {
  const result = check(message([line, 'User-Agent: x']), observing);
  expect(codes(result)).toEqual([code, 'E_HEADER_NOT_ALLOWED']);
});

test('From twice, a reverse-path of another domain, and a loop of a trusted hop stay refused', () => {
  expect(codes(check(message([from, from, 'User-Agent: x']), observing))).toEqual([invalid, 'E_HEADER_NOT_ALLOWED']);
  expect(removed(['User-Agent: x'], { reversePath: 'a@elsewhere.example' })).toEqual([
    '!E_SENDER_NOT_VERIFIED',
    '!E_HEADER_NOT_ALLOWED',
  ]);
  const oldbox = { credential: 'oldbox' };
  expect(
    removed(
      many(51, () => 'Received: x'),
      oldbox,
    ),
  ).toEqual(['!E_MAIL_LOOP']);
  // Without its trace a loop would never be noticed.
  expect(removed(['Received: x\0'], oldbox)).toEqual([`!${invalid}`]);
});

test('a message that has been here already is not freed of its trace: it may come round again', () => {
  const own = `Received: from a.example\r\n\tby\r\n MX.Platform.Example (Postern) with ESMTPA id 1; now`;
  expect(removed([own])).toEqual(['!E_HEADER_NOT_ALLOWED']);
  expect(removed([own.replace('Received:', 'Received :')])).toEqual(['!E_HEADER_NAME_INVALID']);
  expect(removed([own.replace('Platform', 'other')])).toEqual(['Received E_HEADER_NOT_ALLOWED']);
  // As many as would be a loop of a trusted hop.
  expect(removed(many(50, () => 'Received: x'))).toHaveLength(50);
  expect(removed(many(51, () => 'Received: x'))).toEqual(['!E_HEADER_NOT_ALLOWED']);
});

describe('names that repeat', () => {
  test('the later ones go where all say the same, else all of them', () => {
    expect(removed(['X-A: 1', 'X-B: 1', 'x-a:  1', 'X-A: 1'])).toEqual([`x-a ${invalid}`, `X-A ${invalid}`]);
    expect(removed(['X-A: 1', 'x-a: 2', 'X-A: 1'])).toEqual([`X-A ${invalid}`, `x-a ${invalid}`, `X-A ${invalid}`]);
  });

  test('one with a fault of its own goes first; the other may stay', () => {
    expect(removed(['X-A:', 'X-A: 1'])).toEqual([`X-A ${invalid}`]);
    expect(removed(['X-A: 2', 'X-A:', 'X-A: 1'])).toEqual([`X-A ${invalid}`, `X-A ${invalid}`, `X-A ${invalid}`]);
  });
});

test('what needs another that goes goes too', () => {
  const post = 'List-Unsubscribe-Post: List-Unsubscribe=One-Click';
  const gone = [`List-Unsubscribe-Post ${invalid}`, `List-Unsubscribe ${invalid}`];
  expect(removed([post, 'List-Unsubscribe: <http://a.example>'])).toEqual(gone);
  expect(removed([post])).toEqual([gone[0]]);
  // Beyond the limit, and with it what it was needed for.
  expect(removed([post, ...allowlisted.slice(0, 19), 'List-Unsubscribe: <https://a.example/>'])).toEqual([
    gone[0],
    'List-Unsubscribe E_HEADERS_TOO_MANY',
  ]);
});

test('no more goes than has to: faulty headers count for no limit once they are gone', () => {
  expect(removed([...allowlisted.slice(0, 20), 'Reply-By: \0'])).toEqual([`Reply-By ${invalid}`]);
  expect(removed([...many(8, (index) => `X-${index}: ${'a'.repeat(2000)}`), `X-Long: ${'a'.repeat(3000)}`])).toEqual([
    'X-Long E_HEADER_VALUE_TOO_LONG',
  ]);
});

test('what the operator strips is stripped, and not named as observed', () => {
  const submission = message([from, 'X-A: 1', 'User-Agent: x', 'X-A: 2', 'Autocrypt: y']);
  const { account, credential } = submission.submitter;
  const strip = stripRules({ strip: ['User-Agent'], keepFirst: ['X-A'] });
  const result = check({ ...submission, submitter: { account, credential: { ...credential, strip } } }, observing);
  expect(result).toMatchObject({
    ok: true,
    checked: { stripped: ['User-Agent', 'X-A'], observed: [{ name: 'Autocrypt', index: 4 }] },
  });
});

describe('until when', () => {
  const at = (nowMs: number, submission = message([from, 'User-Agent: x'])): readonly string[] =>
    codes(check(submission, { ...context, observing: { nowMs, hostname } }));

  test('the day itself observes, the next does not', () => {
    expect(at(Date.UTC(2027, 0, 31, 23, 59, 59, 999))).toEqual([]);
    expect(at(Date.UTC(2027, 1, 1))).toEqual(['E_HEADER_NOT_ALLOWED']);
  });

  test('without a period, or where nobody says what time it is, the policy is enforced', () => {
    const { observe: _, ...strict } = message([from, 'User-Agent: x']);
    expect(at(during, strict)).toEqual(['E_HEADER_NOT_ALLOWED']);
    expect(codes(check(message([from, 'User-Agent: x']), context))).toEqual(['E_HEADER_NOT_ALLOWED']);
  });

  test('of a credential’s and a listener’s day the later counts', () => {
    const early = observePeriod('2026-12-31');
    expect(laterPeriod(early, period)).toBe(period);
    expect(laterPeriod(period, early)).toBe(period);
    expect(laterPeriod(undefined, early)).toBe(early);
    expect(laterPeriod(undefined, undefined)).toBeUndefined();
  });
});

test('a request of send and a report of our own are never observed, whatever their submission says', () => {
  const rest = { ...restSubmission([['User-Agent', 'x']]), observe: period };
  expect(codes(check(rest, observing))).toEqual(['E_HEADER_NOT_ALLOWED']);
  const { via, ...rested } = message([from, 'User-Agent: x']);
  expect(codes(check({ ...rested, via: { ...via, kind: 'dsn' } }, observing))).toEqual(['E_HEADER_NOT_ALLOWED']);
  expect(codes(check({ ...rested, via: { ...via, kind: 'raw' } }, observing))).toEqual([]);
});

test('10,000 offending headers are judged as often as ten', { timeout: 60_000 }, () => {
  const rounds = (count: number, line: (index: number) => readonly [string, string]): number => {
    let calls = 0;
    const fields = many(count, String).map((_, index) => {
      const [name, value] = line(index);
      return { name, rawBytes: Buffer.from(value) };
    });
    const submission = message([from]);
    const counted = {
      ...observing,
      sendingDomain: (...[account, domain]: Parameters<typeof context.sendingDomain>) => {
        calls += 1;
        return context.sendingDomain(account, domain);
      },
    };
    const result = check({ ...submission, fields: [...submission.fields, ...fields] }, counted);
    expect(result).toMatchObject({ ok: true });
    return calls;
  };
  for (const line of [
    (index: number) => [`Foo-${index}`, 'x'] as const,
    (index: number) => ['X-A', String(index)] as const,
    () => ['X-A', 'same'] as const,
    (index: number) => [`X-${index}`, index % 2 === 0 ? 'a'.repeat(2100) : 'b'.repeat(1600)] as const,
  ]) {
    expect(rounds(10_000, line)).toBe(rounds(10_000 / 100, line));
    expect(rounds(10_000, line)).toBeLessThanOrEqual(8);
  }
});

describe('what leaves', () => {
  const keys = makeGoldenKeys();
  const parts = { ...goldenParts(keys), clock: clockOf(() => during) };

  async function sent(submission: Submission): Promise<string> {
    const built = await build(submission, parts);
    if (!built.ok) return built.violations.map(({ code }) => code).join(' ');
    return withoutSignatureValues(Buffer.concat([built.signed.head, built.signed.body]));
  }

  test('a body that is refused stays refused, and the headers are told with it', async () => {
    expect(await sent(message([from, 'User-Agent: x'], {}, 'a\0b'))).toBe('E_HEADER_NOT_ALLOWED E_VALIDATION_ERROR');
  });

  test.each(['E_RATE_LIMIT_EXCEEDED', 'E_DAILY_LIMIT_EXCEEDED', 'E_INTERNAL_SERVER_ERROR'] as const)(
    'a limit that is reached stays the answer: %s',
    async (code) => {
      const charge = () => Promise.resolve({ code, message: 'x' });
      const built = await build(message([from, 'User-Agent: x']), { ...parts, charge });
      expect(built).toEqual({ ok: false, violations: [{ code, message: 'x' }] });
    },
  );

  test('what is too large without the headers stays refused', async () => {
    const built = await build({ ...message([from, 'User-Agent: x']), composedBytesLimit: 500 }, parts);
    expect(built).toMatchObject({ ok: false, violations: [{ code: 'E_CONTENT_TOO_LARGE' }] });
  });

  test('a domain without a key stays refused', async () => {
    const built = await build(message([from, 'User-Agent: x']), { ...parts, domainKeys: () => [] });
    expect(built).toMatchObject({ ok: false, violations: [{ code: 'E_SENDER_NOT_VERIFIED' }] });
  });

  test('a removed header does not leave its continuation lines to the one before it, nor takes the next with it', async () => {
    const smuggled = [
      'X-Before: 1',
      'Foo: x\r\n From: evil@elsewhere.example\r\n\tBcc: x@y.example',
      'X-After: 2',
      'Subject: s',
    ];
    const text = await sent(message([from, ...smuggled]));
    expect(text).toContain('\r\nX-Before: 1\r\nX-After: 2\r\n');
    expect(text).not.toMatch(/elsewhere|y\.example/);
    expect(text).toBe(await sent(message([from, 'X-Before: 1', 'X-After: 2', 'Subject: s'])));
  });

  const line = fc.oneof(
    fc.constantFrom(
      'User-Agent: x',
      'Autocrypt: y\r\n folded',
      'X-A: 1',
      'x-a: 1',
      'X-A: 2',
      'X-B:',
      'Precedence: bulk',
      'Precedence: first-class',
      'Message-ID: <a@b.example>',
      'Message-ID: <c@d.example>',
      'Date: now',
      'Received: from a by b; now',
      'List-Unsubscribe: <https://example.com/u>',
      'List-Unsubscribe: <http://example.com/u>',
      'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
      'Subject: s',
      'To: a@b.example',
      'Sender: root@elsewhere.example',
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=iso-8859-1',
      'Foo_Bar: x',
      'X-C : x',
      'Loose text',
      'From: b@example.com',
      'Reply-To : c@example.com',
      'Importance: =?utf-8?q?high?=',
      'Keywords: caf\xe9',
    ),
    fc.nat(30).map((index) => `X-Large-${index}: ${'a'.repeat(1200)}`),
    fc.constantFrom(...allowlisted),
  );

  test('the octets of the message as if it had been sent without them; nothing else passes', async () => {
    let observed = 0;
    let refused = 0;
    const property = fc.asyncProperty(
      fc.array(line, { maxLength: 40 }),
      fc.constantFrom(from, 'From: a@elsewhere.example'),
      async (lines, sender) => {
        const submission = message([sender, ...lines], {}, 'gr\xfc\xdfe');
        const { observe: _, ...strict } = submission;
        const enforced = check(strict, observing);
        const result = check(submission, observing);
        if (enforced.ok) {
          expect(result).toEqual({ ...enforced, checked: { ...enforced.checked, submission } });
          return;
        }
        if (!result.ok) {
          refused += 1;
          expect(result).toEqual(enforced);
          return;
        }
        observed += 1;
        expect(result.forgiven).toEqual(enforced.violations);
        expect(result.forgiven.filter(({ code }) => !curedByRemoval.has(code))).toEqual([]);
        const gone = new Set(result.checked.observed.map(({ index }) => index));
        expect(gone.size).toBe(result.checked.observed.length);
        expect([...gone].map((index) => submission.fields[index]?.name)).toEqual(
          result.checked.observed.map(({ name }) => name),
        );
        const without = { ...strict, fields: strict.fields.filter((_field, index) => !gone.has(index)) };
        expect(check(without, context)).toMatchObject({ ok: true, checked: { from: result.checked.from } });
        if (observed % 10 === 0) expect(await sent(submission)).toBe(await sent(without));
      },
    );
    await fc.assert(property, { numRuns: 1500 });
    expect(observed).toBeGreaterThan(100);
    expect(refused).toBeGreaterThan(100);
  });
});
