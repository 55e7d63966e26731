// Clients that end their side before they have the answer (D66). Some still read (RFC 9112 §9.6), others have gone, and which it
// is shows only when something is sent. So a request gets a while to be answered, and gives way first where room is wanted.

import type { Socket } from 'node:net';
import type { Exchange } from './exchange.ts';

/** The request that a connection has under way. One listener serves all requests of a connection. */
interface Watched {
  onEnd: (() => void) | undefined;
}

const watched = new WeakMap<Socket, Watched>();

function watchedOf(socket: Socket): Watched {
  const known = watched.get(socket);
  if (known) return known;
  const made: Watched = { onEnd: undefined };
  socket.once('end', () => made.onEnd?.());
  watched.set(socket, made);
  return made;
}

/** Watches the client of a request, until the request has ended. @param afterCloseSeconds what it has after the client's end */
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
