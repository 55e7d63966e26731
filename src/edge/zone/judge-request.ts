// Finds the client of a request (the socket's peer, or, if that is a trusted proxy, the address in X-Forwarded-For), and judges whether a
// zone lets the request through to its origin; the checks run in this order (D60, D66).

import { isIP, isIPv4 } from 'node:net';
import { ownText } from '../../base/net/own-text.ts';
import { type AddressTest, addressTest, normalAddress } from '../../base/net/socket-address.ts';
import { tunnelFreeMethods } from '../../web/http/front.ts';
import { headerSectionOctets } from '../../web/http/listener/request-end.ts';
import { readAuthority } from '../../web/http/route.ts';
import { type EdgeCode, isEdgeCode } from '../errors/catalogue.ts';
import type { RateLimit } from './rate-limit.ts';
import type { EdgeZone } from './zone.ts';

/** The codes that a proxy may report: those that failing origins have. */
const reportedCodes = [520, 521, 522, 523, 524, 525, 526, 1016] as const;

/** What was reported: a code, or what is to be found out by connecting. */
export type ReportedFailure = {
  /** The method by which the client asked; absent: that of the request. */
  readonly method?: string | undefined;
} & (
  | { readonly kind: 'known'; readonly code: (typeof reportedCodes)[number] }
  | { readonly kind: 'connect' }
  | { readonly kind: 'since'; readonly at: number }
);

/**
 * Reads a failure that a trusted proxy in front reports: it has asked the origin itself, and wants the client told by us what failed.
 *
 *     X-Forwarded-Failure: 524          the code, where the proxy knows it
 *     X-Forwarded-Failure: connect      it could not connect, and does not know why
 *     X-Forwarded-Failure: since=MS     it got no answer; it began at that time (milliseconds since 1970)
 *
 * Behind a blank may stand the method of the request, where the proxy has to send it on by another one (Caddy).
 * @param lines every line of X-Forwarded-Failure
 * @returns undefined where nothing was reported, or nothing that can be read
 */
export function readReportedFailure(lines: readonly string[]): ReportedFailure | undefined {
  const [line = ''] = lines;
  const [, what, since, method] = /^([0-9]{3,4}|connect|since=([0-9]{1,15}))(?: ([A-Z]{1,20}))?$/.exec(line) ?? [];
  if (lines.length !== 1 || what === undefined) return undefined;
  if (what === 'connect') return { kind: 'connect', method };
  if (since !== undefined) return { kind: 'since', at: Number(since), method };
  const code = reportedCodes.find((known) => String(known) === what);
  return code === undefined ? undefined : { kind: 'known', code, method };
}

/** The client, and the proxies in between. */
export interface EdgeClient {
  readonly address: string;
  /** The believed part of X-Forwarded-For: the client and the trusted proxies after it, without the peer. */
  readonly forwardedFor: readonly string[];
  /** The scheme by which the client came, as a trusted peer tells it. */
  readonly forwardedProto?: 'http' | 'https' | undefined;
  /** The host that the client asked for, perhaps with a port, as a trusted peer tells it. */
  readonly forwardedHost?: string | undefined;
  /** The failure of the origin that a trusted peer has met and wants told. */
  readonly failure?: ReportedFailure | undefined;
}

/** Gives every line of a field, by its name in lower case. */
export type FieldLines = (name: string) => readonly string[];

/** What the hop which took the client's request wrote, in a list that grows or a field that is passed on. @param hops trusted ones */
function firstTrusted(lines: readonly string[], hops: number): string | undefined {
  const values = lines.join(',').split(',');
  return lines.length === 0 ? undefined : values[Math.max(0, values.length - hops)]?.trim();
}

/** What a trusted peer tells of the client's request besides its address. An impossible value counts as absent. */
function saidOf(lines: FieldLines, hops: number): Pick<EdgeClient, 'forwardedProto' | 'forwardedHost' | 'failure'> {
  const proto = firstTrusted(lines('x-forwarded-proto'), hops)?.toLowerCase();
  const host = firstTrusted(lines('x-forwarded-host'), hops);
  return {
    forwardedProto: proto === 'http' || proto === 'https' ? proto : undefined,
    forwardedHost: host !== undefined && readAuthority(host) !== undefined ? host : undefined,
    failure: readReportedFailure(lines('x-forwarded-failure')),
  };
}

/** Reads one entry of X-Forwarded-For: an address, or one with a port as some proxies write it. */
function readEntry(entry: string): string | undefined {
  const text = entry.trim();
  const bracketed = /^\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?$/.exec(text)?.[1];
  const withPort = /^([0-9.]{7,15}):[0-9]{1,5}$/.exec(text)?.[1];
  const address = bracketed ?? (withPort !== undefined && isIPv4(withPort) ? withPort : text);
  if (isIP(address) === 0 || address.includes('%')) return undefined;
  // The system's spelling of a peer, which limits count by and remember; it must not keep the whole field.
  const normal = normalAddress(address);
  return normal === undefined ? undefined : ownText(normal);
}

/**
 * Finds the client. Each entry of X-Forwarded-For is the peer that the next hop saw. Read from the right, the first entry that
 * is no trusted proxy is the client; entries before it may be invented. An entry that is no address ends the reading, and the
 * hop that wrote it counts as the client.
 * @param fields the request's fields; only X-Forwarded-For, -Proto, -Host and -Failure are read
 */
export function clientOf(peer: string, fields: FieldLines, isTrusted: AddressTest): EdgeClient {
  const believed: string[] = [];
  let address = normalAddress(peer) ?? peer;
  if (!isTrusted(address)) return { address, forwardedFor: [] };
  const lines = fields('x-forwarded-for');
  const entries = lines.length > 0 ? lines.join(',').split(',') : [];
  for (let index = entries.length - 1; index >= 0 && isTrusted(address); index -= 1) {
    const entry = readEntry(entries[index] ?? '');
    if (entry === undefined) break;
    believed.push(entry);
    address = entry;
  }
  return { address, forwardedFor: believed.toReversed(), ...saidOf(fields, Math.max(1, believed.length)) };
}

// Recognises the paths of a zone that belong to the edge: /cdn-cgi/ and what an origin might take for it (D60).

/** Who answers a path. */
type EdgePath =
  | { readonly kind: 'origin' }
  /** The edge, with the error of /cdn-cgi/error/{code}; the catalogue may not have the code. */
  | { readonly kind: 'error'; readonly code: number }
  /** The edge, with 404: the path is below /cdn-cgi/ in some spelling, and there is nothing. */
  | { readonly kind: 'reserved' };

const errorPath = /^\/cdn-cgi\/error\/([1-9][0-9]{2,3})$/;

function decode(text: string): string {
  if (!text.includes('%')) return text;
  return text.replace(/%[0-9A-Fa-f]{2}/g, (triplet) => String.fromCharCode(Number.parseInt(triplet.slice(1), 16)));
}

/** The first segment as written and after `..` is resolved. Empty segments, `.` and parameters are left out. */
function firstSegments(path: string): readonly (string | undefined)[] {
  const steps: string[] = [];
  let written: string | undefined;
  for (const segment of path.split(/[/\\]/)) {
    const step = segment.split(/[;?#\0]/, 1)[0] ?? '';
    if (step === '' || step === '.') continue;
    if (step === '..') steps.pop();
    else steps.push(step);
    written ??= step;
  }
  return [written, steps[0]];
}

function isReserved(reading: string): boolean {
  // A quick test first: most paths do not hold the name at all.
  if (!reading.toLowerCase().includes('cdn-cgi')) return false;
  return firstSegments(reading).some((segment) => segment?.trim().toLowerCase() === 'cdn-cgi');
}

/** Reads a path without its query. Whatever an origin could read as /cdn-cgi/, however it decodes, is reserved. */
export function readEdgePath(path: string): EdgePath {
  const code = errorPath.exec(path)?.[1];
  if (code !== undefined) return { kind: 'error', code: Number(code) };
  const once = decode(path);
  const readings = once === path ? [path] : [path, once, decode(once)];
  return { kind: readings.some(isReserved) ? 'reserved' : 'origin' };
}

/** A zone whose lists were read, with its rate limit. */
export interface GuardedZone {
  readonly zone: EdgeZone;
  readonly isBlocked: AddressTest;
  /** Absent where the zone has no allow list, or an empty one. */
  readonly isAllowed?: AddressTest;
  readonly rateLimit?: RateLimit;
}

/** Reads a zone's lists. @param rateLimit the count for its rate limit; undefined where it has none */
export function guardZone(zone: EdgeZone, rateLimit: RateLimit | undefined): GuardedZone {
  const { block = [], allow = [] } = zone;
  return {
    zone,
    isBlocked: addressTest(block),
    ...(allow.length > 0 ? { isAllowed: addressTest(allow) } : {}),
    ...(rateLimit ? { rateLimit } : {}),
  };
}

/** What is judged of a request to a zone. */
export interface JudgedRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** Path and query. */
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly clientAddress: string;
}

/** What is done with a request. */
export type Verdict =
  | { readonly kind: 'forward' }
  /** Answer the error of this code. `asked`: the request was for `/cdn-cgi/error/{code}`. */
  | {
      readonly kind: 'error';
      readonly code: EdgeCode;
      readonly asked: boolean;
      /** Seconds to the end of the client's window; only where the rate limit was reached (1015). */
      readonly waitSeconds?: number;
    }
  | { readonly kind: 'not-found' }
  | { readonly kind: 'not-allowed'; readonly allow: string };

const readingMethods = 'GET, HEAD';
const tunnelMethods: ReadonlySet<string> = new Set(['CONNECT', 'TRACE']);

function error(code: EdgeCode): Verdict & { readonly kind: 'error' } {
  return { kind: 'error', code, asked: false };
}

/** Judges a request, and counts it for a rate limit (D60). Lists do not apply to /cdn-cgi/. @returns later where other processes count */
export function judgeRequest(
  { zone, isBlocked, isAllowed, rateLimit }: GuardedZone,
  request: JudgedRequest,
  room: { readonly maxHeaderBytes: number; readonly isFull: () => boolean | Promise<boolean> },
): Verdict | Promise<Verdict> {
  const { method, clientAddress } = request;
  const path = readEdgePath(request.path);
  const code = path.kind === 'error' && isEdgeCode(path.code) ? path.code : undefined;
  if (tunnelMethods.has(method))
    return { kind: 'not-allowed', allow: code !== undefined ? readingMethods : tunnelFreeMethods };
  if (code !== undefined) {
    if (method !== 'GET' && method !== 'HEAD') return { kind: 'not-allowed', allow: readingMethods };
  } else if (path.kind !== 'origin') return { kind: 'not-found' };
  else if (isBlocked(clientAddress)) return error(1006);
  else if (isAllowed && !isAllowed(clientAddress)) return error(1020);
  /** Judges the rest once the rate is known. @param waitSeconds 0 where the client may make the request */
  const judgeRest = (waitSeconds: number): Verdict | Promise<Verdict> => {
    if (waitSeconds > 0) return { ...error(1015), waitSeconds };
    if (code !== undefined) return { kind: 'error', code, asked: true };
    if (Math.max(headerSectionOctets(request.rawHeaders), request.target.length) > room.maxHeaderBytes) {
      return error(1038);
    }
    const judgeRoom = (isFull: boolean): Verdict => {
      if (isFull) return error(1200);
      return zone.origin === undefined ? error(1004) : { kind: 'forward' };
    };
    const isFull = room.isFull();
    return typeof isFull === 'boolean' ? judgeRoom(isFull) : isFull.then(judgeRoom);
  };
  const waitSeconds = rateLimit?.take(clientAddress) ?? 0;
  return typeof waitSeconds === 'number' ? judgeRest(waitSeconds) : waitSeconds.then(judgeRest);
}
