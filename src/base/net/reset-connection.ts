// Ends a TCP connection by a reset (RFC 9293 §3.10.7.4), where that is safe: the one place that resets anything.

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A connection as it is read and written, and the TCP connection that carries it. */
export interface Connection {
  /** The TLS connection, or `raw` itself. */
  readonly stream: Socket;
  /** The TCP connection below. */
  readonly raw: Socket;
  /** What lies between the two, so that TLS has no hold on the handle of `raw`; absent: nothing does. */
  readonly carrier?: Duplex;
}

/**
 * Whether the system has been asked to close the sending half and has not answered. It refuses a reset then (EINVAL),
 * and the socket would be neither reset nor closed. All that was written is with the system by then.
 */
function isShuttingDown({ writableEnded, writableFinished, writableLength }: Socket): boolean {
  return writableEnded && writableLength === 0 && !writableFinished;
}

/**
 * Ends a connection at once, by a reset wherever that can be, so that the peer does not take what it has for the whole.
 * A socket that TLS is laid on directly is never reset: what TLS still has to write would go to a handle that is gone,
 * which ends the process. That one, one that does not stand yet, and one whose sending half is just being closed are only
 * closed; for TLS that is without close_notify, which says the same (RFC 8446 §6.1). May be called any number of times.
 */
export function resetConnection({ stream, raw, carrier }: Connection): void {
  const isReset =
    (stream === raw || carrier !== undefined) && !raw.destroyed && !raw.connecting && !isShuttingDown(raw);
  if (isReset) raw.resetAndDestroy();
  stream.destroy();
  raw.destroy();
}
