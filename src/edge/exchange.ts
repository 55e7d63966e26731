// One request at the edge from its beginning to its end: where its answer goes, how it fails, and what is logged and counted.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { oncePer } from '../base/once-per.ts';
import type { Arrival } from '../web/http/front.ts';
import { piecesOf, writeWhole } from '../web/http/listener/whole-response.ts';
import {
  type EdgeCode,
  type EdgeError,
  type EdgeOccurrence,
  type ErrorAnswer,
  type ErrorRequest,
  edgeErrors,
} from './errors/catalogue.ts';
import { defaultAnswer, negotiate } from './errors/default-answer.ts';
import type { EdgeClient, GuardedZone } from './zone/judge-request.ts';
import type { OpenRequest } from './zone/open-requests.ts';
import type { EdgeZone } from './zone/zone.ts';

type EndListener = (end: { readonly status?: number | undefined; readonly whole: boolean }) => void;

/** Takes the answer to one request. */
export interface AnswerSink {
  /** Writes the answer, with Ray-ID and Content-Length. Where one has begun already, the connection is cut instead (D66). */
  send(answer: ErrorAnswer): void;
  hasBegun(): boolean;
  /** Ends the connection without an answer. */
  cut(): void;
  /** Calls `listener` once the answer is written or the client has gone. The status is absent where nothing was written. */
  onEnd(listener: EndListener): void;
}

/** An answer of one line, outside the catalogue (D67). */
export function plainAnswer(status: number, text: string, headers: ErrorAnswer['headers'] = {}): ErrorAnswer {
  return {
    status,
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store', ...headers },
    body: Buffer.from(`${text}\n`),
  };
}

/** Octets of a body up to which it is written as a text; Node copies a longer one once more. */
const mostOctetsAsText = 12_288;

/** The response to a request. */
export class ResponseSink implements AnswerSink {
  readonly #response: ServerResponse;
  readonly #rayId: string;
  readonly #listeners: EndListener[] = [];

  constructor(response: ServerResponse, rayId: string) {
    this.#response = response;
    this.#rayId = rayId;
    // Emitted once. One listener for all that want to know, since each costs as much as all else here.
    response.on('close', this.#onClose);
  }

  send({ status, reason, headers, body }: ErrorAnswer): void {
    const response = this.#response;
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const { pieces, octets } = piecesOf(body);
    const fields = { 'Ray-ID': this.#rayId, ...headers, 'Content-Length': octets };
    if (reason === undefined) response.writeHead(status, fields);
    else response.writeHead(status, reason, fields);
    // RFC 9110 §9.3.2: the answer to HEAD has the same fields and no content.
    if (response.req.method === 'HEAD') response.end();
    // Node joins a text with the head and writes both at once; for octets it gathers two pieces, which costs more.
    else if (octets <= mostOctetsAsText)
      response.end(pieces.map((piece) => piece.toString('latin1')).join(''), 'latin1');
    else {
      response.cork();
      for (const piece of pieces.slice(0, -1)) response.write(piece);
      response.end(pieces.at(-1));
    }
  }

  hasBegun(): boolean {
    return this.#response.headersSent;
  }

  cut(): void {
    this.#response.destroy();
  }

  onEnd(listener: EndListener): void {
    this.#listeners.push(listener);
  }

  readonly #onClose = (): void => {
    const { headersSent, statusCode, writableFinished } = this.#response;
    const end = { status: headersSent ? statusCode : undefined, whole: writableFinished };
    for (const listener of this.#listeners) listener(end);
  };
}

/** The socket of a request to upgrade. */
export function socketSink(socket: Duplex, rayId: string): AnswerSink {
  let status: number | undefined;
  const written = (): number => (socket instanceof Socket ? socket.bytesWritten : 0);
  const before = written();
  return {
    send(answer) {
      status = answer.status;
      writeWhole(socket, { ...answer, rayId });
    },
    hasBegun: () => written() > before,
    cut: () => void socket.destroy(),
    onEnd(listener) {
      socket.once('close', () => listener({ status, whole: !socket.errored }));
    },
  };
}

/** One request and where its answer goes. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly arrival: Arrival;
  readonly zone: GuardedZone | undefined;
  readonly client: EdgeClient;
  readonly sink: AnswerSink;
  /** The request in the count of open requests. */
  readonly place: OpenRequest;
  /** Code of the error answered, for log and count. */
  code?: EdgeCode | undefined;
  /** Whether the error was asked for at /cdn-cgi/error. */
  asked?: boolean;
  /** Why it was given up though its client might still have read: its time was over, or others wanted the room. */
  gone?: 'time' | 'room' | undefined;
  /** Whether its origin was known to be down, and not asked. */
  fromMemory?: boolean | undefined;
  /** Whether it is answered, or its client has gone. */
  hasEnded?: boolean;
}

/** What is counted of a request once it has ended; the code is absent where it was asked for at /cdn-cgi/error. */
export interface EdgeCount extends Pick<Exchange, 'code' | 'gone' | 'fromMemory'> {
  /** Name of the zone; empty where it was for none. */
  readonly zone: string;
  /** Absent where the client had gone before an answer, or the connection was upgraded. */
  readonly status?: number | undefined;
}

/** Answers a request with an error, and notes its code. @param waitSeconds to the end of the client's window; only of a real 1015 */
export type Fail = (exchange: Exchange, code: EdgeCode, waitSeconds?: number) => void;

/** Gives the value of a field, every line of it, from the fields as they came. */
export function headerOf({ rawHeaders }: IncomingMessage): ErrorRequest['header'] {
  return (name) => {
    const values: string[] = [];
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const given = rawHeaders[index] ?? '';
      if (given.length === name.length && given.toLowerCase() === name) values.push(rawHeaders[index + 1] ?? '');
    }
    return values;
  };
}

/** Whether a request is for the API's pages or its host, and so for no zone. */
export function isOfApi({ route: { destination } }: Arrival): boolean {
  return destination === 'reference' || destination === 'api-host';
}

/** Logs and counts a request when it has ended, and removes it from the open requests. */
export function tellAtEnd(
  exchange: Exchange,
  parts: { readonly clock: Clock; readonly log: Logger; readonly onRequest?: (count: EdgeCount) => void },
): void {
  const { request, arrival, place, sink } = exchange;
  const { route, rayId } = arrival;
  const startedAt = parts.clock.monotonic();
  sink.onEnd(({ status, whole }) => {
    exchange.hasEnded = true;
    place.end();
    const { code, asked, gone, fromMemory } = exchange;
    const zone = exchange.zone?.zone.name;
    parts.log.info(
      {
        ray: rayId,
        zone,
        host: route.host,
        method: request.method,
        path: route.path.slice(0, 200),
        status,
        code,
        asked,
        gone,
        fromMemory,
        client: exchange.client.address,
        ms: Math.round(parts.clock.monotonic() - startedAt),
        unfinished: whole ? undefined : true,
      },
      'edge request',
    );
    if (isOfApi(arrival)) return;
    parts.onRequest?.({ zone: zone ?? '', status, code: asked ? undefined : code, gone, fromMemory });
  });
}

/** The request that a connection has under way. One listener serves all requests of a connection. */
const watchedOf = oncePer((socket: Socket) => {
  const made: { onEnd: (() => void) | undefined } = { onEnd: undefined };
  socket.once('end', () => made.onEnd?.());
  return made;
});

/** Watches the client of a request. One that ends its side may still read (D66; RFC 9112 §9.6): it has a while, and gives way first. */
export function watchClient(exchange: Exchange, afterCloseSeconds: number): void {
  const { request, place, sink } = exchange;
  const { socket } = request;
  let timer: NodeJS.Timeout | undefined;
  const giveUp = (reason: 'time' | 'room'): boolean => {
    // From the head of the answer on, TCP tells whether somebody takes it.
    if (exchange.hasEnded === true || sink.hasBegun()) return false;
    exchange.gone = reason;
    sink.cut();
    return true;
  };
  const onEnd = (): void => {
    place.mayGiveWay(() => giveUp('room'));
    timer = setTimeout(() => giveUp('time'), afterCloseSeconds * 1000);
    timer.unref();
  };
  const mine = watchedOf(socket);
  if (socket.readableEnded) onEnd();
  else mine.onEnd = onEnd;
  sink.onEnd(() => {
    // The next request of the connection may have come before this one has closed.
    if (mine.onEnd === onEnd) mine.onEnd = undefined;
    clearTimeout(timer);
  });
}

/** What the answers are made of. */
export interface ErrorAnswerParts {
  /** Custom Error Rules and Error Pages (D65); undefined where none fits. */
  readonly customAnswer: (zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest) => ErrorAnswer | undefined;
  /** As `EdgeOccurrence` has it. Called with each error, since the port may be known only once it is bound (D62). */
  readonly docsBaseUrl: () => string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Reason phrases of statuses that no RFC has, since a bare number tells a person at a terminal little (RFC 9112 §4). */
const reasons: Readonly<Record<number, string>> = {
  520: 'Unknown Origin Error',
  521: 'Origin Down',
  522: 'Origin Connection Timeout',
  523: 'Origin Unreachable',
  524: 'Origin Response Timeout',
  525: 'Origin TLS Handshake Failed',
  526: 'Invalid Origin Certificate',
  530: 'Edge Error',
};

/** The wait that is told (D60): for 1015 the zone's, or without one the time to the end of the client's window; else the catalogue's. */
function retryAfterOf(error: EdgeError, zone: EdgeZone | undefined, waitSeconds: number | undefined) {
  if (error.code !== 1015) return error.retryAfterSeconds;
  return zone?.rateLimit?.retryAfterSeconds ?? waitSeconds ?? error.retryAfterSeconds;
}

/** Finds every line of a field, for who asks for many fields: rules may name hundreds, and a request have thousands of lines. */
function indexedHeaderOf({ rawHeaders }: IncomingMessage): ErrorRequest['header'] {
  let byName: Map<string, string[]> | undefined;
  const read = (): Map<string, string[]> => {
    const fields = new Map<string, string[]>();
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = (rawHeaders[index] ?? '').toLowerCase();
      const values = fields.get(name);
      if (values) values.push(rawHeaders[index + 1] ?? '');
      else fields.set(name, [rawHeaders[index + 1] ?? '']);
    }
    return fields;
  };
  return (name) => (byName ??= read()).get(name) ?? [];
}

/** Makes `Fail`. */
export function createFail({ customAnswer, docsBaseUrl, clock, log }: ErrorAnswerParts): Fail {
  const custom = (zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest): ErrorAnswer | undefined => {
    try {
      return customAnswer(zone, occurrence, request);
    } catch (error) {
      // Custom errors failed by a fault of ours: the default answer still tells of the first failure.
      log.error({ ray: occurrence.rayId, zone: zone.name, err: error }, 'custom errors failed');
      return undefined;
    }
  };
  return (exchange: Exchange, code, waitSeconds) => {
    exchange.code = code;
    const { request, client, sink } = exchange;
    const { rayId, route } = exchange.arrival;
    const zone = exchange.zone?.zone;
    const error = edgeErrors[code];
    const occurrence: EdgeOccurrence = {
      error,
      rayId,
      at: clock.now(),
      zone: route.host,
      retryAfterSeconds: retryAfterOf(error, zone, waitSeconds),
      docsBaseUrl: docsBaseUrl(),
    };
    const asked: ErrorRequest = {
      method: client.failure?.method ?? request.method ?? 'GET',
      path: route.path,
      host: route.host,
      header: indexedHeaderOf(request),
      clientAddress: client.address,
    };
    // RFC 9110 §5.3: several lines are one list.
    const accept = asked.header('accept');
    const answer =
      (zone && custom(zone, occurrence, asked)) ??
      defaultAnswer(occurrence, negotiate(accept.length === 0 ? undefined : accept.join(', ')));
    sink.send({ ...answer, reason: reasons[answer.status] });
  };
}
