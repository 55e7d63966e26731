// The edge (D60-D68): answers for zones and for names that are nobody's. It is asked before the API's router looks at
// anything; what a zone lets through goes to its origin.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { addressTest } from '../base/net/address-test.ts';
import type { Arrival, HttpFront } from '../http/front.ts';
import { type AnswerSink, plainAnswer, responseSink, socketSink } from './answer-sink.ts';
import { createErrorAnswers, type ErrorAnswerParts, lastResort } from './error-answers.ts';
import { isEdgeCode } from './errors/catalogue.ts';
import type { EdgeCode } from './errors/edge-code.ts';
import type { ErrorAnswer, ErrorRequest } from './errors/edge-error.ts';
import type { Forwarded, OriginProxy } from './origin/origin.ts';
import type { ZoneWithOrigin } from './origin/origin-target.ts';
import { clientOf, type EdgeClient } from './zone/client-address.ts';
import { type GuardedZone, guardZone, judgeRequest } from './zone/judge-request.ts';
import { createOpenRequests, type OpenRequest, type OpenRequests } from './zone/open-requests.ts';
import { keepRateLimits } from './zone/rate-limit.ts';
import type { EdgeSettings, EdgeZone } from './zone/zone.ts';

/** What is counted of a request once it has ended. */
export interface EdgeCount {
  /** Name of the zone; empty where it was for none. */
  readonly zone: string;
  /** Absent where the client had gone before an answer, or the connection was upgraded. */
  readonly status?: number | undefined;
  /** Code of the error that was answered; absent where it was asked for at /cdn-cgi/error. */
  readonly code?: EdgeCode | undefined;
}

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

/** One request and where its answer goes. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly arrival: Arrival;
  readonly zone: GuardedZone | undefined;
  readonly client: EdgeClient;
  readonly sink: AnswerSink;
  /** Its place among those that are open. */
  readonly place: OpenRequest;
  /** Code of the error answered, for log and count. */
  code?: EdgeCode;
  /** Whether the error was asked for at /cdn-cgi/error. */
  asked?: boolean;
}

/** Makes the value of a field, every line of it, from the fields as they came. */
function headerOf({ rawHeaders }: IncomingMessage): ErrorRequest['header'] {
  return (name) => {
    const values: string[] = [];
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const given = rawHeaders[index] ?? '';
      if (given.length === name.length && given.toLowerCase() === name) values.push(rawHeaders[index + 1] ?? '');
    }
    return values;
  };
}

/** Nobody is believed where nobody is trusted. */
const noLines: ErrorRequest['header'] = () => [];

function hasOrigin(zone: EdgeZone): zone is ZoneWithOrigin {
  return zone.origin !== undefined;
}

function referenceAnswer(parts: EdgeParts, method: string, path: string): ErrorAnswer {
  const code = /^\/errors\/([1-9][0-9]{2,3})$/.exec(path)?.[1];
  const page =
    path === '/errors' ? parts.referenceIndex() : code === undefined ? undefined : parts.referencePage(Number(code));
  if (!page) return plainAnswer(404, 'Not found');
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead ? page : plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' });
}

/** Canonical text of an API host: an IPv6 address in brackets, as a Host has it. */
function apiHost(host: string): string {
  return host.includes(':') ? new URL(`http://[${host}]`).hostname : host.toLowerCase();
}

/** The edge. */
export interface Edge extends HttpFront {
  /** Requests open now, upgraded connections among them. */
  open(): number;
}

/** Makes the edge. */
export function createEdge(parts: EdgeParts): Edge {
  const { log, clock, settings, origins } = parts;
  const answerTo = createErrorAnswers(parts);
  const isTrusted = addressTest(settings.trustedProxies);
  const { requests = createOpenRequests(settings.limits), rateLimitOf = keepRateLimits(clock) } = parts;
  const zones = new Map<string, GuardedZone>();
  for (const zone of parts.zones) {
    const guarded = guardZone(zone, rateLimitOf(zone.id, zone.rateLimit));
    for (const hostname of zone.hostnames) zones.set(hostname, guarded);
  }

  const fail = (exchange: Exchange, code: EdgeCode, waitSeconds?: number): void => {
    const { request, arrival, zone, client, sink } = exchange;
    exchange.code = code;
    const answer = answerTo({
      code,
      rayId: arrival.rayId,
      zone: zone?.zone,
      waitSeconds,
      request: {
        method: request.method ?? 'GET',
        path: arrival.route.path,
        host: arrival.route.host,
        header: headerOf(request),
        clientAddress: client.address,
      },
    });
    sink.send(answer);
  };

  /** Gives the zone and what goes with the request to its origin; undefined where the edge has answered. */
  const admit = (exchange: Exchange): Forwarded | undefined => {
    const { request, arrival, zone: guarded, client, sink } = exchange;
    const { route, rayId, scheme } = arrival;
    const { method = 'GET', rawHeaders } = request;
    if (route.destination === 'misdirected') fail(exchange, 1013);
    else if (route.destination === 'reference') sink.send(referenceAnswer(parts, method, route.path));
    else if (route.destination === 'api-host') sink.send(plainAnswer(404, 'Not found'));
    else if (method === 'TRACE' && !guarded) sink.send(plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' }));
    else if (!guarded) fail(exchange, route.destination === 'address' ? 1003 : 1004);
    else {
      const judged = { method, path: route.path, target: route.target, rawHeaders, clientAddress: client.address };
      const room = { maxHeaderBytes: settings.maxHeaderBytes, isFull: () => exchange.place.isOver() };
      const verdict = judgeRequest(guarded, judged, { room, hasError: isEdgeCode });
      if (verdict.kind === 'not-found') sink.send(plainAnswer(404, 'Not found'));
      else if (verdict.kind === 'not-allowed') {
        sink.send(plainAnswer(405, 'Method not allowed', { Allow: verdict.allow }));
      } else if (verdict.kind === 'error') {
        if (verdict.asked) exchange.asked = true;
        fail(exchange, verdict.code, verdict.waitSeconds);
      } else if (!hasOrigin(guarded.zone)) fail(exchange, 1004);
      else {
        return {
          zone: guarded.zone,
          rayId,
          clientAddress: client.address,
          forwardedFor: client.forwardedFor,
          ...(client.forwardedProto === undefined ? {} : { forwardedProto: client.forwardedProto }),
          ...(client.forwardedHost === undefined ? {} : { forwardedHost: client.forwardedHost }),
          scheme,
          fail: (code) => fail(exchange, code),
        };
      }
    }
    return undefined;
  };

  const open = (request: IncomingMessage, arrival: Arrival, sink: AnswerSink): Exchange => {
    const { route, rayId } = arrival;
    const lines = settings.trustedProxies.length === 0 ? noLines : headerOf(request);
    // What is of the API is of no zone, though a request to the API's own listener may name one.
    const isOfApi = route.destination === 'reference' || route.destination === 'api-host';
    const guarded = isOfApi ? undefined : zones.get(route.host);
    const client = clientOf(request.socket.remoteAddress ?? '', lines, isTrusted);
    const place = requests.begin(guarded?.zone.id ?? '', client.address);
    const exchange: Exchange = { request, arrival, zone: guarded, client, sink, place };
    const startedAt = clock.monotonic();
    sink.onEnd(({ status, whole }) => {
      place.end();
      const { code, asked } = exchange;
      const zone = exchange.zone?.zone.name;
      log.info(
        {
          ray: rayId,
          zone,
          host: route.host,
          method: request.method,
          path: route.path.slice(0, 200),
          status,
          code,
          asked,
          client: exchange.client.address,
          ms: Math.round(clock.monotonic() - startedAt),
          unfinished: whole ? undefined : true,
        },
        'edge request',
      );
      if (isOfApi) return;
      parts.onRequest?.({ zone: zone ?? '', status, code: asked ? undefined : code });
    });
    return exchange;
  };

  /** Runs what may fail by our own fault: that is 500, by the same renderer. */
  const guard = (exchange: Exchange, work: () => void): void => {
    try {
      work();
    } catch (error) {
      log.error({ ray: exchange.arrival.rayId, host: exchange.arrival.route.host, err: error }, 'edge request failed');
      try {
        fail(exchange, 500);
      } catch (second) {
        log.error({ ray: exchange.arrival.rayId, err: second }, 'the answer to an error failed');
        exchange.sink.send(lastResort);
      }
    }
  };

  return {
    open: () => requests.open(),
    hosts: { isZone: (host) => zones.has(host), apiHosts: new Set(parts.apiHosts.map(apiHost)) },
    answer(request: IncomingMessage, response: ServerResponse, arrival) {
      const exchange = open(request, arrival, responseSink(response, arrival.rayId));
      guard(exchange, () => {
        const forwarded = admit(exchange);
        if (forwarded) origins.forward(request, response, forwarded);
      });
    },
    // D66: WebSocket only. Any other protocol would be spoken past the edge: h2c is how requests are smuggled.
    takesUpgrade: (request, { route }) =>
      route.destination === 'zone' &&
      request.method === 'GET' &&
      request.headers.upgrade?.trim().toLowerCase() === 'websocket',
    upgrade(request: IncomingMessage, socket: Duplex, head, arrival) {
      const exchange = open(request, arrival, socketSink(socket, arrival.rayId));
      guard(exchange, () => {
        const forwarded = admit(exchange);
        if (forwarded) origins.upgrade(request, socket, head, forwarded);
      });
    },
  };
}
