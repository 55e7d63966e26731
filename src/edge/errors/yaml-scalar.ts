// A string as a YAML scalar that every reader takes for that string, by YAML 1.2 and by YAML 1.1.

const plainCharacters = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/**
 * Digits, with what a number or a date may have between them, also `e0`, where YAML 1.1 lets the digits in front be absent; and
 * numbers of other bases, which YAML 1.1 knows too.
 */
const numberLike = /^(?:[0-9._eE-]+$|[0-9][xXoObB])/;
/** YAML 1.1 booleans and nulls, in any case. */
const words = new Set(['y', 'n', 'yes', 'no', 'true', 'false', 'on', 'off', 'null', 'nan', 'inf']);

function escapeCharacter(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`;
  const codePoint = character.codePointAt(0) ?? 0;
  const hex = codePoint.toString(16).toUpperCase();
  if (codePoint < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return codePoint < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** True where a plain scalar of these characters is a string. */
function isPlainString(text: string): boolean {
  return plainCharacters.test(text) && !numberLike.test(text) && !words.has(text.toLowerCase());
}

/**
 * Writes a string: plain where that is safe, else double-quoted, with everything but printable ASCII escaped. It stays on
 * one line; lone surrogates become U+FFFD.
 */
export function yamlString(text: string): string {
  if (isPlainString(text)) return text;
  return `"${text.toWellFormed().replace(/["\\]|[^ -~]/gu, escapeCharacter)}"`;
}
