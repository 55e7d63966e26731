// Accounts and submissions for tests of the policy: the development account of the shipped configuration, without a store.

import type { Account, Credential, SendingDomain } from '../../src/accounts/account.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { isWithinDomain } from '../../src/base/net/domain-labels.ts';
import { readMessage } from '../../src/mail/header/header-reader.ts';
import { type CheckContext, type CheckResult, check } from '../../src/pipeline/policy/check.ts';
import type { Submission, Via } from '../../src/pipeline/policy/submission.ts';

function domain(name: string, subdomains = true): SendingDomain {
  return { name, subdomains, dkim: [{ selector: 's1', algorithm: 'rsa' }] };
}

function credential(name: string, settings: Partial<Credential> = {}): [string, Credential] {
  return [name, { name, scopes: new Set(['email:send']), strip: stripRules(), trustedHop: false, ...settings }];
}

/** Account `dev` with the credentials default, cron, oldbox (a trusted hop) and devices. */
export const devAccount: Account = {
  id: 'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',
  name: 'dev',
  plan: 'enterprise',
  sendingDomains: [domain('example.com'), domain('example.net', false), domain('xn--bcher-kva.example')],
  limits: {},
  showClientAddress: true,
  tlsRequiredNo: false,
  credentials: new Map([
    credential('default'),
    credential('cron', {
      strip: stripRules({ strip: ['x-cron-env', 'user-agent'] }),
      defaultDomain: 'example.com',
      legacyCharset: 'iso-8859-1',
    }),
    credential('oldbox', { trustedHop: true, defaultDomain: 'example.com' }),
    credential('devices', { strip: stripRules({ strip: ['user-agent'] }), defaultDomain: 'example.com' }),
  ]),
};

/** Finds sending domains by the account's own list, longest first. */
export const context: CheckContext = {
  sendingDomain: (account, name) =>
    account.sendingDomains
      .filter((known) => (known.subdomains ? isWithinDomain(name, known.name) : name === known.name))
      .sort((a, b) => b.name.length - a.name.length)[0],
};

/** What a test varies. */
export interface SubmissionOptions {
  readonly credential?: string;
  readonly reversePath?: string;
  readonly via?: Partial<Via>;
}

function frame(options: SubmissionOptions): Pick<Submission, 'via' | 'submitter' | 'envelope'> {
  const credential = devAccount.credentials.get(options.credential ?? 'default');
  if (!credential) throw new Error(`No credential "${options.credential}" in the test account`);
  return {
    via: {
      kind: 'smtp',
      sessionId: 'test',
      helo: 'client.example.com',
      remoteAddress: '192.0.2.7',
      protocol: 'ESMTPSA',
      legacyCharset: credential.legacyCharset ?? 'windows-1252',
      trustedHop: credential.trustedHop,
      lineEndings: 'fix',
      ...options.via,
    },
    submitter: { account: devAccount, credential },
    envelope: {
      reversePath: options.reversePath ?? 'bounces@example.com',
      recipients: ['rcpt@recipient.example'],
      smtputf8: false,
      requireTls: false,
    },
  };
}

/** A submission as the SMTP door makes it from a message's octets. */
export function smtpSubmission(raw: Buffer, options: SubmissionOptions = {}): Submission {
  const { fields, body, tooLarge } = readMessage(raw);
  return {
    ...frame(options),
    fields,
    headerSectionTooLarge: tooLarge,
    body: { kind: 'mime', bytes: body },
    size: raw.length,
  };
}

/** A message by SMTP: From, then these lines as latin1 (one character an octet), then a body. */
export function smtpHeaders(lines: readonly string[], options: SubmissionOptions = {}): Submission {
  return smtpSubmission(Buffer.from(['From: app@example.com', ...lines, '', 'Hi', ''].join('\r\n'), 'latin1'), options);
}

/** A message by SMTP whose lines are written as UTF-8. */
export function smtpHeadersUtf8(lines: readonly string[], options: SubmissionOptions = {}): Submission {
  return smtpSubmission(Buffer.from(['From: app@example.com', ...lines, '', 'Hi', ''].join('\r\n')), options);
}

function escapePointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** A submission as the REST door makes it: the message's own fields, then custom headers. */
export function restSubmission(
  headers: readonly (readonly [string, string])[],
  own: readonly (readonly [string, string])[] = [
    ['From', 'app@example.com'],
    ['To', 'rcpt@recipient.example'],
    ['Subject', 'Hi'],
  ],
): Submission {
  return {
    ...frame({ via: { kind: 'rest', protocol: 'HTTP' }, reversePath: 'app@example.com' }),
    fields: [
      ...own.map(([name, value]) => ({
        name,
        rawBytes: Buffer.from(value),
        pointer: `/${name.toLowerCase().replace('-', '_')}`,
      })),
      ...headers.map(([name, value]) => ({
        name,
        rawBytes: Buffer.from(value),
        pointer: `/headers/${escapePointer(name)}`,
        ...(value.isWellFormed() ? {} : { fault: 'lone-surrogate' as const }),
      })),
    ],
    body: { kind: 'parts', text: 'Hi', attachments: [] },
    size: 100,
  };
}

/** The codes of a verdict in their order, empty when admitted. */
export function codes(result: CheckResult): string[] {
  return result.ok ? [] : result.violations.map(({ code }) => code);
}

/** The verdict on these header lines by SMTP, as codes. */
export function smtpCodes(lines: readonly string[], options: SubmissionOptions = {}): string[] {
  return codes(check(smtpHeaders(lines, options), context));
}

/** The verdict on these headers by REST, as codes. */
export function restCodes(headers: readonly (readonly [string, string])[]): string[] {
  return codes(check(restSubmission(headers), context));
}
