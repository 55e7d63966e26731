// Messages as the policy hands them on, built from raw text for the tests of composing and signing.

import { createSecretKey } from 'node:crypto';
import type { Account, Credential } from '../../src/accounts/account.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import type { Envelope } from '../../src/mail/envelope.ts';
import { readMessage } from '../../src/mail/header/header-reader.ts';
import { compose, type Message, type Platform } from '../../src/pipeline/compose/compose.ts';
import { planBody } from '../../src/pipeline/compose/plan-body.ts';
import { check } from '../../src/pipeline/policy/check.ts';
import type { Checked, Submission, Via } from '../../src/pipeline/policy/submission.ts';

/** What a test sets apart from the raw message. */
export interface Circumstances {
  readonly via?: Partial<Via>;
  readonly envelope?: Partial<Envelope>;
  readonly account?: Partial<Account>;
  readonly returnPathDomain?: string;
}

/** The platform of the tests. */
export const platform: Platform = {
  domain: 'platform.example',
  bounceDomain: 'bounces.platform.example',
  hmacKey: createSecretKey(Buffer.alloc(32, 7)),
};

/** Fri, 21 Nov 2025 12:00:00 +0000. */
export const noon = Date.UTC(2025, 10, 21, 12);
/** A message id of the tests. */
export const messageUuid = '019aa5b8-5c00-7abc-8def-0123456789ab';

const credential: Credential = {
  name: 'default',
  scopes: new Set(['email:send']),
  strip: stripRules(),
  trustedHop: false,
};

/** A submission of a raw message; LF in a string stands for CRLF, a Buffer is taken as it is. */
export function submissionOf(raw: string | Buffer, circumstances: Circumstances = {}): Submission {
  const bytes = typeof raw === 'string' ? Buffer.from(raw.replace(/\r?\n/g, '\r\n')) : raw;
  const { fields, body } = readMessage(bytes);
  const account: Account = {
    id: 'a1'.repeat(16),
    name: 'dev',
    plan: 'enterprise',
    sendingDomains: [
      {
        name: 'example.com',
        subdomains: true,
        dkim: [{ selector: 's1', algorithm: 'rsa' }],
        ...(circumstances.returnPathDomain === undefined ? {} : { returnPathDomain: circumstances.returnPathDomain }),
      },
    ],
    limits: {},
    showClientAddress: true,
    tlsRequiredNo: false,
    credentials: new Map([['default', credential]]),
    ...circumstances.account,
  };
  return {
    via: {
      kind: 'smtp',
      sessionId: 'session1',
      helo: 'client.example.com',
      remoteAddress: '192.0.2.7',
      protocol: 'ESMTPSA',
      legacyCharset: 'windows-1252',
      trustedHop: false,
      lineEndings: 'fix',
      ...circumstances.via,
    },
    submitter: { account, credential },
    envelope: {
      reversePath: 'sender@example.com',
      recipients: ['rcpt@example.net'],
      smtputf8: false,
      requireTls: false,
      ...circumstances.envelope,
    },
    fields,
    body: { kind: 'mime', bytes: body },
    size: bytes.length,
  };
}

/** The submission as the policy admits it. */
export function checkedOf(submission: Submission): Checked {
  const result = check(submission, { sendingDomain: (account) => account.sendingDomains[0] });
  if (!result.ok) throw new Error(result.violations.map(({ code, message }) => `${code}: ${message}`).join('; '));
  return result.checked;
}

/** The raw message composed at `noon` as `messageUuid`. */
export async function composeRaw(raw: string | Buffer, circumstances: Circumstances = {}): Promise<Message> {
  const submission = submissionOf(raw, circumstances);
  const planned = await planBody(submission);
  if (!planned.ok) throw new Error(planned.violations.map(({ message }) => message).join('; '));
  const context = { id: messageUuid, nowMs: noon, hostname: 'mx.platform.example', platform };
  return compose(checkedOf(submission), planned.plan, context);
}

/** The composed message's octets, unsigned. */
export function octetsOf(message: Message): Buffer {
  const head = [...message.trace, ...message.fields].map(({ line }) => line).join('');
  return Buffer.concat([Buffer.from(`${head}\r\n`), message.body]);
}
