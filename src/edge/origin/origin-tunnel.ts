// Passes octets both ways after a 101, until both sides have closed (D66).

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/**
 * Joins a client and an origin. The end of one side is passed on to the other. When one side breaks, or both are silent for
 * `idleMs`, both are closed.
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
    // Nothing to do: every error is followed by 'close'.
    end.on('error', () => undefined);
    end.once('close', () => {
      if (!end.readableEnded || !end.writableFinished) other.destroy();
      open -= 1;
      if (open === 0) onClosed();
    });
  };
  watch(client, origin);
  watch(origin, client);
  // Every octet in either direction is read from or written to the origin's socket, so its silence is that of both.
  origin.setTimeout(idleMs, () => {
    client.destroy();
    origin.destroy();
  });
  client.pipe(origin);
  origin.pipe(client);
}
