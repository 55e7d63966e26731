// A process that has no more files to open goes on, and serves again as soon as some are free.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { echoServer, loopbackAddress, readOctets, testOffset, until } from '../../support/proxy-plane.ts';

const script = new URL('../../support/proxy-plane-process.ts', import.meta.url).pathname;

test('130 files for 100 connections: some are refused, the process lives, and later ones are served', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const child = spawn(
    'sh',
    ['-c', 'ulimit -n 130 && exec "$0" "$@"', process.execPath, script, address, String(origin.port)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  onTestFinished(() => void child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const told = async (): Promise<Record<string, unknown>> => JSON.parse(String((await lines.next()).value));
  const counters = (): Promise<Record<string, unknown>> => {
    child.stdin.write('\n');
    return told();
  };
  expect((await told()).state).toBe('active');

  const clients = Array.from({ length: 100 }, () => connect({ host: address, port: 22 + testOffset }));
  const outcomes = await Promise.all(
    clients.map(async (client: Socket) => {
      const closed = once(client, 'close').then(
        () => 'closed',
        () => 'closed',
      );
      client.on('error', () => undefined);
      client.write('x');
      const served = readOctets(client, 1).then(
        () => 'served',
        () => 'closed',
      );
      return Promise.race([served, closed]);
    }),
  );
  expect(new Set(outcomes)).toEqual(new Set(['served', 'closed']));
  for (const client of clients) client.destroy();
  await until(async () => (await counters()).open === 0);

  const later = connect({ host: address, port: 22 + testOffset });
  onTestFinished(() => void later.destroy());
  later.write('y');
  expect(String(await readOctets(later, 1))).toBe('y');
  expect(child.exitCode).toBeNull();
}, 60_000);
