// UDP clients and origins of a test's own, on loopback.

import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { onTestFinished } from 'vitest';

/** A datagram and where it came from. */
export interface Received {
  readonly data: Buffer;
  readonly from: RemoteInfo;
}

/** A socket that keeps what it gets. */
export interface UdpPeer {
  readonly address: string;
  readonly port: number;
  readonly received: readonly Received[];
  /** Sends one datagram. */
  send(data: string | Buffer, to: { readonly address: string; readonly port: number }): Promise<void>;
  /** The next datagram that nobody has taken yet, as soon as it is there. */
  next(): Promise<Received>;
  /** Closes it before the test ends. */
  close(): Promise<void>;
}

/** Binds a socket; closed when the test ends. `answer` gives the reply to a datagram, undefined for none. */
export async function udpPeer(
  options: {
    readonly address?: string;
    readonly port?: number;
    readonly answer?: (data: Buffer, from: RemoteInfo) => Buffer | undefined;
  } = {},
): Promise<UdpPeer> {
  const address = options.address ?? '127.0.0.1';
  const socket: Socket = createSocket({ type: isIPv6(address) ? 'udp6' : 'udp4', recvBufferSize: 1024 * 1024 });
  const received: Received[] = [];
  const waiting: ((one: Received) => void)[] = [];
  let taken = 0;
  socket.on('message', (data, from) => {
    const one = { data, from };
    received.push(one);
    const reply = options.answer?.(data, from);
    if (reply) socket.send(reply, from.port, from.address);
    const first = waiting.shift();
    if (!first) return;
    taken += 1;
    first(one);
  });
  socket.bind(options.port ?? 0, address);
  await once(socket, 'listening');
  let isOpen = true;
  const close = async (): Promise<void> => {
    if (!isOpen) return;
    isOpen = false;
    socket.close();
    await once(socket, 'close');
  };
  onTestFinished(close);
  return {
    address,
    port: socket.address().port,
    received,
    send: (data, to) =>
      new Promise((resolve, reject) => {
        socket.send(data, to.port, to.address, (error) => (error ? reject(error) : resolve()));
      }),
    next: () => {
      const one = received[taken];
      if (one && waiting.length === 0) {
        taken += 1;
        return Promise.resolve(one);
      }
      return new Promise((resolve) => waiting.push(resolve));
    },
    close,
  };
}

/** Sends back what it gets, behind a prefix. */
export function udpEcho(prefix = '', at: { readonly address?: string; readonly port?: number } = {}): Promise<UdpPeer> {
  return udpPeer({ ...at, answer: (data) => Buffer.concat([Buffer.from(prefix), data]) });
}
