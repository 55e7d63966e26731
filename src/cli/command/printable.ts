// Makes text of others safe to show on a terminal.

/**
 * Replaces each character that would control a terminal, begin another line or reorder text with a question mark. For
 * text of a client, a next hop or a name server.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
