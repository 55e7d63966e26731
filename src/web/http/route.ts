// Decides who answers a request (D67, D68) by target, Host and TLS name. Pure. RFC 9110 §4.2, §7.2; RFC 9112 §3.2.

import { isIP, isIPv6 } from 'node:net';

/** What a request asks for, in one form. */
interface RequestedResource {
  /** In lower case, without port and without one dot at the end; an IPv6 address stands in brackets. */
  readonly host: string;
  /** The authority as it was sent; Host is set to it. */
  readonly authority: string;
  /** Without the query. */
  readonly path: string;
  /** Path and query, or `*`. */
  readonly target: string;
}

/** What a listener serves: `all`, or, where the API has one of its own, `zones` on the others and `api` on that. */
export type Serves = 'all' | 'zones' | 'api';

/** What routing reads of the head of a request, and of the listener that it came to. */
export interface RoutingHead {
  readonly method: string;
  /** The request target as it was sent, in any form. */
  readonly target: string;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  /** The name asked for in the TLS handshake; absent without TLS or without a name. */
  readonly serverName?: string | undefined;
  /** Gives the address that the connection was accepted at; called only where it matters. */
  readonly localAddress?: (() => string | undefined) | undefined;
  /** What the listener serves; absent: all. */
  readonly serves?: Serves | undefined;
  /** Whether the console is served where the API is; absent: no. */
  readonly hasConsole?: boolean | undefined;
}

/** Which hosts there are. */
export interface HostTable {
  /** Takes `host` as `RequestedResource` has it. */
  readonly isZone: (host: string) => boolean;
  /** Names and addresses of the API (`http.apiHosts`), in lower case. */
  readonly apiHosts: ReadonlySet<string>;
}

type Destination =
  /** A zone's hostname: the edge answers, on every path. */
  | 'zone'
  /** The API, its documents, health and metrics, on any Host that is no zone's. */
  | 'api'
  /** The pages about error codes, on any Host that is no zone's. */
  | 'reference'
  /** The page at `/` on the API's own host, which tells what is served here. */
  | 'home'
  /** The console's pages and its sign-in, on the API's own host. */
  | 'console'
  /** A path on the API's own host at which the API has nothing. */
  | 'api-host'
  /** Host is an IP address: error 1003. */
  | 'address'
  /** Host is neither a zone's nor the API's: error 1004. */
  | 'unknown'
  /** The TLS handshake asked for another name than Host: error 1013 (D68). */
  | 'misdirected';

/** Where a request goes, or one line about why it cannot be routed. */
export type RequestRoute =
  | ({ readonly destination: Destination } & RequestedResource)
  | { readonly destination: 'bad'; readonly text: string };

// RFC 3986 §3.2.2: reg-name.
const registeredName = /^(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$/;
/** Octets of a DNS name as text, with a dot at its end. */
const maxNameLength = 254;

function isPort(text: string): boolean {
  return /^[0-9]{0,5}$/.test(text) && Number(text) <= 65_535;
}

/** Reads `host[:port]` (RFC 3986 §3.2.3), without user information (RFC 9110 §4.2.4). @returns the host in lower case, IPv6 in brackets */
export function readAuthority(text: string): string | undefined {
  if (text.startsWith('[')) {
    const end = text.indexOf(']');
    const address = text.slice(1, end);
    const rest = text.slice(end + 1);
    if (end < 0 || address.includes('%') || !isIPv6(address)) return undefined;
    if (rest !== '' && !(rest.startsWith(':') && isPort(rest.slice(1)))) return undefined;
    return new URL(`http://[${address}]`).hostname;
  }
  const colon = text.indexOf(':');
  const name = colon < 0 ? text : text.slice(0, colon);
  if (colon >= 0 && !isPort(text.slice(colon + 1))) return undefined;
  if (name.length > maxNameLength || !registeredName.test(name)) return undefined;
  const host = (name.endsWith('.') ? name.slice(0, -1) : name).toLowerCase();
  return host === '' ? undefined : host;
}

/** The value of Host; undefined where there is none or more than one. */
function hostLine(rawHeaders: readonly string[]): string | undefined {
  let line: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue;
    if (line !== undefined) return undefined;
    line = rawHeaders[index + 1] ?? '';
  }
  return line;
}

// No fragment (RFC 9112 §3.2), no control, no blank: nothing that an origin might cut the target at.
const originForm = /^\/[!"$-~\u0080-\u00ff]*$/;
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/is;

interface ReadTarget {
  readonly target: string;
  readonly authority?: string;
}

/** RFC 9112 §3.2: origin-form, absolute-form, authority-form of CONNECT, asterisk-form of OPTIONS. */
function readTarget({ method, target }: RoutingHead): ReadTarget | undefined {
  if (method === 'CONNECT') return { target: '/' };
  if (target === '*') return method === 'OPTIONS' ? { target } : undefined;
  if (target.startsWith('/')) return originForm.test(target) ? { target } : undefined;
  const [, authority, rest = ''] = absoluteForm.exec(target) ?? [];
  if (authority === undefined) return undefined;
  // RFC 9112 §3.2.4: an OPTIONS request for a whole server that comes through a proxy has no path.
  if (rest === '' && method === 'OPTIONS') return { target: '*', authority };
  const path = rest.startsWith('/') ? rest : `/${rest}`;
  return originForm.test(path) ? { target: path, authority } : undefined;
}

/** Paths that load balancers ask. They are answered on every listener, since a load balancer stands before the zones. */
const healthPaths: ReadonlySet<string> = new Set(['/livez', '/readyz']);
const apiPaths: ReadonlySet<string> = new Set([...healthPaths, '/metrics', '/docs', '/headers', '/openapi.json']);

/** What answers a path of the API, whatever the Host; undefined where the API has no such path. */
function apiDestination(path: string): 'api' | 'reference' | undefined {
  if (path.startsWith('/client/v4/') || apiPaths.has(path) || path.startsWith('/headers/')) return 'api';
  return path === '/errors' || path.startsWith('/errors/') ? 'reference' : undefined;
}

/** Whether a path is the console's: below /console, or the short link to a message that stands in refusals. */
function isConsolePath(path: string): boolean {
  return path === '/console' || path.startsWith('/console/') || path.startsWith('/m/');
}

/** 127.0.0.0/8 and ::1 (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3), as they are written in Host. */
const loopback = /^(?:127\.[0-9.]+|\[::1\])$/;

/** Whether a request names the loopback address it came to: the page of what is served and the console are found there. */
function isOwnLoopback(host: string, localAddress: RoutingHead['localAddress']): boolean {
  if (isIP(host) !== 4 && !host.startsWith('[')) return false;
  // A listener for both families shows IPv4 addresses as mapped ones (RFC 4291 §2.5.5.2).
  const own = localAddress?.()?.replace(/^::ffff:(?=\d+\.)/, '');
  return loopback.test(host) && own !== undefined && (own === host || `[${own}]` === host);
}

/** The API's hosts in the text that a Host has them in: lower case, an IPv6 address in brackets and canonical. */
export function apiHostSet(hosts: readonly string[]): ReadonlySet<string> {
  return new Set(hosts.map((host) => (host.includes(':') ? new URL(`http://[${host}]`).hostname : host.toLowerCase())));
}

function destinationOf(host: string, path: string, hosts: HostTable, head: RoutingHead): Destination {
  const { serves = 'all' } = head;
  // On the API's own listener every request is for the API, whatever its Host: no zone is served there.
  const page = path === '/' ? 'home' : head.hasConsole === true && isConsolePath(path) ? 'console' : undefined;
  if (serves === 'api') return apiDestination(path) ?? page ?? 'api-host';
  if (hosts.isZone(host)) return 'zone';
  const nobody = isIP(host) !== 0 || host.startsWith('[') ? 'address' : 'unknown';
  if (serves === 'zones') return healthPaths.has(path) ? 'api' : nobody;
  const ofApi = apiDestination(path);
  if (ofApi) return ofApi;
  if (page && (hosts.apiHosts.has(host) || isOwnLoopback(host, head.localAddress))) return page;
  return hosts.apiHosts.has(host) ? 'api-host' : nobody;
}

/** These are answered under any name, so a TLS handshake for another name does not make such a request misdirected. */
const nameless: ReadonlySet<Destination> = new Set(['api', 'reference']);

function isMisdirected(host: string, serverName: string | undefined): boolean {
  if (serverName === undefined || serverName === '') return false;
  return readAuthority(serverName) !== host;
}

/** Routes a request. RFC 9112 §3.2: exactly one valid Host; an authority of the target replaces it (§3.2.2). */
export function routeRequest(head: RoutingHead, hosts: HostTable): RequestRoute {
  const line = hostLine(head.rawHeaders);
  const named = line === undefined ? undefined : readAuthority(line);
  if (line === undefined || named === undefined) return { destination: 'bad', text: 'Bad Host header' };
  const asked = readTarget(head);
  if (!asked) return { destination: 'bad', text: 'Bad request target' };
  const authority = asked.authority ?? line;
  const host = authority === line ? named : readAuthority(authority);
  if (host === undefined) return { destination: 'bad', text: 'Bad request target' };
  const query = asked.target.indexOf('?');
  const path = query < 0 ? asked.target : asked.target.slice(0, query);
  const destination = destinationOf(host, path, hosts, head);
  const astray = !nameless.has(destination) && isMisdirected(host, head.serverName);
  return { destination: astray ? 'misdirected' : destination, host, authority, path, target: asked.target };
}
