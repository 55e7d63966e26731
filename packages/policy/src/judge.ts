// Judges a message as the gateway would, with the gateway's own sources. Where those wait for other work, the build takes the
// waiting out (see ../build/), so that the built function answers at once.

import type { Account, Credential, SendingDomain, Submitter } from '../../../src/accounts/account.ts';
import { stripRules } from '../../../src/accounts/strip-rules.ts';
import { mergeFaults } from '../../../src/doors/rest/faults.ts';
import type { ReadContext, ReadRequest } from '../../../src/doors/rest/read-request.ts';
import { readSend, readSendRaw } from '../../../src/doors/rest/take-request.ts';
import { asciiDomain } from '../../../src/mail/address/domain.ts';
import { readMessage } from '../../../src/mail/header/header-reader.ts';
import { compose } from '../../../src/pipeline/compose/compose.ts';
import { planBody } from '../../../src/pipeline/compose/plan-body.ts';
import { check } from '../../../src/pipeline/policy/check.ts';
import { explain } from '../../../src/pipeline/policy/explain.ts';
import { findHeader } from '../../../src/pipeline/policy/header-catalogue.ts';
import type { CheckContext } from '../../../src/pipeline/policy/judge.ts';
import { type HttpRejection, type Rejection, restAnswers } from '../../../src/pipeline/policy/rejections.ts';
import type { Submission } from '../../../src/pipeline/policy/submission.ts';
import { asciiLower } from '../../../src/pipeline/policy/value-rules.ts';
import { anyIndex, isJsonObject, readJson } from '../../../src/web/http/json/json-reader.ts';
import { Octets } from './seam/octets.ts';
import type { Fields, JudgedField, JudgeInput, Judgement, JudgeOptions, ReasonCode, Violation } from './types.ts';

export { shownVerdicts } from '../../../src/pipeline/policy/explain.ts';

/** What a request may hold where the gateway's configuration says nothing. */
const limits = {
  messageBytes: 5_242_880,
  requestBytes: 8_388_608,
  recipients: 50,
  attachments: 32,
  subjectCharacters: 998,
} as const;

/** Stands for the id of a message, which begins with the time of its acceptance. */
const messageId = '00000000-0000-7000-8000-000000000000';
const recipient = 'recipient@example.net';

/** A reason as the doors have it; those of a request are about a place in it. */
interface Reason {
  readonly code: string;
  readonly message: string;
  readonly name?: string;
  readonly pointer?: string;
}

type GivenDomain = NonNullable<JudgeOptions['sendingDomains']>[number];

/** A domain as addresses have it when they are judged. */
function folded(domain: string): string {
  return asciiDomain(domain) ?? domain.toLowerCase();
}

function domainOf(given: GivenDomain): SendingDomain {
  const { name, subdomains = true } = typeof given === 'string' ? { name: given } : given;
  return { name: folded(name), subdomains, dkim: [] };
}

function submitterOf(options: JudgeOptions): Submitter {
  const { account: name = 'account', sendingDomains = [], trustedHop = false } = options;
  const credential: Credential = {
    name: 'credential',
    scopes: new Set(),
    strip: stripRules(options),
    trustedHop,
    ...(options.defaultDomain === undefined ? {} : { defaultDomain: folded(options.defaultDomain) }),
    ...(options.legacyCharset === undefined ? {} : { legacyCharset: options.legacyCharset }),
  };
  const account: Account = {
    id: '0'.repeat(32),
    name,
    plan: 'free',
    sendingDomains: sendingDomains.map(domainOf),
    limits: {},
    showClientAddress: false,
    tlsRequiredNo: false,
    credentials: new Map(),
  };
  return { account, credential };
}

/** Finds the sending domain that a domain is or stands under; where none is named, every domain is one. */
function contextOf({ sendingDomains }: JudgeOptions): CheckContext {
  return {
    sendingDomain: (account, domain) =>
      sendingDomains === undefined
        ? domainOf(domain)
        : account.sendingDomains
            .filter(({ name, subdomains }) => domain === name || (subdomains && domain.endsWith(`.${name}`)))
            .sort((one, other) => other.name.length - one.name.length)[0],
  };
}

/** The octets of a message as SMTP brings them: text whose lines end with LF alone is read as if they ended with CRLF. */
function octetsOf(message: string | Uint8Array): Octets {
  const octets = typeof message === 'string' ? Octets.from(message) : Octets.view(message);
  if (octets.includes('\r\n') || !octets.includes('\n')) return octets;
  return Octets.from(octets.toString('latin1').replaceAll('\n', '\r\n'), 'latin1');
}

/** A message by SMTP, with the envelope that `postern check` assumes. */
function submissionOf(message: string | Uint8Array, options: JudgeOptions): Submission {
  const octets = octetsOf(message);
  const { fields, body, tooLarge } = readMessage(octets as unknown as Buffer);
  const submitter = submitterOf(options);
  const [domain] = submitter.account.sendingDomains;
  const { reversePath = domain === undefined ? '' : `sender@${domain.name}` } = options;
  return {
    via: {
      kind: 'smtp',
      sessionId: 'judge',
      helo: 'check.invalid',
      protocol: 'ESMTPSA',
      legacyCharset: options.legacyCharset ?? 'windows-1252',
      trustedHop: options.trustedHop ?? false,
      lineEndings: 'fix',
    },
    submitter,
    envelope: { reversePath, recipients: [recipient], smtputf8: false, requireTls: false },
    fields,
    ...(tooLarge ? { headerSectionTooLarge: true } : {}),
    body: { kind: 'mime', bytes: body },
    size: octets.length,
  };
}

/** Writes fields as a header section. */
function messageOf(fields: Fields): string {
  return `${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
}

/** A request as text; undefined where JSON cannot write it, such as one nested thousands deep. */
function textOf(request: unknown): string | undefined {
  try {
    return JSON.stringify(request);
  } catch {
    return undefined;
  }
}

/** Reads the body of a request; a reason where it is no JSON. */
async function readRequest(json: string, options: JudgeOptions): Promise<ReadRequest | Reason> {
  const octets = Octets.from(json) as unknown as Buffer;
  const read = await readJson(octets, { keepMembers: 'headers', base64: ['attachments', anyIndex, 'content'] });
  if (!read.ok) return { code: 'E_VALIDATION_ERROR', message: `The request body is no JSON: ${read.reason}` };
  const context: ReadContext = {
    submitter: submitterOf(options),
    limits,
    sessionId: 'judge',
    remoteAddress: '',
    suppressed: () => false,
  };
  const { document } = read;
  const isRaw = isJsonObject(document.value) && 'mime_message' in document.value;
  return await (isRaw ? readSendRaw(document, context) : readSend(document, octets.length, context));
}

function violationOf({ code, message, name, pointer }: Reason): Violation {
  const answers: Readonly<Record<string, HttpRejection & Partial<Rejection>>> = restAnswers;
  const answer = answers[code] ?? answers['E_VALIDATION_ERROR'];
  const { smtpCode, enhanced, httpStatus = 400, number = 10001 } = answer ?? {};
  return {
    code: code as ReasonCode,
    message,
    ...(name === undefined ? {} : { name }),
    ...(pointer === undefined ? {} : { pointer }),
    ...(smtpCode === undefined || enhanced === undefined ? {} : { smtp: { code: smtpCode, enhanced } }),
    http: { status: httpStatus, code: number },
  };
}

/** Each field of a submission with its verdict. */
function fieldsOf(submission: Submission, { headers }: ReturnType<typeof explain>): JudgedField[] {
  return headers.map(({ name, verdict, rule, standard, violation }, index) => ({
    name,
    value: submission.fields[index]?.rawBytes.toString('utf8').trim() ?? '',
    verdict,
    rule,
    ...(standard === undefined ? {} : { reference: standard }),
    ...(violation === undefined ? {} : { violation: violationOf(violation) }),
    page: `/headers/${encodeURIComponent(findHeader(asciiLower(name))?.name ?? name.slice(0, 100).toWellFormed())}`,
  }));
}

/** The header section that leaves, as far as it can be told without a gateway. */
function headOf(
  checked: Extract<ReturnType<typeof check>, { ok: true }>['checked'],
  plan: Parameters<typeof compose>[1],
  { hostname = 'gateway.example', now = Date.now() }: JudgeOptions,
): string {
  const platform = { domain: hostname, bounceDomain: hostname };
  const context = { id: messageId, nowMs: now, hostname, platform } as Parameters<typeof compose>[2];
  const { trace, fields } = compose(checked, plan, context);
  return `${[...trace, ...fields].map(({ line }) => line).join('')}\r\n`;
}

/** Judges a message, its fields, or a request. It never throws for what they hold, and its cost is linear in them. */
export async function judge(input: JudgeInput, options: JudgeOptions = {}): Promise<Judgement> {
  const isMessage = typeof input === 'string' || ArrayBuffer.isView(input);
  let read: ReadRequest | undefined;
  if (!isMessage && !Array.isArray(input)) {
    const { json = textOf(input) ?? '' } = input as { readonly json?: string };
    const found = await readRequest(json, options);
    if ('code' in found) {
      const usage = { allowlisted: 0, bytes: 0 };
      return { verdict: 'refused', violations: [violationOf(found)], fields: [], usage, wouldLeave: null };
    }
    read = found;
  }
  const submission = read?.submission ?? submissionOf(isMessage ? input : messageOf(input as Fields), options);
  const context = contextOf(options);
  const explanation = explain(submission, context);
  const plan = await planBody(submission);
  const ofBody = plan.ok ? [] : plan.violations;
  const isParts = submission.body.kind === 'parts';
  const ofPolicy = isParts ? [...ofBody, ...explanation.violations] : [...explanation.violations, ...ofBody];
  const reasons: readonly Reason[] = read
    ? mergeFaults(submission, read.faults, ofPolicy).map((fault) => ({
        code: 'token' in fault ? fault.token : String(fault.number),
        message: fault.message,
        ...(fault.pointer === undefined ? {} : { pointer: fault.pointer }),
      }))
    : ofPolicy;
  const checked = reasons.length === 0 ? check(submission, context) : undefined;
  return {
    verdict: reasons.length === 0 ? 'accepted' : 'refused',
    violations: reasons.map(violationOf),
    fields: fieldsOf(submission, explanation),
    usage: explanation.usage,
    wouldLeave: checked?.ok && plan.ok ? headOf(checked.checked, plan.plan, options) : null,
  };
}
