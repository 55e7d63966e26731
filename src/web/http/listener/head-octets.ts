// Measures the head of a request (RFC 9110 §5.4, RFC 6585 §5).

/** Octets of a request's header section: every line with its colon, blank and line end. One octet is one character. */
export function headerSectionOctets(rawHeaders: readonly string[]): number {
  // A line is `name: value` and CRLF: two more octets for the name, two for the value.
  let octets = 2 * rawHeaders.length;
  for (const text of rawHeaders) octets += text.length;
  return octets;
}

/** The most octets that the API takes of a header section, and the most of a target. */
export const maxApiHeadOctets = 32_768;

/** Whether the head of a request is larger than the API takes. */
export function isHeadTooLarge({
  url = '',
  rawHeaders,
}: {
  readonly url?: string | undefined;
  readonly rawHeaders: readonly string[];
}): boolean {
  return url.length > maxApiHeadOctets || headerSectionOctets(rawHeaders) > maxApiHeadOctets;
}
