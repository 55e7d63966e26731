// TCP applications with real programs at the other end: a gibibyte with flat memory, PROXY headers read by HAProxy.

import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { loopbackAddress, tcpServer, testOffset } from '../support/proxy-plane.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms } from './programs.ts';

requirePrograms('haproxy');

const script = new URL('../support/proxy-plane-process.ts', import.meta.url).pathname;

/** Starts a data plane of its own process. @returns what asks it for its counters */
async function startPlaneProcess(...args: readonly string[]): Promise<() => Promise<Record<string, unknown>>> {
  const child = spawn(process.execPath, [script, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const read = async (): Promise<Record<string, unknown>> => JSON.parse(String((await lines.next()).value));
  expect((await read()).state).toBe('active');
  return () => {
    child.stdin.write('\n');
    return read();
  };
}

test('a gibibyte each way arrives intact, and the memory of the gateway stays flat', async () => {
  const address = loopbackAddress();
  const pieces = 1024;
  const piece = randomBytes(1024 * 1024);
  const wanted = createHash('sha256');
  for (let index = 0; index < pieces; index += 1) wanted.update(piece);
  const digest = wanted.digest('hex');

  // It sends back everything: the same gibibyte passes the gateway twice.
  const origin = await tcpServer((socket) => socket.pipe(socket));
  const counters = await startPlaneProcess(address, String(origin.port));
  const before = Number((await counters()).peakKib);

  const client = connect({ host: address, port: 22 + testOffset, allowHalfOpen: true });
  const got = createHash('sha256');
  client.on('data', (chunk) => got.update(chunk));
  let left = pieces;
  const more = (): void => {
    while (left > 0) {
      left -= 1;
      if (!client.write(piece)) return;
    }
    client.end();
  };
  client.on('drain', more);
  more();
  await once(client, 'end');

  expect(got.digest('hex')).toBe(digest);
  const after = await counters();
  expect(after).toMatchObject({ bytesFromClients: 2 ** 30, bytesFromOrigins: 2 ** 30, failed: 0 });
  // What was carried is sixteen times as much.
  expect(Number(after.peakKib) - before).toBeLessThan(128 * 1024);
});

/** A free port of 127.0.0.1. */
async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bound = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (bound === null || typeof bound === 'string') throw new Error('no port');
  return bound.port;
}

test.each(['v1', 'v2'])('HAProxy reads the PROXY header %s and sees the client, not the gateway', async (version) => {
  const address = loopbackAddress();
  const port = await freePort();
  const file = join(scratchFolder(), 'haproxy.cfg');
  writeFileSync(
    file,
    [
      'defaults',
      '  mode http',
      '  timeout client 10s',
      'frontend door',
      `  bind 127.0.0.1:${port} accept-proxy`,
      '  http-request return status 200 content-type text/plain lf-string "%[src]:%[src_port] to %[dst]:%[dst_port]"',
      '',
    ].join('\n'),
  );
  const haproxy = spawn('haproxy', ['-db', '-f', file], { stdio: ['ignore', 'inherit', 'inherit'] });
  onTestFinished(() => void haproxy.kill());
  for (;;) {
    const probe = connect(port, '127.0.0.1');
    const isUp = await once(probe, 'connect').then(
      () => true,
      () => false,
    );
    probe.destroy();
    if (isUp) break;
    expect(haproxy.exitCode).toBeNull();
  }
  await startPlaneProcess(address, String(port), version);

  const client = connect({ host: address, port: 22 + testOffset, localAddress: '127.77.7.7' });
  await once(client, 'connect');
  const { localPort } = client;
  client.write('GET / HTTP/1.1\r\nHost: app.example.com\r\nConnection: close\r\n\r\n');
  let answer = '';
  for await (const chunk of client.setEncoding('utf8')) answer += String(chunk);
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  expect(answer).toContain(`127.77.7.7:${localPort} to ${address}:${22 + testOffset}`);
});
