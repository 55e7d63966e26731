// Makes text fit for a reply line: printable ASCII only (RFC 5321 §4.2, D7).

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xff
    ? `\\x${code.toString(16).toUpperCase().padStart(2, '0')}`
    : `\\u{${code.toString(16).toUpperCase()}}`;
}

/**
 * Makes text fit for a reply line: printable ASCII, everything else escaped (`\xC3`, `\u{20AC}`), so that no text from a
 * client can end the line or begin another.
 * @param maxOctets longer text is cut there and ends in `...`
 */
export function printableAscii(text: string, maxOctets: number): string {
  // Text beyond this length cannot appear in the result, so it is not examined.
  const escaped = text.slice(0, maxOctets + 1).replace(/[^\x20-\x7e]/gu, escapeCharacter);
  return escaped.length <= maxOctets ? escaped : `${escaped.slice(0, maxOctets - 3)}...`;
}
