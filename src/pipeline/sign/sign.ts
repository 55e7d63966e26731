// Signs a composed message with DKIM (RFC 6376, RFC 8463; D27) and lays out the octets that leave.

import type { YieldToEventLoop } from '../../mail/mime/body-scan.ts';
import type { Message, MessageField } from '../compose/message.ts';
import { relaxedBodyHash } from './body-hash.ts';
import { chooseFields, signatureField } from './signature.ts';
import type { Signed, SigningKey } from './signed.ts';

/** The keys of one message. */
export interface SigningKeys {
  /** Keys of the sending domain, one for each signature; never empty. */
  readonly domain: readonly SigningKey[];
  /** Keys of the platform domain; a route may leave their signatures out later (D27). */
  readonly platform: readonly SigningKey[];
}

/**
 * Signs a message: the body is hashed once for all signatures, and each signature is made in the thread pool.
 * @param yieldToEventLoop called between slices of a large body
 * @returns rejects when there is no key or a signature fails: no message ever leaves unsigned
 */
export async function sign(message: Message, keys: SigningKeys, yieldToEventLoop?: YieldToEventLoop): Promise<Signed> {
  if (keys.domain.length === 0) {
    throw new Error(`No DKIM key for ${message.checked.sendingDomain.name}`);
  }
  const basis = {
    ...chooseFields(message.fields),
    bodyHash: await relaxedBodyHash(message.body, yieldToEventLoop),
    time: Math.floor(message.acceptedAt / 1000),
  };
  const signatures = await Promise.all([...keys.platform, ...keys.domain].map((key) => signatureField(key, basis)));
  const trace = linesOf(message.trace);
  const platformFields = signatures.slice(0, keys.platform.length).join('');
  const head = Buffer.from(`${trace}${signatures.join('')}${linesOf(message.fields)}\r\n`, 'utf8');
  const signed: Signed = { message, head, body: message.body };
  if (keys.platform.length === 0) return signed;
  const start = Buffer.byteLength(trace, 'utf8');
  return { ...signed, platformSignature: { start, end: start + platformFields.length } };
}

function linesOf(fields: readonly MessageField[]): string {
  let lines = '';
  for (const field of fields) lines += field.line;
  return lines;
}
