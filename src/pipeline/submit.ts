// The pipeline: check -> compose -> sign -> spool. Every door hands a Submission in; there is no other way into the spool.

import type { KeyObject } from 'node:crypto';
import type { Account, SendingDomain } from '../accounts/account.ts';
import type { Clock } from '../base/clock.ts';
import { uuidv7 } from '../base/ids.ts';
import { type MaybePromise, whenKnown } from '../base/load/maybe-promise.ts';
import { yieldToEventLoop } from '../base/yield-to-event-loop.ts';
import type { ReportWish } from '../mail/envelope.ts';
import { citedIds, replaceIds } from '../mail/message-ids.ts';
import { mailerOf, type RefusalFacts, type Refuse } from '../spool/events/refusal.ts';
import type { ContentKept } from '../spool/journal/journal-row.ts';
import type { Origin, SpoolDoors, SpoolEntry, TransportOf } from '../spool/spool.ts';
import { leaseMilliseconds } from '../spool/spool-limits.ts';
import { compose, hasLongFields, type Message, writeLongFields } from './compose/compose.ts';
import { planBody } from './compose/plan-body.ts';
import { createFieldWriter } from './field-writer.ts';
import { JournalNote } from './journal-note.ts';
import { type CheckContext, check } from './policy/check.ts';
import { explain } from './policy/explain.ts';
import { judge } from './policy/judge.ts';
import { withMappedPath } from './policy/judge-sender.ts';
import { removeOffending } from './policy/observe.ts';
import { rejections, tellingWords, type Violation } from './policy/rejections.ts';
import type { Checked, CheckedField, ObservedHeader, Submission } from './policy/submission.ts';
import { type Signed, type SigningKey, sign } from './sign/sign.ts';

/** Finds the ids that messages of an account left with, by the ids that their client gave them. */
type FindReplacedIds = (account: string, ids: readonly string[]) => Promise<ReadonlyMap<string, string>>;

function citesOthers({ name }: CheckedField): boolean {
  return name === 'In-Reply-To' || name === 'References';
}

/** Replaces ids in In-Reply-To and References where the account asks for it; all other ids and fields stay as they are. */
export async function repairThread(checked: Checked, find: FindReplacedIds | undefined): Promise<Checked> {
  const { via, submitter } = checked.submission;
  // Our own reports cite what their reader knows.
  if (!find || via.kind === 'dsn' || submitter.account.threadRepair !== true) return checked;
  const ids = citedIds(checked.custom.filter(citesOthers).map(({ text }) => text));
  if (ids.length === 0) return checked;
  const replaced = await find(submitter.account.name, ids);
  if (replaced.size === 0) return checked;
  const custom = checked.custom.map((field): CheckedField => {
    if (!citesOthers(field)) return field;
    const [text, decoded] = [field.text, field.decoded].map((one) => replaceIds(one, replaced));
    return { ...field, text: text ?? '', decoded: decoded ?? '' };
  });
  return { ...checked, custom };
}

export { isKeyUsed, type UsedKey } from '../spool/idempotency-keys.ts';
export { noteOfRefused } from './journal-note.ts';

export type { Explanation } from './policy/explain.ts';
export { type RejectionCode, rejections, restAnswers, tellingWords, type Violation } from './policy/rejections.ts';
export type { Attachment, Idempotency, ShadowCopy, Submission, SubmissionBody, Via } from './policy/submission.ts';

/** The pipeline's answer: the message is on disk under this id, or it is refused for every reason listed. */
export type SubmitResult =
  | { readonly accepted: true; readonly id: string; readonly messageId: string }
  | { readonly accepted: false; readonly violations: readonly Violation[] };

/** Judges, builds, signs and keeps a message. It rejects on a fault of our own: the door then answers 451 4.3.0. */
export type Submit = (submission: Submission) => Promise<SubmitResult>;

/** What building a message needs besides the submission. */
export interface BuildParts {
  readonly clock: Clock;
  /** Makes a message's id, a UUIDv7, from a time in milliseconds since 1970; tests hand in their own function. */
  readonly newId?: (nowMs: number) => string;
  /** The host name in Received `by` (D25). */
  readonly hostname: string;
  readonly platform: { readonly domain: string; readonly bounceDomain: string; readonly hmacKey: KeyObject };
  readonly sendingDomain: (account: Account, domain: string) => SendingDomain | undefined;
  /** Gives the keys of a sending domain; empty where it has none (D27). */
  readonly domainKeys: (domain: string) => readonly SigningKey[];
  readonly platformKeys: readonly SigningKey[];
  /** Finds replaced Message-IDs, for accounts that ask for thread repair (D23); without it no thread is repaired. */
  readonly replacedIds?: FindReplacedIds;
  /** Tells whether any route for these recipients wants the platform's signature (D27). */
  readonly wantsPlatformSignature: (account: string, recipients: readonly string[]) => boolean;
}

/** What the whole pipeline needs. */
export interface SubmitParts extends BuildParts {
  readonly spool: SpoolDoors;
  /** Names the transport that each recipient waits for in the spool; without it they get one once they are due. */
  readonly transportOf?: TransportOf;
  /** For how many seconds delivery is tried (D42a). */
  readonly expireAfterSeconds: number;
  /** Charges an admitted message to its account's rates, before it is signed and kept (D42a); a violation refuses the message. */
  readonly charge?: (submission: Submission) => MaybePromise<Violation | undefined>;
  /** Gives a charge back, where a fault of our own kept an admitted message from being kept. */
  readonly refund?: (submission: Submission) => void;
  /** Called with every message right after its commit. */
  readonly onAccepted: (entry: SpoolEntry) => void;
  readonly onRefused: Refuse;
  /** How much of each message the journal keeps; absent: it has no entries. */
  readonly journal?: ContentKept | undefined;
}

/** A built message that is not kept yet, or every reason against it. */
export type BuildResult =
  | { readonly ok: true; readonly signed: Signed }
  | { readonly ok: false; readonly violations: readonly Violation[] };

/** The writer of long fields for the whole process; its thread starts with the first such field. */
const writeLong = createFieldWriter();

/** Judges a message and builds the exact octets that would leave; keeps nothing. `postern check --as-sent` ends here. */
export async function build(
  submission: Submission,
  parts: BuildParts & Pick<SubmitParts, 'charge'>,
  note?: JournalNote,
): Promise<BuildResult> {
  const { sendingDomain, hostname, clock } = parts;
  const tellVerdicts = note ? { tellVerdicts: note.tellVerdicts } : {};
  const observing = { nowMs: clock.now(), hostname };
  const verdict = check(submission, { sendingDomain, hostname, observing, ...tellVerdicts });
  const plan = await planBody(submission, { yieldToEventLoop, writeLong });
  note?.ended('check');
  submission.release?.();
  if (!verdict.ok || !plan.ok) {
    const ofBody = plan.ok ? [] : plan.violations;
    return { ok: false, violations: inOrder(submission, verdict.ok ? verdict.forgiven : verdict.violations, ofBody) };
  }
  const checked = await repairThread(verdict.checked, parts.replacedIds);
  const keys = parts.domainKeys(checked.sendingDomain.name);
  if (keys.length === 0) return { ok: false, violations: [noKey(checked.sendingDomain.name)] };
  const nowMs = parts.clock.now();
  const message = compose(checked, plan.plan, {
    id: (parts.newId ?? uuidv7)(nowMs),
    nowMs,
    hostname: parts.hostname,
    platform: parts.platform,
    written: hasLongFields(checked, plan.plan) ? await writeLongFields(checked, plan.plan, writeLong) : undefined,
  });
  note?.ended('compose');
  const refused = tooLarge(message) ?? (await parts.charge?.(submission));
  if (refused) return { ok: false, violations: [refused] };
  const platform = parts.wantsPlatformSignature(submission.submitter.account.name, submission.envelope.recipients)
    ? parts.platformKeys
    : [];
  const signed = await sign(message, { domain: keys, platform }, yieldToEventLoop);
  note?.ended('sign');
  return { ok: true, signed };
}

/** Orders violations (D42b): those of REST's parts, which are fields of the request, come first; those of a MIME body last. */
function inOrder({ body }: Submission, ofHeaders: readonly Violation[], ofBody: readonly Violation[]) {
  return body.kind === 'parts' ? [...ofBody, ...ofHeaders] : [...ofHeaders, ...ofBody];
}

/** Refuses a composed message over the size limit of REST, which limits the composed size (D42). */
function tooLarge({ checked, trace, fields, body }: Message): Violation | undefined {
  const limit = checked.submission.composedBytesLimit;
  if (limit === undefined) return undefined;
  const head = [...trace, ...fields].reduce((sum, { line }) => sum + Buffer.byteLength(line), 0);
  const size = head + 2 + body.length;
  if (size <= limit) return undefined;
  return { code: 'E_CONTENT_TOO_LARGE', message: `The message has ${size} octets, at most ${limit} are allowed` };
}

/** Tells everything that is known of a message without building it: each header's verdict, and every violation (D47). */
export async function examine(submission: Submission, parts: Pick<CheckContext, 'sendingDomain' | 'hostname'>) {
  const explanation = explain(submission, parts);
  const plan = await planBody(submission, { yieldToEventLoop, writeLong });
  return { explanation, violations: inOrder(submission, explanation.violations, plan.ok ? [] : plan.violations) };
}

/** What would happen to a message while the policy is observed (D4c). */
export interface ObservedVerdict {
  readonly removed: readonly ObservedHeader[];
  /** The violations that remain without these headers; empty means that the rest would pass. */
  readonly violations: readonly Violation[];
}

/** Tells what observing would do to a message, whether or not its credential is observed; for `postern check --observe`. */
export async function examineObserved(
  given: Submission,
  parts: Pick<BuildParts, 'sendingDomain' | 'hostname'>,
): Promise<ObservedVerdict> {
  const submission = withMappedPath(given, parts.sendingDomain);
  const { judgement, removed } = removeOffending(submission, judge(submission, parts), parts);
  const plan = await planBody(submission, { yieldToEventLoop, writeLong });
  return { removed, violations: inOrder(submission, judgement.violations, plan.ok ? [] : plan.violations) };
}

/** Makes the pipeline. A message that it resolves as `accepted` is on disk; of a refused one it keeps nothing. */
export function createSubmit(parts: SubmitParts): Submit {
  return async (submission) => {
    let charged = false;
    const charge = (asked: Submission): MaybePromise<Violation | undefined> =>
      whenKnown(parts.charge?.(asked), (violation) => {
        charged = violation === undefined;
        return violation;
      });
    const note = parts.journal === undefined ? undefined : new JournalNote({ kept: parts.journal, clock: parts.clock });
    try {
      parts.spool.expect(1);
      const built = await build(submission, { ...parts, charge }, note).finally(() => parts.spool.expect(-1));
      if (!built.ok) {
        parts.onRefused({ ...refusalOf(submission, built.violations), journal: note?.details(submission) });
        return { accepted: false, violations: built.violations };
      }
      const entry = spoolEntry(built.signed, submission, parts);
      const { subject } = built.signed.message.checked.lifted;
      const kept = note ? { ...entry, journal: note.details(submission, subject?.decoded) } : entry;
      await parts.spool.add(kept, parts.clock.now() + leaseMilliseconds);
      charged = false;
      parts.onAccepted(entry);
      return { accepted: true, id: entry.id, messageId: entry.messageId };
    } catch (error) {
      // The client will send the message again, and must not pay twice.
      if (charged) parts.refund?.(submission);
      throw error;
    }
  };
}

/** The facts of a refusal by the policy, for its event. */
export function refusalOf(submission: Submission, violations: readonly Violation[]): RefusalFacts {
  const { via, submitter, envelope, size, journalId } = submission;
  const mailer = mailerOf(submission.fields);
  const { smtpCode, enhanced, httpStatus } = rejections[violations[0]?.code ?? 'E_INTERNAL_SERVER_ERROR'];
  return {
    stage: 'message',
    account: submitter.account.name,
    credential: submitter.credential.name,
    sessionId: via.sessionId,
    via: via.kind,
    clientAddress: via.remoteAddress,
    helo: via.helo,
    listener: via.listener,
    senderPath: envelope.reversePath,
    recipients: envelope.recipients,
    size,
    ...(mailer === undefined ? {} : { mailer }),
    ...(journalId === undefined ? {} : { journalId }),
    violations,
    reply: via.kind === 'smtp' ? { code: smtpCode, enhanced } : { code: httpStatus },
  };
}

function noKey(domain: string): Violation {
  return {
    code: 'E_SENDER_NOT_VERIFIED',
    message: `${domain}${tellingWords.hasNoKey}, and unsigned mail never leaves`,
  };
}

function originOf({ via: { kind, remoteAddress, helo } }: Submission): Origin {
  return {
    via: kind,
    ...(remoteAddress === undefined ? {} : { clientAddress: remoteAddress }),
    ...(helo === undefined ? {} : { helo }),
  };
}

/** Which reports the sender gets without NOTIFY: the account's, else by SMTP failures (RFC 5321 §6.1), while the API has events. */
function wishOf({ via, submitter: { account } }: Submission): ReportWish {
  const { failure = via.kind === 'smtp', delay = false, success = false } = account.reports ?? {};
  return { failure, delay, success };
}

function receivedOf(checked: Checked, givenFields: Submission['fields']): NonNullable<SpoolEntry['received']> {
  const { submission, stripped, observed, mappedSender } = checked;
  // The field that names the program may be one of those that were removed.
  const mailer = observed.length > 0 ? mailerOf(givenFields) : undefined;
  return {
    size: submission.size,
    stripped,
    ...(observed.length > 0 ? { observed } : {}),
    ...(mailer === undefined ? {} : { mailer }),
    ...(mappedSender ? { mappedSender } : {}),
  };
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

function spoolEntry(signed: Signed, given: Submission, { transportOf, expireAfterSeconds }: SubmitParts): SpoolEntry {
  const { message, head, body, platformSignature } = signed;
  const { submission, clientMessageId } = message.checked;
  const { submitter, envelope, via, idempotency, answers } = submission;
  const { account } = submitter;
  // Members that are often absent are set one by one: V8 turns an object that is spread from many into a slow one.
  const entry: Mutable<SpoolEntry> = {
    id: message.id,
    account: account.name,
    credential: submitter.credential.name,
    sessionId: via.sessionId,
    messageId: message.messageId,
    origin: originOf(submission),
    received: receivedOf(message.checked, given.fields),
    reversePath: message.reversePath,
    senderPath: envelope.reversePath,
    recipients: envelope.recipients,
    smtputf8: message.smtputf8 || envelope.smtputf8,
    requireTls: envelope.requireTls,
    acceptedAt: message.acceptedAt,
    expiresAt: message.acceptedAt + expireAfterSeconds * 1000,
    head,
    body,
    reports: wishOf(submission),
  };
  if (clientMessageId !== undefined) entry.clientMessageId = clientMessageId;
  if (transportOf)
    entry.transports = envelope.recipients.map((address) => transportOf({ account: account.name, address }));
  // D30: as the composer writes TLS-Required.
  if (account.tlsRequiredNo && !envelope.requireTls) entry.tlsOptional = true;
  if (platformSignature) entry.platformSignature = platformSignature;
  if (idempotency) entry.idempotency = idempotency;
  if (envelope.dsn) entry.dsn = envelope.dsn;
  if (account.threadRepair === true) entry.keepsClientId = true;
  if (answers) entry.answers = answers;
  return entry;
}
