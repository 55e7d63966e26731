// One request at the edge from its beginning to its end: where its answer goes, how it fails, and what is logged and counted.

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { oncePer } from '../base/once-per.ts';
import type { Arrival } from '../web/http/front.ts';
import type { AnswerSink } from './answer-sink.ts';
import type { EdgeCode, ErrorRequest } from './errors/edge-error.ts';
import type { EdgeClient } from './zone/client-address.ts';
import type { GuardedZone } from './zone/judge-request.ts';
import type { OpenRequest } from './zone/open-requests.ts';

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
  code?: EdgeCode;
  /** Whether the error was asked for at /cdn-cgi/error. */
  asked?: boolean;
  /** Why it was given up though its client might still have read: its time was over, or others wanted the room. */
  gone?: 'time' | 'room';
  /** Whether its origin was known to be down, and not asked. */
  fromMemory?: boolean;
  /** Whether it is answered, or its client has gone. */
  hasEnded?: boolean;
}

/** What is counted of a request once it has ended. */
export interface EdgeCount {
  /** Name of the zone; empty where it was for none. */
  readonly zone: string;
  /** Absent where the client had gone before an answer, or the connection was upgraded. */
  readonly status?: number | undefined;
  /** Code of the error that was answered; absent where it was asked for at /cdn-cgi/error. */
  readonly code?: EdgeCode | undefined;
  /** Why it was given up after its client had ended its side; absent: it was not. */
  readonly gone?: Exchange['gone'];
  /** Whether it was answered from memory: its origin was known to be down. */
  readonly fromMemory?: boolean | undefined;
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
interface Watched {
  onEnd: (() => void) | undefined;
}

const watchedOf = oncePer((socket: Socket): Watched => {
  const made: Watched = { onEnd: undefined };
  socket.once('end', () => made.onEnd?.());
  return made;
});

/**
 * Watches the client of a request, until the request has ended. Of clients that end their side before they have the answer (D66)
 * some still read (RFC 9112 §9.6), others have gone, and which it is shows only when something is sent. So the request gets a while to be
 * answered, and gives way first where room is wanted.
 * @param afterCloseSeconds what it has after the client's end
 */
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
