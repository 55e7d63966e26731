// Judges whether a zone lets a request through to its origin; the checks run in this order (D60, D66).

import { type AddressTest, addressTest } from '../../base/net/address-test.ts';
import { tunnelFreeMethods } from '../../web/http/front.ts';
import { headerSectionOctets } from '../../web/http/listener/request-end.ts';
import { type EdgeCode, isEdgeCode } from '../errors/catalogue.ts';
import type { RateLimit } from './rate-limit.ts';
import type { EdgeZone } from './zone.ts';

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

/** The bounds of the edge that a request must fit. */
export interface Room {
  /** The most octets of a header section, and of a target. */
  readonly maxHeaderBytes: number;
  /** Whether the limits on open requests leave no room for this one. */
  readonly isFull: () => boolean | Promise<boolean>;
}

const readingMethods = 'GET, HEAD';
const tunnelMethods: ReadonlySet<string> = new Set(['CONNECT', 'TRACE']);

function error(code: EdgeCode): Verdict & { readonly kind: 'error' } {
  return { kind: 'error', code, asked: false };
}

/** Judges a request, and counts it for a rate limit (D60). Lists do not apply to /cdn-cgi/. @returns later where other processes count */
export function judgeRequest(
  { zone, isBlocked, isAllowed, rateLimit }: GuardedZone,
  request: JudgedRequest,
  room: Room,
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
