// An origin on node:net or node:tls that does with its connections what a test says, octet for octet. It is written
// apart from src/ on purpose: a peer, not a mirror.

import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';

/** One accepted connection. */
export interface OriginSide {
  readonly socket: Socket;
  /** 1 for the first connection that the origin accepted. */
  readonly number: number;
  /** The next request head, without the empty line; one character an octet. Rejects where the connection ends before. */
  head(): Promise<string>;
  /** The next octets. */
  octets(count: number): Promise<Buffer>;
  /** Stops reading and gives what came and was not asked for; the socket is the caller's to read from now on. */
  takeOver(): Buffer;
  /** Resolves when the peer has closed or reset the connection. */
  gone(): Promise<void>;
  /** Sends; text is one character an octet. Resolves when it has left. */
  send(bytes: string | Buffer): Promise<void>;
}

/** A running origin. */
export interface FaultOrigin {
  readonly port: number;
  /** Connections accepted so far. */
  connections(): number;
  /** Everything that came in on each connection, one character an octet. */
  received(): readonly string[];
  close(): Promise<void>;
}

function side(socket: Socket, number: number, take: (piece: Buffer) => void): OriginSide {
  let held = Buffer.alloc(0);
  let ended = false;
  let wake: (() => void) | undefined;
  const onData = (piece: Buffer): void => {
    take(piece);
    held = Buffer.concat([held, piece]);
    wake?.();
  };
  socket.on('data', onData);
  const end = (): void => {
    ended = true;
    wake?.();
  };
  socket.on('end', end).on('close', end);
  const until = async <T>(look: () => T | undefined): Promise<T> => {
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      if (ended) throw new Error('The connection ended');
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  const cut = (count: number): Buffer => {
    const piece = held.subarray(0, count);
    held = held.subarray(count);
    return piece;
  };
  return {
    socket,
    number,
    head: async () => {
      const end = await until(() => {
        const at = held.indexOf('\r\n\r\n');
        return at < 0 ? undefined : at;
      });
      return cut(end + 4).toString('latin1', 0, end + 2);
    },
    octets: async (count) => {
      await until(() => (held.length >= count ? true : undefined));
      return cut(count);
    },
    takeOver: () => {
      socket.off('data', onData);
      socket.pause();
      return cut(held.length);
    },
    gone: async () => {
      // Not by `once`, which rejects where the end is a reset.
      if (socket.destroyed || socket.readableEnded) return;
      await new Promise<void>((resolve) => void socket.once('close', () => resolve()).once('end', () => resolve()));
    },
    send: (bytes) =>
      new Promise((resolve) => {
        socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes, () => resolve());
      }),
  };
}

/**
 * Starts an origin.
 * @param behave what it does with each connection; a connection that ends under it is no fault
 * @param options `tls`: speaks TLS with these; `keepsReceived` false: `received` stays empty, for an origin that runs long
 */
export async function faultOrigin(
  behave: (origin: OriginSide) => Promise<void> | void,
  options: {
    readonly tls?: TlsOptions;
    readonly host?: string;
    readonly port?: number;
    readonly keepsReceived?: boolean;
  } = {},
): Promise<FaultOrigin> {
  const { keepsReceived = true } = options;
  const sockets = new Set<Socket>();
  const received: string[] = [];
  let connections = 0;
  const accept = (socket: Socket): void => {
    connections += 1;
    const number = connections;
    socket.on('error', () => undefined);
    if (keepsReceived) received.push('');
    const one = side(socket, number, (piece) => {
      if (keepsReceived) received[number - 1] += piece.toString('latin1');
    });
    // What fails here is the peer leaving; the test looks at what it wants to see.
    Promise.resolve(behave(one)).catch(() => undefined);
  };
  const server = options.tls
    ? createTlsServer({ ...options.tls, allowHalfOpen: true }, accept)
    : createServer({ allowHalfOpen: true }, accept);
  server.on('tlsClientError', () => undefined);
  // Under TLS this is the socket below, which may be there without a handshake that was completed.
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    received: () => received,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Answers every request of a connection with the same octets, bodies of requests unread. */
export function always(reply: string | Buffer): (origin: OriginSide) => Promise<void> {
  return async (origin) => {
    for (;;) {
      await origin.head();
      await origin.send(reply);
    }
  };
}
