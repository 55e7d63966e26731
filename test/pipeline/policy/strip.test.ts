// What an operator has removed for one credential: names, beginnings of names, empty fields, later ones of a name (D4a).

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type StripSettings, stripRules } from '../../../src/accounts/strip-rules.ts';
import { check, mayStrip } from '../../../src/pipeline/policy/check.ts';
import { explain, readVerdict } from '../../../src/pipeline/policy/explain.ts';
import { stripSets } from '../../../src/pipeline/policy/strip-sets.ts';
import type { Submission } from '../../../src/pipeline/policy/submission.ts';
import { context, smtpSubmission } from '../../support/policy-fixtures.ts';

test.each(['User-Agent', 'x-cron-env', 'Received', 'Date', 'List-Id', 'DKIM-Signature', 'ARC-Seal', 'Sender'])(
  '%s may be stripped',
  (name) => {
    expect(mayStrip(name)).toBe(true);
  },
);

test.each([
  'From',
  'to',
  'CC',
  'Bcc',
  'Subject',
  'Reply-To',
  'MIME-Version',
  'Content-Type',
  'content-id',
  'Content-Location',
])('%s may not be stripped (D4a)', (name) => {
  expect(mayStrip(name)).toBe(false);
});

function withRules(headers: string, settings: StripSettings): Submission {
  const submission = smtpSubmission(Buffer.from(`From: a@example.com\r\n${headers}\r\n\r\nx\r\n`, 'latin1'));
  const { account, credential } = submission.submitter;
  return { ...submission, submitter: { account, credential: { ...credential, strip: stripRules(settings) } } };
}

/** Codes of the refusal, or the names removed. */
function verdict(headers: string, settings: StripSettings): readonly string[] {
  const result = check(withRules(headers, settings), context);
  return result.ok
    ? result.checked.stripped
    : result.violations.map(({ code, name }) => `${code.slice(9)} ${name ?? ''}`);
}

describe('patterns', () => {
  const exchange = 'X-MS-Exchange-A: 1\r\nx-ms-exchange-b: \r\nX-MS-ExchangeC: 2\r\nARC-Seal: i=1';

  test('one trailing * takes every name that begins so, in any case', () => {
    expect(verdict(exchange, {})).toEqual(['VALUE_INVALID x-ms-exchange-b', 'NOT_ALLOWED ARC-Seal']);
    expect(verdict(exchange, { strip: ['x-ms-EXCHANGE-*', 'ARC-*'] })).toEqual([
      'X-MS-Exchange-A',
      'x-ms-exchange-b',
      'ARC-Seal',
    ]);
  });

  test('no pattern takes lifted or MIME fields', () => {
    const headers = 'Content-Type: text/plain\r\nContent-Class: urn:x\r\nReply-To: b@example.com\r\nRe-Sent: x';
    expect(verdict(headers, { strip: ['Content-*', 'Re*'] })).toEqual(['Content-Class', 'Re-Sent']);
  });

  test('a name that breaks the syntax can be taken out, a line that is no field cannot', () => {
    expect(verdict('MSIP_Labels: x', {})).toEqual(['NAME_INVALID MSIP_Labels']);
    expect(verdict('MSIP_Labels: x', { strip: ['msip_labels'] })).toEqual(['MSIP_Labels']);
    expect(verdict('No colon here', { strip: ['no*'] })).toEqual(['NAME_INVALID No colon here']);
    expect(verdict('X-A : x', { strip: ['x-*'] })).toEqual(['NAME_INVALID X-A ']);
  });
});

describe('stripEmpty', () => {
  test.each(['', ' ', ' \t', '\r\n \r\n ', ' =?utf-8?Q??=', ' =?utf-8?Q?_?='])('takes out a value of %j', (value) => {
    expect(verdict(`X-A:${value}\r\nUser-Agent:${value}`, { stripEmpty: true })).toEqual(['X-A', 'User-Agent']);
  });

  test('takes out a word that holds nothing but octets that its encoding has not', () => {
    const submission = withRules('X-A: =?utf-8?B?\xff\xff?=', { stripEmpty: true });
    expect(check(submission, context)).toMatchObject({ ok: true, checked: { stripped: ['X-A'] } });
  });

  test.each([' x', ' =?utf-8?Q?=00?=', ' =?utf-8?Q?x?=', ' ='])('leaves %j to the policy', (value) => {
    const judged = verdict(`X-A:${value}`, { stripEmpty: true });
    expect(judged).toEqual(verdict(`X-A:${value}`, {}));
  });

  test('does not touch lifted and MIME fields', () => {
    expect(verdict('Subject:\r\nContent-ID:\r\nTo:', { stripEmpty: true })).toEqual([]);
  });
});

describe('keepFirst', () => {
  test('later ones of a name go, in any case', () => {
    const headers = 'X-Loop: a\r\nx-loop: b\r\nX-Other: c\r\nX-LOOP: d';
    expect(verdict(headers, {})).toEqual(['VALUE_INVALID X-Loop']);
    expect(verdict(headers, { keepFirst: ['x-Loop'] })).toEqual(['x-loop', 'X-LOOP']);
  });

  test('the first is judged like any other; one that goes for being empty is not the first', () => {
    expect(verdict('User-Agent: a\r\nUser-Agent: b', { keepFirst: ['user-agent'] })).toEqual([
      'NOT_ALLOWED User-Agent',
    ]);
    expect(verdict('X-A:\r\nX-A: 1\r\nX-A: 2', { keepFirst: ['X-A'], stripEmpty: true })).toEqual(['X-A', 'X-A']);
  });

  test('does not touch lifted fields', () => {
    expect(verdict('Subject: a\r\nSubject: b', { keepFirst: ['subject'] })).toEqual(['VALUE_INVALID Subject']);
  });
});

describe('stripInvalid', () => {
  test.each([
    ['a word that is not allowed', 'Precedence: urgent'],
    ['a value that is too long', `Precedence: ${'a '.repeat(1100)}b`],
    ['a forbidden character', 'precedence: bu\u0007lk'],
    ['no value', 'Precedence:'],
  ])('takes out %s, and nothing without it', (_, header) => {
    expect(verdict(header, {})).toEqual([expect.stringMatching(/^VALUE_\S+ precedence$/i)]);
    expect(verdict(header, { stripInvalid: ['PRECEDENCE'] })).toEqual([header.slice(0, 10)]);
  });

  test('leaves good values, other names and other reasons alone', () => {
    const headers = 'Precedence: bulk\r\nImportance: huge\r\nUser-Agent: x\r\nPriority_: x';
    const stripInvalid = ['Precedence', 'User-Agent', 'Priority*'];
    expect(verdict(headers, { stripInvalid })).toEqual(verdict(headers, {}));
    expect(verdict('X-A: 1\r\nX-A: 2', { stripInvalid: ['X-A'] })).toEqual(['VALUE_INVALID X-A']);
  });

  test('one trailing * takes every name that begins so; none takes lifted and MIME fields', () => {
    const headers = 'X-A: a\u0007b\r\nX-B: a\r\nSubject: a\u0007b';
    expect(verdict(headers, { stripInvalid: ['x-*'] })).toEqual(['VALUE_INVALID Subject']);
    expect(verdict(headers, { stripInvalid: ['*'] })).toEqual(['VALUE_INVALID Subject']);
    expect(verdict('X-A: a\u0007b\r\nX-B: a', { stripInvalid: ['x-*'] })).toEqual(['X-A']);
  });

  test('a field that goes for its value is not the first of its name', () => {
    const headers = 'Precedence: urgent\r\nPrecedence: bulk\r\nPrecedence: list';
    const settings = { stripInvalid: ['Precedence'], keepFirst: ['Precedence'] };
    expect(verdict(headers, settings)).toEqual(['Precedence', 'Precedence']);
    const result = check(withRules(headers, settings), context);
    expect(result).toMatchObject({ ok: true, checked: { custom: [{ name: 'Precedence', text: 'bulk' }] } });
  });

  test('a field goes too whose companion is missing, be it for that', () => {
    const headers = 'List-Unsubscribe: http://a.test\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click';
    expect(verdict(headers, { stripInvalid: ['List-Unsubscribe'] })).toEqual(['VALUE_INVALID List-Unsubscribe-Post']);
    expect(verdict(headers, { stripInvalid: ['List-*'] })).toEqual(['List-Unsubscribe', 'List-Unsubscribe-Post']);
  });
});

test('the verdict says why a field was removed', () => {
  const submission = withRules('X-A:\r\nX-B: 1\r\nX-B: 2\r\nX-C: 1\r\nX-D: a\u0007b', {
    strip: ['X-C'],
    stripInvalid: ['X-D'],
    stripEmpty: true,
    keepFirst: ['X-B'],
  });
  const rules = explain(submission, context).headers.map(({ name, rule }) => `${name} ${rule}`);
  expect(rules[1]).toMatch(/X-A Removed: it has no value/);
  expect(rules[3]).toMatch(/X-B Removed: one of its name came before/);
  expect(rules[4]).toMatch(/X-C Removed: the operator named it/);
  expect(rules[5]).toMatch(/X-D Removed: its value would be refused/);
  let letters = '';
  check(submission, { ...context, tellVerdicts: (given) => (letters = given()) });
  expect(readVerdict(letters.at(-1) ?? '', 'X-D')).toMatchObject({ verdict: 'stripped', rule: rules[5]?.slice(4) });
});

test('docs/mailers.md shows every set, field by field', () => {
  const text = readFileSync(resolve(import.meta.dirname, '../../../docs/mailers.md'), 'utf8');
  for (const [name, entries] of Object.entries(stripSets)) {
    const rows = entries.map(({ pattern, why }) => `| \`${pattern}\` | ${why} |`);
    expect(text).toContain(`**${name}**\n\n| Field | What it is |\n|---|---|\n${rows.join('\n')}\n`);
  }
});

test('every entry of a set can be removed', () => {
  for (const entries of Object.values(stripSets))
    for (const { pattern } of entries) expect(mayStrip(pattern)).toBe(true);
});

test('a trace that is removed counts before: hops, and passes of this gateway, whose number lives on', () => {
  const strip = { strip: ['Received'] };
  const hops = (count: number) =>
    Array.from({ length: count }, (_, hop) => `Received: from h${hop} by h; date`).join('\r\n');
  expect(verdict(hops(50), strip)).toHaveLength(50);
  expect(verdict(hops(51), strip)).toEqual([expect.stringContaining('Received')]);
  const passed = (mark: string) => {
    const own = { ...context, hostname: 'mx.example' };
    const result = check(withRules(`Received: from a by mx.example (Postern${mark}) with SMTP id 1; date`, strip), own);
    return result.ok ? result.checked.passes : result.violations.map(({ code }) => code);
  };
  expect(['', '; pass 2', '; pass 3', '; pass 4', '; pass 999', '; pass 1000'].map(passed)).toEqual([
    1,
    2,
    3,
    ['E_MAIL_LOOP'],
    ['E_MAIL_LOOP'],
    undefined,
  ]);
});
