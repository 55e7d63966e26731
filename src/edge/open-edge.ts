// The edge (D60-D68): answers for zones, and for names that nobody has, before the API's router. What a zone lets through is sent on.

import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { followChanges } from '../base/database/follow-changes.ts';
import { addressTest } from '../base/net/socket-address.ts';
import type { Arrival, HttpFront } from '../web/http/front.ts';
import { apiHostSet } from '../web/http/route.ts';
import type { V4Plugin } from '../web/http/v4-app.ts';
import { type CustomErrorsParts, openCustomErrors } from './custom/custom-errors.ts';
import type { ErrorAnswer, ErrorRequest } from './errors/catalogue.ts';
import { errorReferenceIndex, errorReferencePage } from './errors/error-reference.ts';
import {
  type AnswerSink,
  createFail,
  type EdgeCount,
  type ErrorAnswerParts,
  type Exchange,
  type Fail,
  headerOf,
  isOfApi,
  plainAnswer,
  ResponseSink,
  socketSink,
  tellAtEnd,
  watchClient,
} from './exchange.ts';
import type { Forwarded } from './origin/message-heads.ts';
import { OriginProxy } from './origin/origin-proxy.ts';
import type { ZoneWithOrigin } from './origin/origin-target.ts';
import { clientOf, type GuardedZone, guardZone, judgeRequest, type Verdict } from './zone/judge-request.ts';
import { OpenRequests } from './zone/open-requests.ts';
import { keepRateLimits, type RateLimitOf } from './zone/rate-limit.ts';
import type { EdgeAccountSlice, EdgeSettings, EdgeZone } from './zone/zone.ts';

function referenceAnswer(method: string, path: string): ErrorAnswer {
  const code = /^\/errors\/([1-9][0-9]{2,3})$/.exec(path)?.[1];
  const page = path === '/errors' ? errorReferenceIndex() : errorReferencePage(Number(code));
  if (!page) return plainAnswer(404, 'Not found');
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead ? page : plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' });
}

const hasOrigin = (zone: EdgeZone): zone is ZoneWithOrigin => zone.origin !== undefined;

/** Answers a request that is for no zone. @returns the zone of one that is */
function zoneAsked(fail: Fail, exchange: Exchange): GuardedZone | undefined {
  const { request, arrival, zone, sink } = exchange;
  const { destination, path } = arrival.route;
  const { method = 'GET' } = request;
  if (destination === 'misdirected') fail(exchange, 1013);
  else if (destination === 'reference') sink.send(referenceAnswer(method, path));
  else if (destination === 'api-host') sink.send(plainAnswer(404, 'Not found'));
  else if (method === 'TRACE' && !zone) sink.send(plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' }));
  else if (!zone) fail(exchange, destination === 'address' ? 1003 : 1004);
  else return zone;
  return undefined;
}

/** What goes with the request to the zone's origin; undefined where the edge has answered, or the client has gone meanwhile. */
function admit(
  fail: Fail,
  maxHeaderBytes: number,
  exchange: Exchange,
): Forwarded | undefined | Promise<Forwarded | undefined> {
  const guarded = zoneAsked(fail, exchange);
  if (!guarded) return undefined;
  const { request, arrival, client, place } = exchange;
  const { path, target } = arrival.route;
  const { method = 'GET', rawHeaders } = request;
  const judged = { method, path, target, rawHeaders, clientAddress: client.address };
  const verdict = judgeRequest(guarded, judged, { maxHeaderBytes, isFull: () => place.isOver() });
  if (!(verdict instanceof Promise)) return act(fail, exchange, guarded.zone, verdict);
  return verdict.then((known) => (exchange.hasEnded === true ? undefined : act(fail, exchange, guarded.zone, known)));
}

/** Does as the verdict says. @returns what `admit` does */
function act(fail: Fail, exchange: Exchange, zone: EdgeZone, verdict: Verdict): Forwarded | undefined {
  const { arrival, client, sink } = exchange;
  if (verdict.kind === 'not-found') sink.send(plainAnswer(404, 'Not found'));
  else if (verdict.kind === 'not-allowed') {
    sink.send(plainAnswer(405, 'Method not allowed', { Allow: verdict.allow }));
  } else if (verdict.kind === 'error') {
    if (verdict.asked) exchange.asked = true;
    fail(exchange, verdict.code, verdict.waitSeconds);
  } else if (!hasOrigin(zone)) fail(exchange, 1004);
  else {
    return {
      zone,
      rayId: arrival.rayId,
      clientAddress: client.address,
      forwardedFor: client.forwardedFor,
      forwardedProto: client.forwardedProto,
      forwardedHost: client.forwardedHost,
      scheme: arrival.scheme,
      fail: (code, fromMemory) => {
        if (fromMemory) exchange.fromMemory = true;
        fail(exchange, code);
      },
      refuse: (status) => sink.send(plainAnswer(status, STATUS_CODES[status] ?? '')),
    };
  }
  return undefined;
}

/** What the edge is made from. */
export interface EdgeParts extends ErrorAnswerParts {
  readonly zones: readonly EdgeZone[];
  readonly settings: Pick<EdgeSettings, 'maxHeaderBytes' | 'afterCloseSeconds' | 'trustedProxies' | 'limits'>;
  /** Names and addresses of the API, lower case (D67). */
  readonly apiHosts: readonly string[];
  readonly origins: Pick<OriginProxy, 'forward' | 'upgrade' | 'explain'>;
  readonly onRequest?: (count: EdgeCount) => void;
  /** The count of open requests, shared with the edge before and after a reload; absent: the edge has its own. */
  readonly requests?: OpenRequests;
  /** The counts for the zones' rate limits, shared in the same way; absent: the edge has its own. */
  readonly rateLimitOf?: RateLimitOf;
}

/** The answer where even the answer to an error cannot be made. */
const lastResort = plainAnswer(500, 'Internal error');

/** Used where no proxy is trusted: forwarding fields are then not read at all. */
const noLines: ErrorRequest['header'] = () => [];

/** Makes the edge; `open` tells the requests that are open now, upgraded connections among them. */
export function createEdge(parts: EdgeParts): HttpFront & { open(): number } {
  const { log, clock, settings, origins } = parts;
  const fail = createFail(parts);
  const isTrusted = addressTest(settings.trustedProxies);
  const { requests = new OpenRequests(() => settings.limits), rateLimitOf = keepRateLimits(clock) } = parts;
  const zones = new Map<string, GuardedZone>();
  for (const zone of parts.zones) {
    const guarded = guardZone(zone, rateLimitOf(zone.id, zone.rateLimit));
    for (const hostname of zone.hostnames) zones.set(hostname, guarded);
  }

  const begin = (request: IncomingMessage, arrival: Arrival, sink: AnswerSink): Exchange => {
    const lines = settings.trustedProxies.length === 0 ? noLines : headerOf(request);
    // A request for the API is for no zone, though on the API's own listener its Host may name one.
    const zone = isOfApi(arrival) ? undefined : zones.get(arrival.route.host);
    const client = clientOf(request.socket.remoteAddress ?? '', lines, isTrusted);
    const place = requests.begin(zone?.zone.id ?? '', client.address);
    const exchange: Exchange = { request, arrival, zone, client, sink, place };
    tellAtEnd(exchange, parts);
    watchClient(exchange, settings.afterCloseSeconds);
    return exchange;
  };
  /** Answers a request that failed by our own fault with 500. */
  const answerFault = (exchange: Exchange, error: unknown): void => {
    const { rayId, route } = exchange.arrival;
    log.error({ ray: rayId, host: route.host, err: error }, 'edge request failed');
    try {
      fail(exchange, 500);
    } catch (second) {
      log.error({ ray: rayId, err: second }, 'the answer to an error failed');
      exchange.sink.send(lastResort);
    }
  };
  /** Forwards a request that goes to an origin. Any other request was answered by the edge. */
  const handle = (exchange: Exchange, pass: (forwarded: Forwarded) => void): void => {
    const { client, sink, arrival } = exchange;
    const { failure } = client;
    // What a proxy in front has met at the origin is told to the client, in place of forwarding its request.
    const forward = failure
      ? (forwarded: Forwarded) => sink.onEnd(origins.explain(forwarded, failure, arrival.route.host))
      : pass;
    try {
      const admitted = admit(fail, settings.maxHeaderBytes, exchange);
      if (!(admitted instanceof Promise)) return admitted && forward(admitted);
      admitted
        .then((forwarded) => forwarded && forward(forwarded))
        .catch((error: unknown) => answerFault(exchange, error));
    } catch (error) {
      answerFault(exchange, error);
    }
  };

  return {
    open: () => requests.open(),
    hosts: { isZone: (host) => zones.has(host), apiHosts: apiHostSet(parts.apiHosts) },
    answer(request: IncomingMessage, response: ServerResponse, arrival) {
      const exchange = begin(request, arrival, new ResponseSink(response, arrival.rayId));
      handle(exchange, (forwarded) => origins.forward(request, response, forwarded));
    },
    // WebSocket is the only upgrade (D66). Any other protocol, such as h2c, could smuggle requests.
    takesUpgrade: ({ method, headers }, { route }) =>
      route.destination === 'zone' && method === 'GET' && headers.upgrade?.trim().toLowerCase() === 'websocket',
    upgrade(request: IncomingMessage, socket: Duplex, head, arrival) {
      const exchange = begin(request, arrival, socketSink(socket, arrival.rayId));
      handle(exchange, (forwarded) => origins.upgrade(request, socket, head, forwarded));
    },
  };
}

/** What the edge is made from. */
export interface OpenEdgeParts
  extends Pick<EdgeParts, 'apiHosts' | 'docsBaseUrl' | 'onRequest' | 'requests' | 'rateLimitOf'>,
    CustomErrorsParts {
  readonly settings: EdgeSettings;
}

/** The edge with all its parts. */
export type OpenEdge = Awaited<ReturnType<typeof openEdge>>;

/** The accounts with what custom errors read of them: their plan decides whether they have rules (D65). */
export function edgeAccounts(
  accounts: readonly Pick<EdgeAccountSlice, 'id' | 'plan'>[],
  settings: readonly Pick<EdgeAccountSlice, 'id' | 'customErrors'>[],
): EdgeAccountSlice[] {
  const byId = new Map(settings.map(({ id, customErrors }) => [id, customErrors]));
  return accounts.map(({ id, plan }) => {
    const customErrors = byId.get(id);
    return { id, plan, ...(customErrors ? { customErrors } : {}) };
  });
}

/** Opens the edge; it binds nothing. @throws ConfigurationError where the file of an Error Page cannot be used */
export async function openEdge(parts: OpenEdgeParts) {
  const { database, settings, clock, log } = parts;
  const customErrors = await openCustomErrors(parts);
  const origins = new OriginProxy({ settings, log, clock });
  const edge = createEdge({
    ...parts,
    customAnswer: (zone, occurrence, request) => customErrors.choose(zone, occurrence, request),
    origins,
  });
  const stopFollowing = followChanges(database.changes, 'edge_custom_errors', () => customErrors.refresh());
  const front: HttpFront = edge;
  return {
    front,
    async plugins(): Promise<readonly V4Plugin[]> {
      const { customErrorEndpoints } = await import('./custom/custom-error-endpoints.ts');
      return [customErrorEndpoints({ customErrors, clock, log })];
    },
    /** Requests and upgraded connections that origins have open now. */
    open: () => origins.open(),
    /** Requests to the edge that are open now, upgraded connections among them. */
    requests: () => edge.open(),
    /** Stops following changes and closes connections to origins: idle ones at once, the others after so many milliseconds. */
    async close(withinMs: number) {
      await Promise.all([stopFollowing(), origins.close(withinMs)]);
    },
  };
}
