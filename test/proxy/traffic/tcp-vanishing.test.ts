// Clients and origins that send and are gone, with TLS and without: the process lives, and nothing of them stays open.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { testCertificate } from '../../support/certificate.ts';
import { loopbackAddress, tcpServer, testOffset, until } from '../../support/proxy-plane.ts';
import { scratchFolder } from '../../support/scratch.ts';

const script = new URL('../../support/proxy-plane-process.ts', import.meta.url).pathname;

type Told = Readonly<Record<'open' | 'connections' | 'descriptors', number>> & {
  readonly state: string;
  readonly resources: Readonly<Record<string, number>>;
};

/** A data plane in a process of its own that forwards a port with this TLS. */
async function startProcess(tls: string, originPort: number) {
  const address = loopbackAddress();
  const folder = scratchFolder();
  const { cert, key } = await testCertificate(['app.example.com']);
  writeFileSync(join(folder, 'cert.pem'), cert);
  writeFileSync(join(folder, 'key.pem'), key);
  const child = spawn(process.execPath, [script, address, String(originPort), 'off', tls, folder], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const told = async (): Promise<Told> => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the process ended: ${child.exitCode ?? child.signalCode}`);
    return JSON.parse(value);
  };
  return {
    address,
    told,
    now: (): Promise<Told> => {
      child.stdin.write('\n');
      return told();
    },
  };
}

/** Takes everything, and has something to say, which a client that is gone answers with a reset. */
function talk(socket: Socket): void {
  socket.on('error', () => undefined);
  socket.on('end', () => socket.end());
  socket.resume();
  socket.write(Buffer.alloc(100_000));
}

/** An origin, with TLS or without. */
async function talkingOrigin(tls: string): Promise<number> {
  if (tls !== 'full') return (await tcpServer(talk)).port;
  const server = createTlsServer(await testCertificate(), talk);
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const bound = server.address();
  return bound !== null && typeof bound === 'object' ? bound.port : 0;
}

async function openClient(tls: string, address: string): Promise<readonly [Socket, Socket]> {
  const raw = connect({ host: address, port: 22 + testOffset });
  raw.on('error', () => undefined);
  if (tls === 'off') {
    await once(raw, 'connect');
    return [raw, raw];
  }
  const stream = connectTls({ socket: raw, rejectUnauthorized: false });
  stream.on('error', () => undefined);
  await once(stream, 'secureConnect');
  return [stream, raw];
}

const rounds = 20;
const atOnce = 10;

/** Sends and goes in one of the ways, without having read anything. */
async function sendAndVanish(tls: string, address: string, turn: number): Promise<void> {
  const [stream, raw] = await openClient(tls, address);
  stream.pause();
  const closed = new Promise((resolve) => raw.once('close', resolve));
  const octets = Buffer.alloc(50_000 + (turn % 8) * 50_000, 'x');
  if (turn % 3 === 0) stream.end(octets, () => raw.destroy());
  else stream.write(octets, () => raw.destroy());
  if (turn % 3 === 2) setTimeout(() => raw.destroy(), turn % 7);
  await closed;
}

test.each(['off', 'flexible', 'full'])(
  '%s: clients that send and go at once leave nothing behind',
  async (tls) => {
    const { address, told, now } = await startProcess(tls, await talkingOrigin(tls));
    expect((await told()).state).toBe('active');
    // The first connection loads what stays open for good.
    await sendAndVanish(tls, address, 0);
    await until(async () => (await now()).open === 0);
    const before = await now();
    for (let round = 0; round < rounds; round += 1) {
      await Promise.all(Array.from({ length: atOnce }, (_, one) => sendAndVanish(tls, address, round * atOnce + one)));
    }
    let after = await now();
    await until(async () => {
      after = await now();
      // A handle whose descriptor is closed is listed for one turn of the event loop more.
      const isQuiet = after.open === 0 && after.descriptors === before.descriptors;
      return isQuiet && isDeepStrictEqual(after.resources, before.resources);
    });
    expect(after.connections).toBe(1 + rounds * atOnce);
  },
  20_000,
);
