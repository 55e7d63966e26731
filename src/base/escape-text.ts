// Escapes text of others for a terminal, a message or a file, so that control characters in it have no effect there.

/** Writes each character that a pattern finds as `\x` with at least two hex digits of its number. @param pattern with the flag g */
export function escapeCharacters(text: string, pattern: RegExp): string {
  return text.replace(pattern, (character) => `\\x${(character.codePointAt(0) ?? 0).toString(16).padStart(2, '0')}`);
}

/** Writes `?` for everything but printable ASCII, for what has no escapes. */
export function maskUnprintable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?');
}

/** A text of somebody else, for a comment or a message: printable ASCII, in quotes, of a sane length. */
export function quotePrintable(text: string): string {
  return maskUnprintable(JSON.stringify(text.slice(0, 200)));
}
