// Joins two TCP connections: octets both ways with backpressure, each direction closed on its own (RFC 9293 §3.6).

import type { Socket } from 'node:net';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { freeOctets } from '../../base/free-octets.ts';
import { type Connection, resetConnection } from '../../base/net/reset-connection.ts';

/** What a splice needs to know. */
export interface SpliceOptions {
  /** Silence in both directions after which both are closed, milliseconds. */
  readonly idleMs: number;
  /** Cuts both at once; its reason, a text, is told as the end's. */
  readonly signal: AbortSignal;
  /** Told the octets of every piece that arrives. */
  readonly fromClient: (octets: number) => void;
  readonly fromOrigin: (octets: number) => void;
}

/** How it ended. */
export interface SpliceEnd {
  readonly reason: string;
  /** The origin reset the connection, or closed it before anything else had happened. */
  readonly originBroke: boolean;
}

/** Smaller pieces are left to the garbage collector. */
const freedOctets = 16_384;

/** Sends what comes from one to the other. What the other cannot take yet stops the reading. */
function flow(from: Socket, to: Socket, count: (octets: number) => void): void {
  from.on('data', (chunk: Buffer) => {
    count(chunk.length);
    // write() says false for every full piece, even when the system has taken all of it at once.
    const wantsMore = chunk.length < freedOctets ? to.write(chunk) : to.write(chunk, () => freeOctets(chunk));
    if (!wantsMore && to.writableLength > 0) from.pause();
  });
  to.on('drain', () => from.resume());
  // With TLS the end may have been read before anybody listened.
  if (from.readableEnded) to.end();
  else from.on('end', () => to.end());
}

/** Splices until both connections are closed. Neither may have a reader yet. A reset on one side is a reset on the other. */
export function splice(client: Connection, origin: Connection, options: SpliceOptions): Promise<SpliceEnd> {
  const { idleMs, signal } = options;
  return new Promise((resolve) => {
    let firstEnd: string | undefined;
    let broken: string | undefined;
    let originBroke = false;
    let octets = 0;
    let closed = 0;

    const stop = (reason: string): void => {
      broken ??= reason;
      resetConnection(client);
      resetConnection(origin);
    };
    const cut = (): void => stop(String(signal.reason));
    const isIdle = (): void => stop(`nothing came for ${idleMs} ms`);
    const counting = (count: (octets: number) => void) => (length: number) => {
      octets += length;
      count(length);
    };
    const watch = ({ stream }: Connection, name: 'client' | 'origin'): void => {
      stream.on('error', (error) => {
        if (name === 'origin' && firstEnd === undefined && broken === undefined) originBroke = true;
        stop(`the ${name} broke off: ${errorCode(error) ?? errorMessage(error)}`);
      });
      const ended = (): void => {
        if (name === 'origin' && firstEnd === undefined && octets === 0) originBroke = true;
        firstEnd ??= `the ${name} closed`;
      };
      if (stream.readableEnded) ended();
      else stream.once('end', ended);
      const isClosed = (): void => {
        const isWhole = stream.readableEnded && stream.writableFinished;
        if (!isWhole) stop(`the ${name} broke off`);
        closed += 1;
        // A closed connection has no timer any more; without this one, an origin that takes no more octets would never be closed.
        if (name === 'client') origin.stream.setTimeout(idleMs, isIdle);
        if (closed < 2) return;
        signal.removeEventListener('abort', cut);
        resolve({ reason: broken ?? firstEnd ?? 'closed', originBroke });
      };
      if (stream.closed) isClosed();
      else stream.once('close', isClosed);
    };

    watch(client, 'client');
    watch(origin, 'origin');
    signal.addEventListener('abort', cut, { once: true });
    // Every octet passes the client's connection, in or out: its silence is that of both directions.
    client.stream.setTimeout(idleMs, isIdle);
    flow(client.stream, origin.stream, counting(options.fromClient));
    flow(origin.stream, client.stream, counting(options.fromOrigin));
    client.stream.resume();
    origin.stream.resume();
    if (signal.aborted) cut();
  });
}
