// The REST endpoints send, send_raw and validate (D43-D48). This file makes Submissions and writes answers; header rules, DKIM
// keys and the spool are known elsewhere.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Account } from '../../accounts/account.ts';
import {
  type Explanation,
  type Idempotency,
  isKeyUsed,
  refusalOf,
  restAnswers,
  type Submission,
  type Submit,
  type Violation,
} from '../../pipeline/submit.ts';
import type { RefusalFacts, Refuse } from '../../spool/events/refusal.ts';
import type { EntryLink } from '../../spool/journal/entry-link.ts';
import type { JournalDetails } from '../../spool/journal/journal-details.ts';
import { type Fault, failureOf, Refusal, succeed } from '../../web/http/envelope.ts';
import { anyIndex, emptyDocument } from '../../web/http/json/json-reader.ts';
import { submitterOf, type V4App, type V4Plugin } from '../../web/http/v4-app.ts';
import { createIdempotent, type Idempotent, type KeyStore, type KeyUse, readKey } from './idempotency.ts';
import { mergeFaults } from './merge-faults.ts';
import type { OutcomeKind, OutcomeWatch } from './outcome-watch.ts';
import { waitSeconds } from './prefer.ts';
import type { ReadContext, ReadRequest } from './read-request.ts';
import { readSend } from './read-send.ts';
import { readSendRaw } from './read-send-raw.ts';
import { accountPath, SendRawRequest, SendRequest, SendResult, ValidateRequest, ValidateResult } from './schemas.ts';
import { type ValidationParts, validation } from './validation.ts';

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
  /** Whether the account's suppression list holds a recipient (D51). Absent: no recipient is suppressed. */
  readonly suppressed?: (account: Account, recipient: string) => boolean | Promise<boolean>;
}

type Kind = 'send' | 'send_raw';

function readContext(parts: RestDoorParts, request: FastifyRequest): ReadContext {
  return {
    submitter: submitterOf(request),
    limits: parts.limits,
    sessionId: request.id,
    remoteAddress: request.ip.replace(/^::ffff:(?=[0-9.]+$)/, ''),
    suppressed: parts.suppressed ?? (() => false),
  };
}

/** Bodies above this have memory of their own, never a share of a pool. */
const ownMemoryOctets = 1_048_576;

/**
 * Gives the memory of a large body back at once. The garbage collector would keep it while the message is signed and
 * written, and a request of 30 MB would hold as much again.
 */
function freeOctets({ buffer, byteLength }: Buffer): void {
  if (byteLength < ownMemoryOctets || buffer.byteLength !== byteLength || !(buffer instanceof ArrayBuffer)) return;
  buffer.transfer(0);
}

/** Reads the request and lets go of its JSON, so that its content is in memory only once from here on. */
async function take(parts: RestDoorParts, request: FastifyRequest, kind: Kind): Promise<ReadRequest> {
  const { document, bodyOctets } = request;
  request.body = undefined;
  request.document = undefined;
  const read = document ?? emptyDocument;
  const context = readContext(parts, request);
  return kind === 'send' ? readSend(read, bodyOctets, context) : readSendRaw(read, context);
}

/** Describes the refusal of a request whose fields are at fault, for its event. */
function refusalByFields(submission: Submission, faults: readonly Fault[]): RefusalFacts {
  const reasons = faults.map((fault) => ({
    code: 'token' in fault ? fault.token : String(fault.number),
    message: fault.message,
    pointer: fault.pointer,
  }));
  return { ...refusalOf(submission, []), violations: reasons, reply: { code: failureOf(restAnswers, faults).status } };
}

interface SendResultBody {
  readonly delivered: readonly string[];
  readonly permanent_bounces: readonly string[];
  readonly queued: readonly string[];
  readonly message_id: string;
}

/** The result of a message. D52: the Message-ID stands without its angle brackets. */
function resultOf(
  messageId: string,
  recipients: readonly string[],
  outcomes: ReadonlyMap<string, OutcomeKind> = new Map(),
): SendResultBody {
  const those = (kind: OutcomeKind): string[] => recipients.filter((recipient) => outcomes.get(recipient) === kind);
  return {
    delivered: those('delivered'),
    permanent_bounces: those('failed'),
    queued: recipients.filter((recipient) => !['delivered', 'failed'].includes(outcomes.get(recipient) ?? '')),
    message_id: messageId.slice(1, -1),
  };
}

function repeatAnswer(reply: FastifyReply, used: KeyUse): FastifyReply {
  const told: unknown = used.answer === undefined ? resultOf(used.messageId, used.recipients) : JSON.parse(used.answer);
  return succeed(reply.header('Idempotent-Replayed', 'true'), told);
}

/** Refuses a request for its fields; the policy's reasons stand in the same answer. */
async function refuseFields(parts: RestDoorParts, { submission, faults }: ReadRequest): Promise<never> {
  const { violations, explanation } = await parts.examine(submission);
  const all = mergeFaults(submission, faults, violations, parts.headersUrl?.());
  parts.onRefused({ ...refusalByFields(submission, all), journal: parts.noted?.(submission, explanation) });
  throw new Refusal(linked(all, submission, parts));
}

/** Adds to each fault the link to the journal's entry, where there is one. */
function linked(
  faults: readonly Fault[],
  { journalId }: Submission,
  { entryLink }: Pick<RestDoorParts, 'entryLink'>,
): readonly Fault[] {
  if (!entryLink || journalId === undefined) return faults;
  const documentationUrl = entryLink.urlOf(journalId);
  return faults.map((fault) => ({ ...fault, documentationUrl }));
}

function refusePolicy(parts: RestDoorParts, submission: Submission, violations: readonly Violation[]): never {
  const faults = mergeFaults(submission, [], violations, parts.headersUrl?.());
  throw new Refusal(linked(faults, submission, parts), violations[0]?.retryAfterSeconds);
}

/** What is kept in memory of a message that is on disk, while its request waits to hear the outcome. */
interface Kept {
  readonly messageId: string;
  readonly recipients: readonly string[];
}

interface Sending {
  readonly kind: Kind;
  readonly idempotency: Idempotency | undefined;
}

/** Chooses the id of the entry that a refusal would have in the journal, where its answer names it. */
function withEntryId(read: ReadRequest, { entryLink }: Pick<RestDoorParts, 'entryLink'>): ReadRequest {
  if (!entryLink) return read;
  return { ...read, submission: { ...read.submission, journalId: entryLink.newId() } };
}

/** Reads the message of the request and submits it. */
async function submitRead(
  parts: RestDoorParts,
  request: FastifyRequest,
  { kind, idempotency }: Sending,
): Promise<Kept> {
  const octets = request.document?.octets ?? emptyDocument.octets;
  const read = withEntryId(await take(parts, request, kind), parts);
  if (read.faults.length > 0) return await refuseFields(parts, read);
  const submission = {
    ...read.submission,
    release: () => freeOctets(octets),
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

/** Answers send and send_raw. */
async function send(
  parts: RestDoorParts & { readonly idempotent: Idempotent },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const kind: Kind = request.url.split('?', 1)[0]?.endsWith('/send_raw') === true ? 'send_raw' : 'send';
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
  const value = request.document?.value;
  const isRaw = typeof value === 'object' && value !== null && 'mime_message' in value;
  const read = await take(parts, request, isRaw ? 'send_raw' : 'send');
  const verdict = await validation(read, parts);
  const { errors } = failureOf(reply.server.answers, verdict.faults).body;
  return succeed(reply, { valid: errors.length === 0, errors, ...verdict.result });
}

const headers = {
  idempotency: Type.Object({
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
  }),
};

const tokens = {
  message: [
    'E_VALIDATION_ERROR',
    'E_FIELD_MISSING',
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
    'E_CONTENT_TOO_LARGE',
    'E_RATE_LIMIT_EXCEEDED',
    'E_DAILY_LIMIT_EXCEEDED',
    'E_IDEMPOTENCY_CONFLICT',
  ],
  validate: [],
} as const;

/** The door's endpoints. */
export function restDoor(doorParts: RestDoorParts): V4Plugin {
  const parts = { ...doorParts, idempotent: createIdempotent(doorParts.keys) };
  return (app: V4App) => {
    const config = {
      scope: 'email:send',
      bodyBytes: parts.limits.requestBytes,
      ownBodyFaults: true,
      keepMembers: 'headers',
      base64: ['attachments', anyIndex, 'content'],
      digestBody: true,
    } as const;
    // The door judges its bodies itself, so that headers are judged whatever else is wrong (D42b).
    const options = { config, validatorCompiler: () => () => true };
    const path = '/accounts/:account_id/email/sending';
    app.post(
      `${path}/send`,
      {
        ...options,
        schema: {
          operationId: 'sendMessage',
          summary: 'Send a message',
          description: 'Accepted means safe on disk; the recipients are then `queued`.',
          tags: ['Email'],
          params: accountPath,
          headers: headers.idempotency,
          body: SendRequest,
          response: { 200: SendResult },
          tokens: tokens.message,
        },
      },
      (request, reply) => send(parts, request, reply),
    );
    app.post(
      `${path}/send_raw`,
      {
        ...options,
        schema: {
          operationId: 'sendRawMessage',
          summary: 'Send a finished MIME message',
          description: 'What SMTP does with the same octets: the same allowlist, the same rewriting.',
          tags: ['Email'],
          params: accountPath,
          headers: headers.idempotency,
          body: SendRawRequest,
          response: { 200: SendResult },
          tokens: tokens.message,
        },
      },
      (request, reply) => send(parts, request, reply),
    );
    app.post(
      `${path}/validate`,
      {
        ...options,
        schema: {
          operationId: 'validateMessage',
          summary: 'Judge a message without sending it',
          description: 'Takes the body of `send` or of `send_raw`. Nothing is queued.',
          tags: ['Email'],
          params: accountPath,
          body: ValidateRequest,
          response: { 200: ValidateResult },
          tokens: tokens.validate,
        },
      },
      (request, reply) => validate(parts, request, reply),
    );
  };
}
