// The REST endpoints send, send_raw and validate (D43-D48), which make Submissions and write answers.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { freeOctets } from '../../base/free-octets.ts';
import {
  type Explanation,
  type Idempotency,
  isKeyUsed,
  refusalOf,
  restAnswers,
  type Submission,
  type Submit,
  type UsedKey,
  type Violation,
} from '../../pipeline/submit.ts';
import type { RefusalFacts, Refuse } from '../../spool/events/refusal.ts';
import type { EntryLink, JournalDetails } from '../../spool/journal/journal-row.ts';
import { accountPath } from '../../web/http/endpoint.ts';
import { type Fault, failureOf, Refusal, succeed } from '../../web/http/envelope.ts';
import { emptyDocument } from '../../web/http/json/json-reader.ts';
import { submitterOf, type V4Plugin } from '../../web/http/v4-app.ts';
import { mergeFaults } from './faults.ts';
import { Idempotent, type KeyStore, readKey } from './idempotency.ts';
import type { OutcomeKind, OutcomeWatch } from './outcome-watch.ts';
import { type ValidationParts, validation } from './rehearse.ts';
import { SendRawRequest, SendRequest, SendResult, ValidateRequest, ValidateResult } from './schemas.ts';
import { type BodyKind, kindOf, messageOptions, takeRequest } from './take-request.ts';

/** What the door is made from. */
export interface RestDoorParts extends ValidationParts {
  readonly submit: Submit;
  readonly keys: KeyStore;
  readonly outcomes: OutcomeWatch;
  /** Is told of each request that is refused here; the pipeline tells of its own refusals. */
  readonly onRefused: Refuse;
  /** Where entries of the journal can be looked at; absent: refusals have no link. */
  readonly entryLink?: EntryLink | undefined;
  /** What the journal keeps of a message that is refused here; absent, or where it gives nothing: its facts alone. */
  readonly noted?: (submission: Submission, explanation: Explanation) => JournalDetails | undefined;
}

// `Prefer: wait=N` (RFC 7240 §4.3): how long the sender would wait to hear what became of the message (D44).

const longestWaitSeconds = 30;

/** Reads Prefer: what is malformed is ignored (RFC 7240 §2), and the first counts. @returns seconds, at most 30; 0 for none */
function waitSeconds(prefer: string | readonly string[] | undefined): number {
  const text = typeof prefer === 'string' ? prefer : (prefer ?? []).join(',');
  for (const preference of text.slice(0, 1000).split(',')) {
    const wait = /^[ \t]*wait[ \t]*=[ \t]*"?([0-9]{1,9})"?[ \t]*(?:;|$)/i.exec(preference);
    if (wait) return Math.min(longestWaitSeconds, Number(wait[1]));
  }
  return 0;
}

/** Bodies above this have memory of their own, never a share of a pool. */
const ownMemoryOctets = 1_048_576;

function refusalByFields(submission: Submission, faults: readonly Fault[]): RefusalFacts {
  const reasons = faults.map((fault) => ({
    code: 'token' in fault ? fault.token : String(fault.number),
    message: fault.message,
    pointer: fault.pointer,
  }));
  return { ...refusalOf(submission, []), violations: reasons, reply: { code: failureOf(restAnswers, faults).status } };
}

type SendResultBody = Static<typeof SendResult>;

/** The result of a message. D52: the Message-ID stands without its angle brackets. */
function resultOf(
  messageId: string,
  recipients: readonly string[],
  outcomes: ReadonlyMap<string, OutcomeKind> = new Map(),
): SendResultBody {
  const {
    delivered = [],
    failed = [],
    deferred = [],
  } = Object.groupBy(recipients, (one) => outcomes.get(one) ?? 'deferred');
  return { delivered, permanent_bounces: failed, queued: deferred, message_id: messageId.slice(1, -1) };
}

function repeatAnswer(reply: FastifyReply, used: UsedKey): FastifyReply {
  const told: unknown = used.answer === undefined ? resultOf(used.messageId, used.recipients) : JSON.parse(used.answer);
  return succeed(reply.header('Idempotent-Replayed', 'true'), told);
}

/** Refuses a request for its fields; the policy's reasons stand in the same answer. */
async function refuseFields(parts: RestDoorParts, submission: Submission, faults: readonly Fault[]): Promise<never> {
  const { violations, explanation } = await parts.examine(submission);
  const all = mergeFaults(submission, faults, violations, parts.headersUrl?.());
  parts.onRefused({ ...refusalByFields(submission, all), journal: parts.noted?.(submission, explanation) });
  throw new Refusal(linked(all, submission, parts));
}

/** Adds to each fault the link to the journal's entry, where there is one. */
function linked(faults: readonly Fault[], { journalId }: Submission, { entryLink }: RestDoorParts): readonly Fault[] {
  if (!entryLink || journalId === undefined) return faults;
  const documentationUrl = entryLink.urlOf(journalId);
  return faults.map((fault) => ({ ...fault, documentationUrl }));
}

function refusePolicy(parts: RestDoorParts, submission: Submission, violations: readonly Violation[]): never {
  const faults = mergeFaults(submission, [], violations, parts.headersUrl?.());
  throw new Refusal(linked(faults, submission, parts), violations[0]?.retryAfterSeconds);
}

interface Sending {
  readonly kind: BodyKind;
  readonly idempotency: Idempotency | undefined;
}

/** @returns what is kept in memory of a message that is on disk, while its request waits to hear the outcome */
async function submitRead(parts: RestDoorParts, request: FastifyRequest, { kind, idempotency }: Sending) {
  const octets = request.document?.octets ?? emptyDocument.octets;
  const { faults, submission: taken } = await takeRequest(parts, request, kind);
  const { entryLink } = parts;
  // The id of the entry that a refusal would have in the journal, where its answer names it.
  const read = entryLink ? { ...taken, journalId: entryLink.newId() } : taken;
  if (faults.length > 0) return await refuseFields(parts, read, faults);
  const submission = {
    ...read,
    release: () => {
      // The garbage collector would keep it while the message is signed and written, and 30 MB would be held twice.
      if (octets.length >= ownMemoryOctets) freeOctets(octets);
    },
    ...(idempotency ? { idempotency } : {}),
  };
  const result = await parts.submit(submission);
  if (!result.accepted) return refusePolicy(parts, submission, result.violations);
  return { messageId: result.messageId, recipients: submission.envelope.recipients };
}

/** Submits, and waits for what the sender prefers to hear. */
async function submitAndTell(
  parts: RestDoorParts,
  request: FastifyRequest,
  sending: Sending & { readonly waitSeconds: number },
): Promise<SendResultBody> {
  const { waitSeconds: seconds } = sending;
  const watch = seconds > 0 ? parts.outcomes.watch(request.id) : undefined;
  try {
    const { messageId, recipients } = await submitRead(parts, request, sending);
    if (!watch) return resultOf(messageId, recipients);
    // The message is on disk: its room in memory goes to the next request, however long this one waits.
    request.bodyReservation?.release();
    return resultOf(messageId, recipients, await watch.until(recipients, seconds * 1000));
  } finally {
    watch?.end();
  }
}

async function send(
  parts: RestDoorParts & { readonly idempotent: Idempotent },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const kind = request.url.split('?', 1)[0]?.endsWith('/send_raw') === true ? 'send_raw' : 'send';
  const key = readKey(request.headers['idempotency-key']);
  const account = submitterOf(request).account.name;
  const idempotency = key === undefined ? undefined : { key, digest: `${kind} ${request.bodyDigest ?? ''}` };
  const begun = idempotency && (await parts.idempotent.begin(account, idempotency));
  if (begun && 'used' in begun) return repeatAnswer(reply, begun.used);
  try {
    const wait = waitSeconds(request.headers.prefer);
    const result = await submitAndTell(parts, request, { kind, idempotency, waitSeconds: wait });
    if (wait > 0) reply.header('Preference-Applied', `wait=${wait}`);
    const isDefault = result.delivered.length + result.permanent_bounces.length === 0;
    if (idempotency && !isDefault) await parts.keys.answered(account, idempotency.key, JSON.stringify(result));
    return succeed(reply, result);
  } catch (thrown) {
    if (!idempotency || !isKeyUsed(thrown)) throw thrown;
    return repeatAnswer(reply, await parts.idempotent.usedMeanwhile(account, idempotency));
  } finally {
    begun?.end();
  }
}

/** Answers validate: the verdict on either body, nothing kept (D47). */
async function validate(parts: RestDoorParts, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const read = await takeRequest(parts, request, kindOf(request.document));
  const verdict = await validation(read, parts);
  const { errors } = failureOf(reply.server.answers, verdict.faults).body;
  return succeed(reply, { valid: errors.length === 0, errors, ...verdict.result });
}

const sendingHeaders = Type.Object({
  'Idempotency-Key': Type.Optional(
    Type.String({
      description:
        '1 to 255 printable ASCII characters. For 24 hours the same key and body give the same answer, and one message.',
    }),
  ),
  Prefer: Type.Optional(
    Type.String({
      description: '`wait=N`: wait up to N seconds (30 at most) to hear what became of the recipients.',
    }),
  ),
});

/** Beside those of every endpoint with a body. */
const sendingTokens = [
  'E_SENDER_NOT_VERIFIED',
  'E_HEADER_NOT_ALLOWED',
  'E_HEADER_USE_API_FIELD',
  'E_HEADER_NAME_INVALID',
  'E_HEADER_VALUE_INVALID',
  'E_HEADER_VALUE_TOO_LONG',
  'E_HEADERS_TOO_MANY',
  'E_HEADERS_TOO_LARGE',
  'E_TOO_MANY_RECIPIENTS',
  'E_TOO_MANY_ATTACHMENTS',
  'E_RECIPIENT_SUPPRESSED',
  'E_DAILY_LIMIT_EXCEEDED',
  'E_IDEMPOTENCY_CONFLICT',
] as const;

/** The door's endpoints. */
export function restDoor(doorParts: RestDoorParts): V4Plugin {
  const parts = { ...doorParts, idempotent: new Idempotent(doorParts.keys) };
  const options = messageOptions(parts.limits, 'email:send');
  const path = '/accounts/:account_id/email/sending';
  const common = { tags: ['Email'], params: accountPath };
  const sending = { ...common, headers: sendingHeaders, response: { 200: SendResult }, tokens: sendingTokens };
  const answerSend = (request: FastifyRequest, reply: FastifyReply) => send(parts, request, reply);
  return (app) => {
    const sendMessage = {
      operationId: 'sendMessage',
      summary: 'Send a message',
      description: 'Accepted means safe on disk; the recipients are then `queued`.',
      body: SendRequest,
    };
    const sendRawMessage = {
      operationId: 'sendRawMessage',
      summary: 'Send a finished MIME message',
      description: 'What SMTP does with the same octets: the same allowlist, the same rewriting.',
      body: SendRawRequest,
    };
    for (const [place, words] of [
      ['/send', sendMessage],
      ['/send_raw', sendRawMessage],
    ] as const)
      app.post(path + place, { ...options, schema: { ...sending, ...words } }, answerSend);
    const validateMessage = {
      ...common,
      operationId: 'validateMessage',
      summary: 'Judge a message without sending it',
      description: 'Takes the body of `send` or of `send_raw`. Nothing is queued.',
      body: ValidateRequest,
      response: { 200: ValidateResult },
    };
    app.post(`${path}/validate`, { ...options, schema: validateMessage }, (request, reply) =>
      validate(parts, request, reply),
    );
  };
}
