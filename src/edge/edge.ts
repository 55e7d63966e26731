// The edge (D60-D68) answers for zones, and for names that nobody has, before the API's router. What a zone lets through is sent on.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { addressTest } from '../base/net/address-test.ts';
import type { Arrival, HttpFront } from '../web/http/front.ts';
import { apiHostSet } from '../web/http/route.ts';
import { admit } from './admission.ts';
import { type AnswerSink, ResponseSink, socketSink } from './answer-sink.ts';
import { createFail, type ErrorAnswerParts } from './error-answers.ts';
import type { ErrorAnswer, ErrorRequest } from './errors/edge-error.ts';
import { type EdgeCount, type Exchange, headerOf, isOfApi, tellAtEnd, watchClient } from './exchange.ts';
import type { OriginProxy } from './origin/origin-proxy.ts';
import type { Forwarded } from './origin/request-head.ts';
import { clientOf, type ReportedFailure } from './zone/client-address.ts';
import { type GuardedZone, guardZone } from './zone/judge-request.ts';
import { OpenRequests } from './zone/open-requests.ts';
import { keepRateLimits, type RateLimitOf } from './zone/rate-limit.ts';
import type { EdgeSettings, EdgeZone } from './zone/zone.ts';

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
const lastResort: ErrorAnswer = {
  status: 500,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'private, no-store' },
  body: Buffer.from('Internal error\n'),
};

/** Used where no proxy is trusted: forwarding fields are then not read at all. */
const noLines: ErrorRequest['header'] = () => [];

/** Whether a request asks for WebSocket, the only upgrade (D66). Any other protocol, such as h2c, could smuggle requests. */
function asksForWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.trim().toLowerCase() === 'websocket';
}

/** The edge. */
export interface Edge extends HttpFront {
  /** Requests open now, upgraded connections among them. */
  open(): number;
}

/** Makes the edge. */
export function createEdge(parts: EdgeParts): Edge {
  const { log, clock, settings, origins } = parts;
  const fail = createFail(parts);
  const admission = { fail, maxHeaderBytes: settings.maxHeaderBytes };
  const isTrusted = addressTest(settings.trustedProxies);
  const { requests = new OpenRequests(settings.limits), rateLimitOf = keepRateLimits(clock) } = parts;
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
  /** Tells a client what a proxy in front has met at the origin, in place of forwarding its request. */
  const explain = (exchange: Exchange, forwarded: Forwarded, failure: ReportedFailure): void =>
    exchange.sink.onEnd(origins.explain(forwarded, failure, exchange.arrival.route.host));
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
    const { failure } = exchange.client;
    const forward = failure ? (forwarded: Forwarded) => explain(exchange, forwarded, failure) : pass;
    try {
      const admitted = admit(admission, exchange);
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
    takesUpgrade: (request, { route }) => route.destination === 'zone' && asksForWebSocket(request),
    upgrade(request: IncomingMessage, socket: Duplex, head, arrival) {
      const exchange = begin(request, arrival, socketSink(socket, arrival.rayId));
      handle(exchange, (forwarded) => origins.upgrade(request, socket, head, forwarded));
    },
  };
}
