// Ends a TCP connection by a reset (RFC 9293 §3.10.7.4) where that is safe. No other file resets connections.

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A connection as it is read and written, and the TCP connection that carries it. */
export interface Connection {
  /** The TLS connection, or `raw` itself. */
  readonly stream: Socket;
  readonly raw: Socket;
  /** A stream between the two, if there is one, which keeps TLS off the handle of `raw`. */
  readonly carrier?: Duplex;
}

/** Whether the sending half is being closed: the system then refuses a reset (EINVAL), and has taken all that was written. */
function isShuttingDown({ writableEnded, writableFinished, writableLength }: Socket): boolean {
  return writableEnded && writableLength === 0 && !writableFinished;
}

/**
 * Ends a connection at once, by a reset where possible, so that the peer does not take the data it has for complete. A
 * socket that TLS uses directly is never reset: TLS would write its remaining data to a handle that is gone, which ends the
 * process. Such a socket, one that is not connected yet, and one whose sending half is just being closed are only closed.
 * For TLS that means without close_notify, which says the same (RFC 8446 §6.1). May be called any number of times.
 */
export function resetConnection({ stream, raw, carrier }: Connection): void {
  const isReset =
    (stream === raw || carrier !== undefined) && !raw.destroyed && !raw.connecting && !isShuttingDown(raw);
  if (isReset) raw.resetAndDestroy();
  stream.destroy();
  raw.destroy();
}
