// A document that stays the same while the process runs. It is made once, every answer sends the same octets, and a client that
// has it already gets no octets at all (RFC 9110 §13.1.2).

import { createHash } from 'node:crypto';

/** The octets of a document, and the header fields that they are sent with. */
export interface FixedDocument {
  readonly body: Buffer;
  /** Names in lower case; ETag and Cache-Control are among them. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Makes a document.
 * @param contentType the media type with its charset, which is UTF-8
 * @param contentSecurityPolicy the policy of an HTML page
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
      // Clients may keep the document but must ask each time: another release has another document under the same URL.
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      ...(contentSecurityPolicy === undefined ? {} : { 'content-security-policy': contentSecurityPolicy }),
    },
  };
}

/**
 * Whether a client has the document: If-None-Match names its ETag, or is `*`. RFC 9110 §13.1.2: the comparison is weak.
 * @param ifNoneMatch the field's value, several lines joined by commas; absent: the client has nothing
 */
export function hasTag(ifNoneMatch: string | undefined, { headers }: FixedDocument): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  // RFC 9110 §8.8.3: etagc.
  return (ifNoneMatch.match(/"[!#-~\u0080-\u00ff]*"/g) ?? []).some((tag) => tag === headers['etag']);
}
