// The verdict of `validate` (D47) and of `postern check`: violations as of `send`, counts, and the headers that would leave. POST
// .../email/sending/rehearse is `validate` with more to see: what would become of each field, and the message as it would leave.
// Nothing is kept or sent. A message alone is judged with the envelope that `postern check` assumes.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Account } from '../../accounts/account.ts';
import { shownVerdicts } from '../../pipeline/policy/explain.ts';
import { type build, type Explanation, type examine, restAnswers, type Submission } from '../../pipeline/submit.ts';
import { accountPath } from '../../web/http/endpoint.ts';
import { failureOf, succeed } from '../../web/http/envelope.ts';
import { cutText } from '../../web/http/json/cut-text.ts';
import { isJsonObject, type JsonDocument } from '../../web/http/json/json-reader.ts';
import { submitterOf, type V4Plugin } from '../../web/http/v4-app.ts';
import { mergeFaults } from './faults.ts';
import type { ReadRequest } from './read-request.ts';
import { RehearseRequest, RehearseResult } from './schemas.ts';
import type { RestLimits } from './settings.ts';
import { kindOf, messageOptions, takeRequest } from './take-request.ts';

/** What validation asks. */
export interface ValidationParts {
  readonly limits: RestLimits;
  readonly examine: (submission: Submission) => ReturnType<typeof examine>;
  readonly preview: (submission: Submission) => ReturnType<typeof build>;
  /** Gives where the pages of headers are, `https://gateway.example/headers`; absent, or undefined: nobody has said it. */
  readonly headersUrl?: () => string | undefined;
  /** Whether the account's suppression list holds a recipient (D51). Absent: no recipient is suppressed. */
  readonly suppressed?: (account: Account, recipient: string) => boolean | Promise<boolean>;
}

function fieldsOf(head: Buffer): string[] {
  return head
    .toString('utf8')
    .replace(/\r\n\r\n$/, '')
    .split(/\r\n(?![ \t])/);
}

/** Judges a request that has been read. `sent` is the message as it would leave; undefined where it would not. */
export async function validation(read: ReadRequest, { preview, limits, headersUrl, ...parts }: ValidationParts) {
  const { submission } = read;
  const { explanation, violations } = await parts.examine(submission);
  const judged = mergeFaults(submission, read.faults, violations, headersUrl?.());
  const built = judged.length === 0 ? await preview(submission) : undefined;
  const faults = built?.ok === false ? mergeFaults(submission, [], built.violations, headersUrl?.()) : judged;
  const sent = built?.ok === true ? built.signed : undefined;
  const result = {
    usage: {
      allowlisted_headers: explanation.usage.allowlisted,
      header_bytes: explanation.usage.bytes,
      message_bytes: sent ? sent.head.length + sent.body.length : null,
      recipients: read.recipients,
    },
    limits: {
      allowlisted_headers: explanation.limits.allowlisted,
      header_bytes: explanation.limits.totalBytes,
      message_bytes: limits.messageBytes,
      recipients: limits.recipients,
    },
    headers: explanation.headers.map(({ name, verdict, rule, standard, violation }) => ({
      name: cutText(name, 100, 60).toWellFormed(),
      verdict,
      rule,
      ...(standard === undefined ? {} : { standard }),
      ...(violation ? { token: violation.code } : {}),
    })),
    headers_as_sent: sent ? fieldsOf(sent.head) : null,
  };
  return { faults, result, explanation, sent };
}

/** Octets of the message as it would leave that an answer shows. */
const shownOctets = 262_144;
/** Characters of a field's value that an answer shows. */
const shownValue = 500;

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

async function rehearse(parts: ValidationParts, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
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
export function rehearseEndpoint(parts: ValidationParts): V4Plugin {
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
