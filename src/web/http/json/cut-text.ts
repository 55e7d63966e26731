// Shows texts of a request in answers: a long one is cut, and its length is told, so that no answer grows with what was sent.

/**
 * Cuts a text that is longer than `most` characters (units of UTF-16), and writes its length behind the cut.
 * @param shown how many characters of a text that is too long are shown; absent: `most`
 */
export function cutText(text: string, most: number, shown = most): string {
  return text.length > most ? `${text.slice(0, shown)}...(${text.length} characters)` : text;
}

/** Writes a text in quotation marks, escaped as in JSON; at most 60 of its characters are shown. */
export function quoted(text: string): string {
  return text.length > 60
    ? `${JSON.stringify(`${text.slice(0, 60)}...`)} (${text.length} characters)`
    : JSON.stringify(text);
}

/** The longest name that stands in a pointer as it is, in characters: the longest allowed header name has as many (D10). */
const wholeName = 100;
const shownOfLonger = 60;

/**
 * Writes a name as a step of a JSON pointer (RFC 6901 §3).
 * @param name a name of more than 100 characters is cut at 60 and its length told; programs cannot follow such a pointer
 */
export function pointerStep(name: string | number): string {
  const text = typeof name === 'number' ? String(name) : cutText(name, wholeName, shownOfLonger);
  return `/${text.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
