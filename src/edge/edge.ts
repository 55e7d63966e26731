// The edge (D60-D68): answers for zones and for names that are nobody's. It is asked before the API's router looks at
// anything; what a zone lets through goes to its origin.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { addressTest } from '../base/net/address-test.ts';
import type { Arrival, HttpFront } from '../http/front.ts';
import { admit } from './admission.ts';
import { type AnswerSink, responseSink, socketSink } from './answer-sink.ts';
import type { ErrorAnswerParts } from './error-answers.ts';
import type { ErrorAnswer, ErrorRequest } from './errors/edge-error.ts';
import { createFail, type EdgeCount, type Exchange, headerOf, isOfApi, runGuarded, tellAtEnd } from './exchange.ts';
import type { Forwarded, OriginProxy } from './origin/origin.ts';
import { clientOf } from './zone/client-address.ts';
import { type GuardedZone, guardZone } from './zone/judge-request.ts';
import { createOpenRequests, type OpenRequests } from './zone/open-requests.ts';
import { keepRateLimits } from './zone/rate-limit.ts';
import type { EdgeSettings, EdgeZone } from './zone/zone.ts';

/** What the edge is made from. */
export interface EdgeParts extends Pick<ErrorAnswerParts, 'negotiate' | 'defaultAnswer' | 'customAnswer'> {
  readonly zones: readonly EdgeZone[];
  readonly settings: Pick<EdgeSettings, 'maxHeaderBytes' | 'trustedProxies' | 'limits'>;
  /** Names and addresses of the API, lower case (D67). */
  readonly apiHosts: readonly string[];
  /** The page about a code; undefined where there is no such code. */
  readonly referencePage: (code: number) => ErrorAnswer | undefined;
  readonly referenceIndex: () => ErrorAnswer | undefined;
  readonly origins: OriginProxy;
  /** Without a slash at the end; asked for with each error, since the port may be known only once it is bound (D62). */
  readonly docsBaseUrl: () => string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onRequest?: (count: EdgeCount) => void;
  /** The count of open requests, shared with the edge before and after this one; absent: one of its own. */
  readonly requests?: OpenRequests;
  /** The counts of zones' limits, shared likewise; absent: counts of its own. */
  readonly rateLimitOf?: ReturnType<typeof keepRateLimits>;
}

/** Nobody is believed where nobody is trusted. */
const noLines: ErrorRequest['header'] = () => [];

/** Canonical text of an API host: an IPv6 address in brackets, as a Host has it. */
function apiHost(host: string): string {
  return host.includes(':') ? new URL(`http://[${host}]`).hostname : host.toLowerCase();
}

/** D66: WebSocket only. Any other protocol would be spoken past the edge: h2c is how requests are smuggled. */
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
  const admission = { ...parts, fail, maxHeaderBytes: settings.maxHeaderBytes };
  const isTrusted = addressTest(settings.trustedProxies);
  const { requests = createOpenRequests(settings.limits), rateLimitOf = keepRateLimits(clock) } = parts;
  const zones = new Map<string, GuardedZone>();
  for (const zone of parts.zones) {
    const guarded = guardZone(zone, rateLimitOf(zone.id, zone.rateLimit));
    for (const hostname of zone.hostnames) zones.set(hostname, guarded);
  }

  const begin = (request: IncomingMessage, arrival: Arrival, sink: AnswerSink): Exchange => {
    const lines = settings.trustedProxies.length === 0 ? noLines : headerOf(request);
    // What is of the API is of no zone, though a request to the API's own listener may name one.
    const zone = isOfApi(arrival) ? undefined : zones.get(arrival.route.host);
    const client = clientOf(request.socket.remoteAddress ?? '', lines, isTrusted);
    const place = requests.begin(zone?.zone.id ?? '', client.address);
    const exchange: Exchange = { request, arrival, zone, client, sink, place };
    tellAtEnd(exchange, parts);
    return exchange;
  };
  /** Hands what goes to an origin on; whatever else it is, the edge has answered it. */
  const handle = (exchange: Exchange, forward: (forwarded: Forwarded) => void): void =>
    runGuarded(
      exchange,
      () => {
        const forwarded = admit(admission, exchange);
        if (forwarded) forward(forwarded);
      },
      { fail, log },
    );

  return {
    open: () => requests.open(),
    hosts: { isZone: (host) => zones.has(host), apiHosts: new Set(parts.apiHosts.map(apiHost)) },
    answer(request: IncomingMessage, response: ServerResponse, arrival) {
      const exchange = begin(request, arrival, responseSink(response, arrival.rayId));
      handle(exchange, (forwarded) => origins.forward(request, response, forwarded));
    },
    takesUpgrade: (request, { route }) => route.destination === 'zone' && asksForWebSocket(request),
    upgrade(request: IncomingMessage, socket: Duplex, head, arrival) {
      const exchange = begin(request, arrival, socketSink(socket, arrival.rayId));
      handle(exchange, (forwarded) => origins.upgrade(request, socket, head, forwarded));
    },
  };
}
