// Which fields end at this hop (RFC 9110 §7.6.1), and which a client may not speak for us with (D66).

/** Fields that concern one connection. Trailer and TE are among them because trailers are dropped both ways. */
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

/** What Connection must not name: without them a message would be read differently behind us than before us. */
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

/** What the edge says of the client; nobody else may (D66). */
const ofTheEdge: ReadonlySet<string> = new Set(['forwarded', 'ray-id', 'x-real-ip']);

/** Is this field (lower case) for one connection only? */
export function isHopByHop(name: string): boolean {
  return hopByHop.has(name);
}

/**
 * Does this field (lower case) tell who the client is or how it came? An underscore counts as a hyphen: origins that
 * hand fields on as environment variables cannot tell the two apart.
 */
export function isOfTheEdge(name: string): boolean {
  const plain = name.includes('_') ? name.replaceAll('_', '-') : name;
  return ofTheEdge.has(plain) || plain.startsWith('x-forwarded-');
}

/**
 * The fields that Connection names, in lower case, without those that must stay. Absent where it names none, which
 * `close` and `keep-alive` do not.
 * @param value every Connection line, joined by commas
 */
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

/** Has Connection this option? */
export function hasConnectionOption(value: string, option: string): boolean {
  return value.split(',').some((part) => part.trim().toLowerCase() === option);
}
