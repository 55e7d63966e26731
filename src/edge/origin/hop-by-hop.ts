// Knows which fields end at this hop (RFC 9110 §7.6.1), and which fields only the edge may set (D66).

/** Fields that concern one connection alone. Trailer and TE are among them because trailers are dropped both ways. */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Fields that Connection cannot remove: without them the origin would read a message differently than we did. */
const notRemovable: ReadonlySet<string> = new Set([
  'authorization',
  'cache-control',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'cookie',
  'date',
  'expect',
  'host',
  'location',
  'range',
  'set-cookie',
  'vary',
  'via',
]);

/** Fields by which the edge describes the client; they are taken from nobody else (D66). */
const ofTheEdge: ReadonlySet<string> = new Set(['forwarded', 'ray-id', 'x-real-ip']);

/** Whether a field, in lower case, is for one connection only. */
export function isHopByHop(name: string): boolean {
  return hopByHop.has(name);
}

/** Whether a field, in lower case, tells of the client or its way. An underscore counts as a hyphen: CGI cannot tell them apart. */
export function isOfTheEdge(name: string): boolean {
  const plain = name.includes('_') ? name.replaceAll('_', '-') : name;
  return ofTheEdge.has(plain) || plain.startsWith('x-forwarded-');
}

/** The fields that Connection names and that need not stay, in lower case; undefined for none. @param value all its lines */
export function namedByConnection(value: string): ReadonlySet<string> | undefined {
  let named: Set<string> | undefined;
  for (const part of value.split(',')) {
    const name = part.trim().toLowerCase();
    if (name === '' || name === 'close' || name === 'keep-alive' || notRemovable.has(name)) continue;
    named ??= new Set();
    named.add(name);
  }
  return named;
}

/** Whether Connection has an option. */
export function hasConnectionOption(value: string, option: string): boolean {
  return value.split(',').some((part) => part.trim().toLowerCase() === option);
}
