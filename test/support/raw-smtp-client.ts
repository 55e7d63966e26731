// A minimal SMTP client for tests: writes octets as told, reads replies as they come.

import { connect, type Socket } from 'node:net';

export interface RawReply {
  readonly code: number;
  readonly lines: readonly string[];
}

/** One connection. Every method rejects when the connection ends before the reply is whole. */
export interface RawSmtpClient {
  /** Reads the next whole reply. */
  reply(): Promise<RawReply>;
  /** Writes a command line (CRLF added) and reads its reply. */
  command(line: string): Promise<RawReply>;
  write(octets: string | Buffer): void;
  close(): void;
}

/** Connects, from a local address if one is named, and leaves the greeting to be read by `reply`. */
export function connectSmtp(port: number, host = '127.0.0.1', localAddress?: string): Promise<RawSmtpClient> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true, localAddress });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(wrap(socket));
    });
  });
}

function wrap(socket: Socket): RawSmtpClient {
  let buffered = '';
  let lines: string[] = [];
  let ended: Error | undefined;
  const replies: RawReply[] = [];
  const waiting: { resolve: (reply: RawReply) => void; reject: (error: Error) => void }[] = [];

  const end = (error: Error): void => {
    ended ??= error;
    for (const waiter of waiting.splice(0)) waiter.reject(ended);
  };
  socket.on('error', end);
  socket.on('close', () => end(new Error('the connection ended')));
  socket.setEncoding('latin1').on('data', (text: string) => {
    buffered += text;
    for (let at = buffered.indexOf('\r\n'); at >= 0; at = buffered.indexOf('\r\n')) {
      const line = buffered.slice(0, at);
      buffered = buffered.slice(at + 2);
      lines.push(line);
      if (line[3] === '-') continue;
      const reply = { code: Number(line.slice(0, 3)), lines };
      lines = [];
      const waiter = waiting.shift();
      if (waiter) waiter.resolve(reply);
      else replies.push(reply);
    }
  });
  const reply = (): Promise<RawReply> => {
    const ready = replies.shift();
    if (ready) return Promise.resolve(ready);
    if (ended) return Promise.reject(ended);
    return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  };
  return {
    reply,
    command: (line) => {
      socket.write(`${line}\r\n`, 'latin1');
      return reply();
    },
    write: (octets) => void socket.write(octets),
    close: () => socket.destroy(),
  };
}
