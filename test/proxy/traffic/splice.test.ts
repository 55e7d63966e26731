// What a splice does with the memory of what it carries. How it carries is in tcp-listener.test.ts.

import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { splice } from '../../../src/proxy/traffic/tcp-listener.ts';

/** Both ends of a connection on loopback, half-open allowed. */
async function connection(): Promise<readonly [Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('no port');
  const dialed = connect({ port: bound.port, host: '127.0.0.1', allowHalfOpen: true });
  const [[accepted]] = (await Promise.all([once(server, 'connection'), once(dialed, 'connect')])) as [
    [Socket],
    unknown,
  ];
  server.close();
  for (const socket of [accepted, dialed]) onTestFinished(() => void socket.destroy());
  return [accepted, dialed];
}

test('the memory of large pieces is given back as soon as they are sent on, and what arrives is intact', async () => {
  const [client, person] = await connection();
  const [origin, server] = await connection();
  const pieces: Buffer[] = [];
  origin.on('data', (piece: Buffer) => pieces.push(piece));
  origin.pause();
  const ended = splice(
    { stream: client, raw: client },
    { stream: origin, raw: origin },
    {
      idleMs: 60_000,
      signal: new AbortController().signal,
      fromClient: () => undefined,
      fromOrigin: () => undefined,
    },
  );
  const sent = Buffer.alloc(8 * 1024 * 1024, 'abcdefghijklmnopqrstuvwxyz0123456789-');
  server.end(sent);
  const got: Buffer[] = [];
  for await (const chunk of person) got.push(chunk as Buffer);
  person.end();
  server.resume();
  await ended;

  expect(Buffer.concat(got).equals(sent)).toBe(true);
  // A piece whose memory was given back has no octets any more.
  const kept = pieces.reduce((octets, piece) => octets + piece.length, 0);
  expect(pieces.length).toBeGreaterThan(10);
  expect(kept).toBeLessThan(sent.length / 8);
});

test('memory that a piece shares with others is left alone', async () => {
  const [client, person] = await connection();
  const [origin, server] = await connection();
  const ended = splice(
    { stream: client, raw: client },
    { stream: origin, raw: origin },
    { idleMs: 60_000, signal: new AbortController().signal, fromClient: () => undefined, fromOrigin: () => undefined },
  );
  const shared = Buffer.from(new ArrayBuffer(128 * 1024), 0, 64 * 1024).fill('x');
  origin.emit('data', shared);
  server.end();
  let octets = 0;
  for await (const chunk of person) octets += (chunk as Buffer).length;
  person.end();
  server.resume();
  await ended;
  expect([octets, shared.length, shared.buffer.byteLength]).toEqual([65_536, 65_536, 131_072]);
});
