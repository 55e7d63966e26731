// How large the head of a request is (RFC 9110 §5.4, RFC 6585 §5).

/** Octets of a request's header section: every line with its colon, blank and line end. One octet is one character. */
export function headerSectionOctets(rawHeaders: readonly string[]): number {
  // `name: value` and CRLF: two octets for each of the two texts.
  let octets = 2 * rawHeaders.length;
  for (const text of rawHeaders) octets += text.length;
  return octets;
}

/** What the API takes of a header section and of a target, octets each. */
export const maxApiHeadOctets = 32_768;

/** Whether the head of a request is more than the API takes. */
export function isHeadTooLarge({
  url = '',
  rawHeaders,
}: {
  readonly url?: string | undefined;
  readonly rawHeaders: readonly string[];
}): boolean {
  return url.length > maxApiHeadOctets || headerSectionOctets(rawHeaders) > maxApiHeadOctets;
}
