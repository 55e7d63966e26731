// What follows a 101: octets both ways, until both sides have closed (D66).

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/**
 * Joins a client and an origin. Each side's end is passed on, a side that breaks takes the other with it, and so does
 * silence on both.
 * @param idleMs milliseconds without an octet in either direction
 * @param onClosed called once, when both are closed
 */
export function openTunnel(
  ends: { readonly client: Duplex; readonly origin: Socket },
  { idleMs, onClosed }: { readonly idleMs: number; readonly onClosed: () => void },
): void {
  const { client, origin } = ends;
  let open = 2;
  const watch = (end: Duplex, other: Duplex): void => {
    // What broke is told by 'close', which every error is followed by.
    end.on('error', () => undefined);
    end.once('close', () => {
      if (!end.readableEnded || !end.writableFinished) other.destroy();
      open -= 1;
      if (open === 0) onClosed();
    });
  };
  watch(client, origin);
  watch(origin, client);
  // Every octet passes the origin's socket, read or written.
  origin.setTimeout(idleMs, () => {
    client.destroy();
    origin.destroy();
  });
  client.pipe(origin);
  origin.pipe(client);
}
