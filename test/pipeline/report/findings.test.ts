// What was found, by credential and mailer: counts, the last time, the proposal, and its bounds.

import { expect, test } from 'vitest';
import { senderMap } from '../../../src/accounts/sender-map.ts';
import { stripRules } from '../../../src/accounts/strip-rules.ts';
import { type Finding, Findings, MAX_MAILERS, MAX_ROWS, otherMailers } from '../../../src/pipeline/report/findings.ts';
import { credentialJson, credentialText, printableJson } from '../../../src/pipeline/report/print.ts';
import { VerdictComparison } from '../../../src/pipeline/report/rehearse.ts';
import { hasSetting } from '../../../src/pipeline/report/settings.ts';
import type { EventViolation } from '../../../src/spool/events/mail-event.ts';
import { devAccount } from '../../support/policy-fixtures.ts';

const present = (account: string, name: string) => (account === 'dev' ? devAccount.credentials.get(name) : undefined);

function notAllowed(field: string): EventViolation {
  return { code: 'E_HEADER_NOT_ALLOWED', message: `${field} is not on the allowlist`, field };
}

function finding(changes: Partial<Finding> = {}): Finding {
  return {
    account: 'dev',
    credential: 'default',
    mailer: 'User-Agent: Mua/1',
    at: 1_767_225_600_000,
    accepted: false,
    reasons: [notAllowed('User-Agent')],
    facts: { sendingDomains: ['example.com'] },
    ...changes,
  };
}

function reportOf(...all: Finding[]) {
  const findings = new Findings();
  for (const one of all) findings.add(one);
  return findings.report(present);
}

test('reasons of one rule are one row, with its count and the last time; others are another', () => {
  const [report] = reportOf(
    finding(),
    finding({ at: 1_767_225_700_000, reasons: [notAllowed('user-agent'), notAllowed('Sender')] }),
    finding({ accepted: true, reasons: [], mailer: 'anybody' }),
  );
  expect(report).toMatchObject({ accepted: 1, refused: 2, proposal: { strip: ['Sender', 'User-Agent'] } });
  expect(report?.mailers).toHaveLength(1);
  expect(report?.mailers[0]?.problems.map(({ field, count, lastSeen }) => [field, count, lastSeen])).toEqual([
    ['User-Agent', 2, 1_767_225_700_000],
    ['Sender', 1, 1_767_225_700_000],
  ]);
});

test('numbers and quoted values of a reason do not make rows', () => {
  const repeated = (count: number): EventViolation => ({
    code: 'E_HEADER_VALUE_INVALID',
    message: `X-Loop appears ${count} times, at most once is allowed`,
    field: 'X-Loop',
  });
  const [report] = reportOf(finding({ reasons: [repeated(2)] }), finding({ reasons: [repeated(9)] }));
  expect(report?.mailers[0]?.problems).toHaveLength(1);
});

test('a sender that nobody owns is one row where one line cures MAIL and From, and counts once for a message', () => {
  const atMail = (domain: string): EventViolation => ({
    code: 'E_SENDER_NOT_VERIFIED',
    message: `${domain} is no sending domain of account dev`,
  });
  const atFrom = (domain: string): EventViolation => ({
    code: 'E_SENDER_NOT_VERIFIED',
    message: `${domain} (domain of From) is not a sending domain of account dev`,
    field: 'From',
  });
  const both = (domain: string, senderPath = `root@${domain}`): Finding =>
    finding({
      reasons: senderPath === '' ? [atFrom(domain)] : [atMail(domain), atFrom(domain)],
      facts: { senderPath, sendingDomains: ['example.com'] },
    });
  const [report] = reportOf(
    both('box.internal'),
    both('box.internal'),
    both('other.internal'),
    both('box.internal', ''),
  );
  const rows = report?.mailers[0]?.problems.map(({ message, count, cure }) => [message.split(' ', 1)[0], count, cure]);
  const senders = (host: string) => ({
    kind: 'config',
    settings: [{ kind: 'senders', pattern: `*@${host}`, address: '*@example.com' }],
  });
  expect(rows).toEqual([
    ['box.internal', 2, senders('box.internal')],
    ['other.internal', 1, senders('other.internal')],
    // A bounce's From has another cure.
    ['box.internal', 1, { kind: 'config', settings: [{ kind: 'defaultDomain', domain: 'example.com' }] }],
  ]);
  // The envelope and From are changed in two places of a program.
  const [other] = reportOf(both('partner.com'));
  expect(other?.mailers[0]?.problems.map(({ field, count }) => [field, count])).toEqual([
    [undefined, 1],
    ['From', 1],
  ]);
});

test('a credential has a setting where it has that very one, and not another of its kind', () => {
  const senders = senderMap({ '*@box.internal': '*@example.com' }, { repliesToOriginal: false, isOwned: () => false });
  const plain = { name: 'default', scopes: new Set<never>(), strip: stripRules(), trustedHop: false };
  const credential = { ...plain, senders, legacyCharset: 'KOI8-R' };
  const mapped = (host: string) => ({ kind: 'senders', pattern: `*@${host}`, address: '*@example.com' }) as const;
  const read = (charset: string) => ({ kind: 'legacyCharset', charset }) as const;
  const settings = [mapped('box.internal'), mapped('other.internal'), read('koi8-r'), read('windows-1251')];
  expect(settings.map((one) => hasSetting(credential, one))).toEqual([true, false, true, false]);
  expect(settings.map((one) => hasSetting(plain, one))).toEqual([false, false, false, false]);
});

test('accounts whose credentials have the same name are told of apart', () => {
  const all = [finding(), finding(), finding({ account: 'other' })];
  expect(reportOf(...all).map(({ account, refused }) => [account, refused])).toEqual([
    ['dev', 2],
    ['other', 1],
  ]);
  const comparison = new VerdictComparison();
  for (const { account, credential, mailer } of all)
    comparison.add({ account, credential, mailer, id: 'one', before: 'refused', codes: [] });
  expect(comparison.rows().map(({ account, wouldPass }) => [account, wouldPass])).toEqual([
    ['dev', 2],
    ['other', 1],
  ]);
});

test('what the present configuration cures by now is told so, and not proposed', () => {
  const [report] = reportOf(finding({ credential: 'cron' }));
  expect(report?.mailers[0]?.problems[0]?.isCured).toBe(true);
  expect(report?.proposal).toEqual({});
});

test('a message that passed while the policy is observed is told apart', () => {
  const [report] = reportOf(finding({ accepted: true }), finding({ accepted: true, reasons: [] }));
  expect(report).toMatchObject({ accepted: 2, refused: 0, observed: 1, proposal: { strip: ['User-Agent'] } });
});

test('rows and mailers are bounded; what is over is counted', () => {
  const findings = new Findings();
  const many = MAX_ROWS + 500;
  for (let at = 0; at < many; at += 1)
    findings.add(finding({ mailer: `User-Agent: ${at}`, reasons: [notAllowed(`F${at}`), notAllowed('Sender')] }));
  const [report] = findings.report(present);
  expect(report?.refused).toBe(many);
  expect(report?.mailers.length).toBeLessThanOrEqual(MAX_MAILERS + 1);
  expect(report?.mailers[0]).toMatchObject({ mailer: otherMailers });
  const rows = report?.mailers.reduce((sum, { problems }) => sum + problems.length, 0) ?? 0;
  expect(rows).toBeLessThanOrEqual(MAX_ROWS);
  expect(findings.unlisted).toBeGreaterThan(0);
});

test('nothing of a client moves the cursor of a terminal, in text or JSON', () => {
  const evil = '\u001b[31m\u009b2J\u202e\r\n\u2028\u{e0001}';
  const [report] = reportOf(
    finding({
      credential: evil,
      mailer: `User-Agent: ${evil}`,
      reasons: [
        { code: evil, message: evil, field: evil },
        { code: 'E_HEADER_VALUE_INVALID', message: `X${evil} appears 2 times`, field: `X-${evil}` },
        notAllowed(`X-${evil}`),
      ],
    }),
  );
  if (!report) throw new Error('Nothing was reported');
  const text = credentialText(report).join('');
  const json = printableJson(credentialJson(report));
  expect(`${text}${json}`).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  expect(JSON.parse(json)).toMatchObject({ credential: evil });
});
