// Finds the ends of quoted-strings, quoted-pairs and comments, for all readers of structured fields (RFC 5322 §3.2). Linear.

const backslash = 0x5c;

/** The end of text between marks, but for those behind a backslash. @param mark the closing one @returns the offset behind, or -1 */
export function closingEnd(text: string, start: number, mark: '"' | ']'): number {
  const wanted = mark.charCodeAt(0);
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === backslash) at += 1;
    else if (code === wanted) return at + 1;
  }
  return -1;
}

/** The offset behind the comment that begins at `start`, or -1 where it is never closed. Comments nest (§3.2.2). */
export function commentEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === backslash) at += 1;
    else if (code === 0x28) depth += 1;
    else if (code === 0x29) depth -= 1;
    if (depth === 0) return at + 1;
  }
  return -1;
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09 || code === 0x0d || code === 0x0a;
}

/** The offset behind comments and white space, folds included, or -1 where a comment is never closed. */
export function skipComments(text: string, from: number): number {
  for (let at = from; ; ) {
    while (at < text.length && isBlank(text.charCodeAt(at))) at += 1;
    if (text[at] !== '(') return at;
    at = commentEnd(text, at);
    if (at < 0) return -1;
  }
}

/** Takes the backslashes of quoted-pairs away (§3.2.1). */
export function withoutQuotedPairs(text: string): string {
  return text.replace(/\\([^])/g, '$1');
}

/** Writes a text as a quoted-string (§3.2.4). */
export function quotedString(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** Atext (RFC 5322 §3.2.3, RFC 5321 §4.1.2) as the inside of a character class, for regular expressions with or without `u`. */
export const atext = "A-Za-z0-9!#$%&'*+\\-/=?^_`{|}~";
