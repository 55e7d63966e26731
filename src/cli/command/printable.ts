// Texts as commands show them to people.

/** Puts a question mark for each character that would control a terminal, begin a line or reorder text. For strangers' text. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}

/** A count with its noun: `1 message`, `2 messages`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** A time to the second. @param ms milliseconds since 1970 */
export function isoSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
