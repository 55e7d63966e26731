// What stands before the API's router: reads target, Host and TLS name once, and hands on to API or edge (D67, D68).

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { randomHex } from '../../base/ids.ts';
import type { Logger } from '../../base/log.ts';
import type { ListenerHandlers } from './listener/listener.ts';
import { plainWhole, writeWhole } from './listener/whole-response.ts';
import { answerPlainly } from './plain-routes.ts';
import { type HostTable, type RequestRoute, type RoutingHead, routeRequest } from './route.ts';

/** What is known of a request that is handed to the front. */
export interface Arrival {
  /** Every response has a Ray-ID of its own (D62), which whoever answers writes into it. */
  readonly rayId: string;
  readonly scheme: 'http' | 'https';
  readonly route: Exclude<RequestRoute, { readonly destination: 'bad' }>;
}

/** What stands before the API. */
export interface HttpFront {
  readonly hosts: HostTable;
  /** Answers a request, which has one Host, that of the route, and a target in origin-form or `*`. */
  answer(request: IncomingMessage, response: ServerResponse, arrival: Arrival): void;
  /** Whether a request to upgrade is taken as one. If not, `answer` gets it like any other request. */
  takesUpgrade(request: IncomingMessage, arrival: Pick<Arrival, 'route'>): boolean;
  /** Answers a request to upgrade; `head` holds the octets that came behind it. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, arrival: Arrival): void;
}

const apiBodyTimeoutMs = 300_000;

const rays = new WeakMap<IncomingMessage, string>();

/** The Ray-ID of a request. */
export function rayOf(request: IncomingMessage): string {
  return rays.get(request) ?? '';
}

/** Answers a request. */
export type Answerer = (request: IncomingMessage, response: ServerResponse) => void;

/** The name that the TLS handshake asked for. Node gives `false` or nothing where there was none. */
function serverNameOf({ socket }: IncomingMessage): string | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  const { servername } = socket;
  return typeof servername === 'string' ? servername : undefined;
}

/** Replaces Host and target by what routing read them as, so that no later reader takes them for something else. */
function settle(request: IncomingMessage, { authority, target }: { authority: string; target: string }): void {
  request.url = target;
  if (request.headers.host === authority) return;
  request.headers.host = authority;
  const { rawHeaders } = request;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === 'host') rawHeaders[index + 1] = authority;
  }
}

const noHosts: HostTable = { isZone: () => false, apiHosts: new Set() };

function cutSlowBody(request: IncomingMessage, response: ServerResponse, parts: HandlerParts): void {
  if (request.complete) return;
  const cut = setTimeout(() => {
    if (request.complete) return;
    if (response.headersSent) {
      request.socket.destroy();
      return;
    }
    const rayId = rayOf(request);
    writeWhole(request.socket, plainWhole(408, 'Request Timeout', { rayId }));
    parts.log.info({ ...factsOf(request, rayId), status: 408 }, 'http request');
  }, parts.bodyTimeoutMs ?? apiBodyTimeoutMs);
  cut.unref();
  request.once('close', () => clearTimeout(cut));
}

/** Paths that probes and scrapers ask all the time; they are logged only at a finer level. */
const probes: ReadonlySet<string> = new Set(['/livez', '/readyz', '/metrics']);

/** The path of a target as the log shows it. A link that signs in has its code there, which no log may have. */
export function pathForLog(url: string): string {
  const [path = ''] = url.split('?', 1);
  return path.replace(/^\/console\/sign-in\/.*$/s, '/console/sign-in/...').slice(0, 200);
}

function factsOf(request: IncomingMessage, rayId: string): Readonly<Record<string, unknown>> {
  const { method, url = '', headers, socket } = request;
  return {
    ray: rayId,
    method: method?.slice(0, 20),
    host: headers.host?.slice(0, 253),
    path: pathForLog(url),
    client: socket.remoteAddress,
  };
}

/** Logs an answer, with its Ray-ID (D62), once it has ended. The v4 endpoints and the edge log their own answers. */
function logAnswer(request: IncomingMessage, response: ServerResponse, at: { rayId: string; log: Logger }): void {
  const { rayId, log } = at;
  const facts = factsOf(request, rayId);
  const isProbe = typeof facts['path'] === 'string' && probes.has(facts['path']);
  response.on('close', () => {
    const { headersSent, statusCode, writableFinished } = response;
    const level = isProbe && statusCode < 400 ? 'debug' : 'info';
    const unfinished = writableFinished ? undefined : true;
    log[level]({ ...facts, status: headersSent ? statusCode : undefined, unfinished }, 'http request');
  });
}

interface HandlerParts extends Pick<RoutingHead, 'serves' | 'hasConsole'> {
  /** Absent: a request that is not for the API gets a plain 404. */
  readonly front: HttpFront | undefined;
  readonly scheme: 'http' | 'https';
  readonly toApi: Answerer;
  readonly log: Logger;
  /** Milliseconds that a request to the API has for its body; absent: 300,000. */
  readonly bodyTimeoutMs?: number | undefined;
}

/** The destinations that the API answers. */
const ours: ReadonlySet<RequestRoute['destination']> = new Set(['api', 'home', 'console']);

/** Answers a request that is refused, that is for the API, or that is for nobody. */
function answerHere(
  request: IncomingMessage,
  response: ServerResponse,
  at: { parts: HandlerParts; rayId: string; route: RequestRoute; refused: ReturnType<typeof refusalOf> },
): void {
  const { parts, rayId, route, refused } = at;
  response.setHeader('Ray-ID', rayId);
  const isV4 = route.destination === 'api' && route.path.startsWith('/client/v4/');
  if (refused || !isV4) logAnswer(request, response, { rayId, log: parts.log });
  if (refused) {
    if (refused.ends) response.shouldKeepAlive = false;
    answerPlainly(response, refused.status, refused.text);
  } else if (ours.has(route.destination)) {
    rays.set(request, rayId);
    cutSlowBody(request, response, parts);
    parts.toApi(request, response);
  } else answerPlainly(response, 404, 'Not found');
}

/** Makes the handlers of a listener, which route each request and have it answered (D67, D68). */
export function createHandlers(parts: HandlerParts): ListenerHandlers {
  const { front, scheme, serves, log, hasConsole } = parts;
  const hosts = front?.hosts ?? noHosts;
  const routeOf = (request: IncomingMessage): RequestRoute => {
    const { method = 'GET', url = '/', rawHeaders } = request;
    const serverName = serverNameOf(request);
    const localAddress = (): string | undefined => request.socket.localAddress;
    return routeRequest({ method, target: url, rawHeaders, serverName, localAddress, serves, hasConsole }, hosts);
  };
  return {
    request(request, response) {
      const rayId = randomHex(8); // D62: one per response of any kind
      const route = routeOf(request);
      const refused = refusalOf(request, route);
      if (route.destination !== 'bad') settle(request, route);
      if (front && !refused && route.destination !== 'bad' && !ours.has(route.destination))
        front.answer(request, response, { rayId, scheme, route });
      else answerHere(request, response, { parts, rayId, route, refused });
    },
    takesUpgrade(request) {
      const route = routeOf(request);
      return route.destination !== 'bad' && front !== undefined && front.takesUpgrade(request, { route });
    },
    upgrade(request, socket, head) {
      const rayId = randomHex(8);
      const route = routeOf(request);
      if (route.destination === 'bad' || !front || hasUnknownCoding(request)) {
        writeWhole(socket, plainWhole(400, 'Bad request to upgrade', { rayId }));
        log.info({ ...factsOf(request, rayId), status: 400 }, 'http request');
        return;
      }
      settle(request, route);
      front.upgrade(request, socket, head, { rayId, scheme, route });
    },
    connect(request, socket) {
      const rayId = randomHex(8);
      const route = routeOf(request);
      const isBad = route.destination === 'bad';
      log.info({ ...factsOf(request, rayId), status: isBad ? 400 : 405 }, 'http request');
      if (isBad) writeWhole(socket, plainWhole(400, route.text, { rayId }));
      else writeWhole(socket, plainWhole(405, 'Method not allowed', { rayId, headers: { Allow: tunnelFreeMethods } }));
    },
  };
}

/** The methods in `Allow` of the answer to CONNECT (D66). */
export const tunnelFreeMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';

function hasUnknownCoding({ headers }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding'];
  return coding !== undefined && coding.trim().toLowerCase() !== 'chunked';
}

/** RFC 9110 §10.1.1: 100-continue is the only expectation that is known. */
function isUnknownExpectation({ headers }: IncomingMessage): boolean {
  return headers.expect !== undefined && headers.expect.trim().toLowerCase() !== '100-continue';
}

/** Why a request is refused whoever it is for. `ends`: nothing behind the request may be read. */
function refusalOf(request: IncomingMessage, route: RequestRoute) {
  // What the sender takes for one request may be two.
  if (route.destination === 'bad') return { status: 400, text: route.text, ends: true };
  // RFC 9112 §6.1: with an unknown coding the end of the body cannot be found.
  if (hasUnknownCoding(request)) {
    return { status: 501, text: 'Transfer-Encoding is not taken, but for chunked', ends: true };
  }
  // RFC 9112 §6.1: HTTP/1.0 has no transfer codings, so a proxy on the way may have read the body in another way.
  if (request.httpVersionMinor === 0 && request.headers['transfer-encoding'] !== undefined) {
    return { status: 400, text: 'Transfer-Encoding in HTTP/1.0', ends: true };
  }
  return isUnknownExpectation(request) ? { status: 417, text: 'Expectation failed', ends: false } : undefined;
}
