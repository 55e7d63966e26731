// Values of a request as messages show them: quoted, and cut where they are long.

const shownCharacters = 80;

/** A text in quotes, escaped as in JSON, at most 80 characters of it. */
export function quote(text: string): string {
  return JSON.stringify(text.length > shownCharacters ? `${text.slice(0, shownCharacters)}...` : text);
}

/** What a message says that it got: a text quoted, a number or truth value itself, anything else by its kind. */
export function got(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (!Array.isArray(value)) return 'an object';
  return value.length === 0 ? 'an empty array' : 'an array';
}

/** Joins reasons; after so many, only their number is told, so that no request makes a message of its own size. */
export function joinReasons(texts: readonly string[], most: number, separator = '; '): string {
  const more = texts.length - most;
  return more > 0 ? `${texts.slice(0, most).join(separator)}${separator}and ${more} more` : texts.join(separator);
}
