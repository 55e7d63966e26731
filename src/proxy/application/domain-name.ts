// Domain names as applications have them: A-labels, compared in lower case (D82, RFC 1035 §2.3.4, RFC 5891 §4.2.1).

const label = /^_?[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
// A name that ends in a number is an IPv4 address to many programs: `127.1`, `2130706433` and `0x7f.1` are all loopback.
const number = /^(?:\d+|0x[0-9a-f]*)$/;

/**
 * Reads a domain name: labels of 1-63 letters, digits and hyphens, no hyphen at either end, one underscore before it
 * allowed; at most 253 characters; no IP address. A dot at the end is refused: the root's label is empty (D82).
 * Unicode is refused too: it has to come as A-labels (`xn--`).
 * @returns the name in lower case, undefined for anything else
 */
export function parseDomainName(text: string): string | undefined {
  if (text.length === 0 || text.length > 253) return undefined;
  // ASCII only: toLowerCase turns the Kelvin sign into k.
  const name = text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  const labels = name.split('.');
  if (number.test(labels.at(-1) ?? '')) return undefined;
  return labels.every((part) => part.length <= 63 && label.test(part)) ? name : undefined;
}
