// An HTTP client of bare sockets: sends exactly the octets it is given and keeps exactly those that come back.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A connection. */
export interface RawHttp {
  readonly socket: Socket;
  send(bytes: string | Buffer): void;
  /** Everything received so far, one character an octet. */
  text(): string;
  /** Resolves to everything once it contains this. */
  until(part: string | RegExp): Promise<string>;
  /** Resolves to everything once the peer has closed; `reset` tells whether it did so by a reset. */
  closed(): Promise<{ readonly text: string; readonly reset: boolean }>;
}

/** Connects. */
export async function rawHttp(port: number, host = '127.0.0.1'): Promise<RawHttp> {
  const socket = connect({ port, host, allowHalfOpen: true });
  const pieces: Buffer[] = [];
  let reset = false;
  let over = false;
  let wake: (() => void) | undefined;
  socket.on('data', (piece: Buffer) => {
    pieces.push(piece);
    wake?.();
  });
  socket.on('error', () => (reset = true));
  const end = (): void => {
    over = true;
    wake?.();
  };
  socket.on('end', end).on('close', end);
  await once(socket, 'connect');
  const text = (): string => Buffer.concat(pieces).toString('latin1');
  return {
    socket,
    text,
    send: (bytes) => void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    until: async (part) => {
      for (;;) {
        const all = text();
        if (typeof part === 'string' ? all.includes(part) : part.test(all)) return all;
        if (over) throw new Error(`Closed before ${String(part)}: ${JSON.stringify(all.slice(0, 500))}`);
        await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    closed: async () => {
      for (;;) {
        if (over) {
          socket.destroy();
          return { text: text(), reset };
        }
        await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
}

/** Sends octets on a connection of their own and gives all that comes until the peer closes. */
export async function rawAsk(port: number, bytes: string | Buffer): Promise<string> {
  const client = await rawHttp(port);
  client.send(bytes);
  return (await client.closed()).text;
}
