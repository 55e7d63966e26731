// A document that stays as it is while the process runs: made once, sent as the same octets however often it is asked for,
// and not at all to who has it already (RFC 9110 §13.1.2).

import { createHash } from 'node:crypto';

/** The octets and the header fields that they are sent with. */
export interface FixedDocument {
  readonly body: Buffer;
  /** Names in lower case; with ETag and Cache-Control. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Makes a document.
 * @param contentType with its charset, which is UTF-8
 * @param contentSecurityPolicy of an HTML page
 */
export function fixedDocument(
  text: string,
  { contentType, contentSecurityPolicy }: { readonly contentType: string; readonly contentSecurityPolicy?: string },
): FixedDocument {
  const body = Buffer.from(text);
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22);
  return {
    body,
    headers: {
      'content-type': contentType,
      etag: `"${digest}"`,
      // Kept, but asked for each time: another release has another document under the same URL.
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      ...(contentSecurityPolicy === undefined ? {} : { 'content-security-policy': contentSecurityPolicy }),
    },
  };
}

/**
 * Whether a client has the document: If-None-Match names it, or anything (`*`). RFC 9110 §13.1.2: compared weakly.
 * @param ifNoneMatch the field's value, several lines joined by commas; absent: it has nothing
 */
export function isHeldBy(ifNoneMatch: string | undefined, { headers }: FixedDocument): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  // RFC 9110 §8.8.3: etagc.
  return (ifNoneMatch.match(/"[!#-~\u0080-\u00ff]*"/g) ?? []).some((tag) => tag === headers['etag']);
}
