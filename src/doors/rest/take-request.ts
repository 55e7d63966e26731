// How the endpoints take the body of a message: the door judges it itself, and it is in memory only once.

import type { FastifyRequest } from 'fastify';
import type { Scope } from '../../accounts/account.ts';
import { anyIndex, emptyDocument, type JsonDocument } from '../../web/http/json/json-reader.ts';
import { submitterOf } from '../../web/http/v4-app.ts';
import type { ReadContext, ReadRequest } from './read-request.ts';
import { readSend } from './read-send.ts';
import { readSendRaw } from './read-send-raw.ts';
import type { RestLimits } from './settings.ts';

/** The two forms of a body. */
export type BodyKind = 'send' | 'send_raw';

/** The options of an endpoint that takes a message. Headers are judged whatever else is wrong with the body (D42b). */
export function messageOptions({ requestBytes }: RestLimits, scope: Scope | readonly Scope[]) {
  const config = {
    scope,
    bodyBytes: requestBytes,
    ownBodyFaults: true,
    keepMembers: 'headers',
    base64: ['attachments', anyIndex, 'content'],
    digestBody: true,
  } as const;
  return { config, validatorCompiler: () => () => true };
}

/** Tells the form of a body by its members. */
export function kindOf(document: JsonDocument | undefined): BodyKind {
  const value = document?.value;
  return typeof value === 'object' && value !== null && 'mime_message' in value ? 'send_raw' : 'send';
}

/** Reads the request and lets go of its JSON, so that its content is in memory only once from here on. */
export async function takeRequest(
  { limits, suppressed = () => false }: Pick<ReadContext, 'limits'> & Partial<Pick<ReadContext, 'suppressed'>>,
  request: FastifyRequest,
  kind: BodyKind,
): Promise<ReadRequest> {
  const { document = emptyDocument, bodyOctets } = request;
  request.body = undefined;
  request.document = undefined;
  const context = {
    submitter: submitterOf(request),
    limits,
    sessionId: request.id,
    remoteAddress: request.ip.replace(/^::ffff:(?=[0-9.]+$)/, ''),
    suppressed,
  };
  return kind === 'send' ? await readSend(document, bodyOctets, context) : await readSendRaw(document, context);
}
