// The secrets of webhooks and the signatures made with them, per the Standard Webhooks specification.

import { randomBytes } from 'node:crypto';
import { hmacOf, hmacPads } from '../../base/hmac.ts';

const prefix = 'whsec_';
/** Octets of a secret that is made here; the specification wants 24 to 64. */
const madeOctets = 32;

/** Makes a secret. */
export function makeSecret(): string {
  return prefix + randomBytes(madeOctets).toString('base64');
}

/** Reads a secret, `whsec_` and base64 of 24 to 64 octets. @returns undefined for anything else */
export function readSecretOctets(secret: string): Buffer | undefined {
  if (!secret.startsWith(prefix)) return undefined;
  const text = secret.slice(prefix.length);
  const octets = Buffer.from(text, 'base64');
  const isWhole = octets.toString('base64') === text;
  return isWhole && octets.length >= 24 && octets.length <= 64 ? octets : undefined;
}

/**
 * Signs a request.
 * @param secrets the current one, and while it is being replaced the one before; the receiver knows one of them
 * @param id `webhook-id`
 * @param timestamp `webhook-timestamp`, seconds since 1970
 * @returns `webhook-signature`: `v1,` and base64 of HMAC-SHA256 over `id.timestamp.body` for each secret, blanks between
 * @throws Error for a secret that is none
 */
export function signatureOf(
  secrets: readonly string[],
  { id, timestamp, body }: { readonly id: string; readonly timestamp: number; readonly body: string },
): string {
  const signed = Buffer.from(`${id}.${timestamp}.${body}`);
  const signatures = secrets.map((secret) => {
    const key = readSecretOctets(secret);
    if (!key) throw new Error('The secret of a webhook is not whsec_ and base64 of 24 to 64 octets');
    const { inner, outer } = hmacPads(key);
    return `v1,${hmacOf(Buffer.concat([inner, signed]), outer).toString('base64')}`;
  });
  return signatures.join(' ');
}
