// POST .../email/sending/rehearse: what would become of a message, field by field, and the message as it would leave. Nothing is kept or
// sent. It is `validate` with more to see; a message alone is judged with the envelope that `postern check` assumes.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Account } from '../../accounts/account.ts';
import { shownVerdicts } from '../../pipeline/policy/explain.ts';
import { type Explanation, restAnswers, type Submission } from '../../pipeline/submit.ts';
import { failureOf, succeed } from '../../web/http/envelope.ts';
import { isJsonObject, type JsonDocument } from '../../web/http/json/json-reader.ts';
import { submitterOf, type V4Plugin } from '../../web/http/v4-app.ts';
import type { RestDoorParts } from './rest-door.ts';
import { accountPath, RehearseRequest, RehearseResult } from './schemas.ts';
import { kindOf, messageOptions, takeRequest } from './take-request.ts';
import { type ValidationParts, validation } from './validation.ts';

type Parts = Pick<RestDoorParts, keyof ValidationParts | 'suppressed'>;

/** Octets of the message as it would leave that an answer shows. */
const shownOctets = 262_144;
/** Characters of a field's value that an answer shows. */
const shownValue = 500;

/** Verdicts on fields, with their values. */
function verdictsOf({ headers }: Explanation, { fields }: Submission) {
  return headers.map(({ name, verdict, rule, standard, violation }, index) => ({
    name: name.slice(0, 100).toWellFormed(),
    value: fields[index]?.rawBytes.toString('utf8').trim().slice(0, shownValue).toWellFormed() ?? null,
    verdict: shownVerdicts[verdict],
    rule,
    reference: standard ?? null,
    ...(violation ? { code: violation.code, message: violation.message.slice(0, 1000).toWellFormed() } : {}),
  }));
}

/** The body of send_raw for a message alone: a reverse-path that the account may use, so that From decides. */
function withEnvelope(document: JsonDocument, account: Account): JsonDocument {
  const { value } = document;
  if (!isJsonObject(value) || value['raw'] === undefined) return document;
  const { raw, ...others } = value;
  const domain = account.sendingDomains[0]?.name;
  const from = domain === undefined ? '' : `sender@${domain}`;
  return { ...document, value: { from, recipients: ['recipient@example.net'], ...others, mime_message: raw } };
}

async function rehearse(parts: Parts, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const { account } = submitterOf(request);
  if (request.document) request.document = withEnvelope(request.document, account);
  const read = await takeRequest(parts, request, kindOf(request.document));
  const { faults, result, explanation, sent } = await validation(read, parts);
  const { errors } = failureOf(restAnswers, faults).body;
  const octets = sent && Buffer.concat([sent.head, sent.body.subarray(0, shownOctets)]);
  return succeed(reply, {
    ...{ valid: errors.length === 0, errors, ...result },
    verdicts: verdictsOf(explanation, read.submission),
    sent: octets ? { text: octets.toString('utf8', 0, shownOctets), is_whole: octets.length <= shownOctets } : null,
  });
}

/** The endpoint. */
export function rehearseEndpoint(parts: Parts): V4Plugin {
  const options = messageOptions(parts.limits, ['email:send', 'console:read']);
  return (app) => {
    app.post(
      '/accounts/:account_id/email/sending/rehearse',
      {
        ...options,
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
