// Shows texts of a request in answers: a long one is cut, and its length is told, so that no answer grows with what was sent.

/** Cuts a text longer than `most` UTF-16 units, and writes its length behind. @param shown what is left of it; absent: `most` */
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

/** Writes a step of a JSON pointer (RFC 6901 §3). A name of more than 100 characters is cut at 60, and its length told. */
export function pointerStep(name: string | number): string {
  const text = typeof name === 'number' ? String(name) : cutText(name, wholeName, shownOfLonger);
  return `/${text.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
