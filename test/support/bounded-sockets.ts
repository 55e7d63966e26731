// The sockets that a hostile peer has open at a time: a fixed number, so that it attacks the gateway and not its own process.

import type { Socket } from 'node:net';

/** Holds sockets until they close. */
export interface BoundedSockets {
  /** Takes a socket, whose errors are ignored from here on; above the limit the oldest one is destroyed. */
  add(socket: Socket): void;
  destroyAll(): void;
}

/** Makes a holder of at most `limit` sockets. */
export function boundedSockets(limit: number): BoundedSockets {
  const open = new Set<Socket>();
  return {
    add(socket) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => open.delete(socket));
      for (const oldest of open) {
        if (open.size <= limit) break;
        open.delete(oldest);
        oldest.destroy();
      }
    },
    destroyAll() {
      for (const socket of open) socket.destroy();
    },
  };
}
