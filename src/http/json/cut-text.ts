// Texts of a request as answers show them: a long one is cut, and its length told, so that no answer grows with what was
// sent.

/**
 * Cuts a text that is longer than `most` characters (units of UTF-16), and tells its length behind the cut.
 * @param shown characters that are left of a text that is too long; absent: `most`
 */
export function cutText(text: string, most: number, shown = most): string {
  return text.length > most ? `${text.slice(0, shown)}...(${text.length} characters)` : text;
}

/** A text in quotation marks, escaped as in JSON, at most 60 characters of it. */
export function quoted(text: string): string {
  return text.length > 60
    ? `${JSON.stringify(`${text.slice(0, 60)}...`)} (${text.length} characters)`
    : JSON.stringify(text);
}
