// POST .../email/sending/rehearse: what would become of a message, field by field, and the message as it would leave. Nothing is kept or
// sent. It is `validate` with more to see; a message alone is judged with the envelope that `postern check` assumes.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Explanation, restAnswers, type Submission } from '../../pipeline/submit.ts';
import { failureOf, succeed } from '../../web/http/envelope.ts';
import { anyIndex, emptyDocument, isJsonObject, type JsonDocument } from '../../web/http/json/json-reader.ts';
import { submitterOf, type V4Plugin } from '../../web/http/v4-app.ts';
import type { ReadContext } from './read-request.ts';
import { readSend } from './read-send.ts';
import { readSendRaw } from './read-send-raw.ts';
import type { RestDoorParts } from './rest-door.ts';
import { accountPath, RehearseRequest, RehearseResult } from './schemas.ts';
import { type ValidationParts, validation } from './validation.ts';

type Parts = Pick<RestDoorParts, keyof ValidationParts | 'suppressed'>;

/** Octets of the message as it would leave that an answer shows. */
const shownOctets = 262_144;
/** Characters of a field's value that an answer shows. */
const shownValue = 500;

/** What becomes of a field, in the words of the journal. */
const words = {
  admitted: 'kept',
  trace: 'kept',
  mime: 'read',
  lifted: 'lifted',
  replaced: 'replaced',
  stripped: 'stripped',
  refused: 'refused',
} as const satisfies Record<Explanation['headers'][number]['verdict'], string>;

/** Verdicts on fields, with their values. */
function verdictsOf({ headers }: Explanation, { fields }: Submission) {
  return headers.map(({ name, verdict, rule, standard, violation }, index) => ({
    name: name.slice(0, 100).toWellFormed(),
    value: fields[index]?.rawBytes.toString('utf8').trim().slice(0, shownValue).toWellFormed() ?? null,
    verdict: words[verdict],
    rule,
    reference: standard ?? null,
    ...(violation ? { code: violation.code, message: violation.message.slice(0, 1000).toWellFormed() } : {}),
  }));
}

/** The body of send_raw for a message alone: a reverse-path that the account may use, so that From decides. */
function withEnvelope(document: JsonDocument, { submitter }: ReadContext): JsonDocument {
  const { value } = document;
  if (!isJsonObject(value) || value['raw'] === undefined) return document;
  const { raw, ...others } = value;
  const domain = submitter.account.sendingDomains[0]?.name;
  const from = domain === undefined ? '' : `sender@${domain}`;
  return { ...document, value: { from, recipients: ['recipient@example.net'], ...others, mime_message: raw } };
}

/** Judges a message and builds it. */
async function rehearse(parts: Parts, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const context: ReadContext = {
    submitter: submitterOf(request),
    limits: parts.limits,
    sessionId: request.id,
    remoteAddress: request.ip.replace(/^::ffff:(?=[0-9.]+$)/, ''),
    suppressed: parts.suppressed ?? (() => false),
  };
  const document = request.document ? withEnvelope(request.document, context) : emptyDocument;
  request.body = undefined;
  request.document = undefined;
  const { value } = document;
  const isRaw = isJsonObject(value) && 'mime_message' in value;
  const read = await (isRaw ? readSendRaw(document, context) : readSend(document, request.bodyOctets, context));
  let explanation: Explanation | undefined;
  let sent: Buffer | undefined;
  const seeing: ValidationParts = {
    ...parts,
    async examine(submission) {
      const examined = await parts.examine(submission);
      explanation = examined.explanation;
      return examined;
    },
    async preview(submission) {
      const built = await parts.preview(submission);
      if (built.ok) sent = Buffer.concat([built.head, built.body.subarray(0, shownOctets)]);
      return built;
    },
  };
  const verdict = await validation(read, seeing);
  const { errors } = failureOf(restAnswers, verdict.faults).body;
  return succeed(reply, {
    ...{ valid: errors.length === 0, errors, ...verdict.result },
    verdicts: explanation ? verdictsOf(explanation, read.submission) : [],
    sent: sent ? { text: sent.toString('utf8', 0, shownOctets), is_whole: sent.length <= shownOctets } : null,
  });
}

/** The endpoint. */
export function rehearseEndpoint(parts: Parts): V4Plugin {
  const config = {
    scope: ['email:send', 'console:read'],
    bodyBytes: parts.limits.requestBytes,
    ownBodyFaults: true,
    keepMembers: 'headers',
    base64: ['attachments', anyIndex, 'content'],
  } as const;
  return (app) => {
    app.post(
      '/accounts/:account_id/email/sending/rehearse',
      {
        config,
        validatorCompiler: () => () => true,
        schema: {
          operationId: 'rehearseMessage',
          summary: 'Tell what would become of a message, field by field',
          description:
            'Takes the body of `send` or of `send_raw`, or `raw`, a message without an envelope. Nothing is queued. Beside the answer of `validate` it has the verdict on each field, and the message as it would leave.',
          tags: ['Email'],
          params: accountPath,
          body: RehearseRequest,
          response: { 200: RehearseResult },
        },
      },
      (request, reply) => rehearse(parts, request, reply),
    );
  };
}
