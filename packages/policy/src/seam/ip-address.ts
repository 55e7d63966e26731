// What the policy asks of addresses of IP, in place of ipaddr.js: whether a text is one, and its usual spelling.

const octet = '(?:0|[1-9][0-9]{0,2})';
const fourParts = new RegExp(`^${octet}(?:\\.${octet}){3}$`);

/** The address in brackets as a URL has it; undefined where it is none. */
function parsed(text: string): string | undefined {
  // A zone is no part of a URL's host.
  const address = text.replace(/%[0-9a-z]+$/i, '');
  if (!/^[0-9a-f:.]+$/i.test(address)) return undefined;
  try {
    return new URL(`http://[${address}]`).hostname.slice(1, -1);
  } catch {
    return undefined; // no address
  }
}

const ipaddr = {
  IPv4: {
    isValidFourPartDecimal: (text: string): boolean =>
      fourParts.test(text) && text.split('.').every((part) => Number(part) <= 255),
  },
  IPv6: {
    isValid: (text: string): boolean => parsed(text) !== undefined,
    parse: (text: string): { toString(): string } => ({ toString: () => parsed(text) ?? text }),
  },
};

export default ipaddr;
