// Text of others on a terminal.

/**
 * Text of a client, a next hop or a name server without what would steer a terminal, begin another line or reorder what
 * stands beside it: each such character becomes a question mark.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
