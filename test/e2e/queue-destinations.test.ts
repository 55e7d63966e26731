// The queue commands beside a running server: what it knows of its next hops, and holds that it notices by itself.

import { afterEach, expect, test, vi } from 'vitest';
import { deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { runHere } from '../support/run-cli.ts';

vi.setConfig({ testTimeout: 90_000 });

let closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
});

async function send({ ports }: PosternHere, recipient: string): Promise<void> {
  const client = await connectSmtp(ports['devices'] ?? 0);
  await client.reply();
  for (const line of ['EHLO x', 'MAIL FROM:<a@example.com>', `RCPT TO:<${recipient}>`, 'DATA'])
    await client.command(line);
  client.write('From: a@example.com\r\nSubject: x\r\n\r\nx\r\n.\r\n');
  expect((await client.reply()).code).toBe(250);
  client.close();
}

test('a next hop that is down, a hold and its release show beside the running server', async () => {
  const sink = await FaultSink.start();
  closers.push(() => sink.close());
  const closedPort = await freePort();
  const route = { type: 'smarthost', tls: 'none' };
  const postern = await startHere({
    config: deviceConfiguration({
      routes: [
        { ...route, name: 'down', url: `smtp://127.0.0.1:${closedPort}`, match: { recipientDomains: ['down.test'] } },
        { ...route, name: 'up', url: `smtp://127.0.0.1:${sink.port}` },
      ],
    }),
  });
  closers.push(() => postern.cleanUp());
  const queue = async (...args: readonly string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await runHere(['queue', ...args], {
      env: postern.env,
      cwd: postern.folder,
    });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    return stdout;
  };
  await send(postern, 'a@down.test');
  await postern.until(() => postern.log().find(({ msg }) => msg === 'next hop is down'));
  await send(postern, 'b@up.test');
  await postern.until(() => sink.messages.length === 1);
  const told = (await queue('destinations', '--json')).trim().split('\n');
  const [down, up] = told.map((line): Record<string, unknown> => JSON.parse(line));
  expect(down).toMatchObject({ route: 'down', queued: 1, held: 0, hop: { trouble: 'down', lastWords: { code: 451 } } });
  expect(up).toMatchObject({ route: 'up', queued: 0, hop: { connections: 1, allowed: 10, most: 10 } });
  expect(await queue('destinations')).toMatch(
    new RegExp(`^down \\(127\\.0\\.0\\.1:${closedPort}\\) +1 .*ECONNREFUSED`, 'm'),
  );

  await queue('hold', '--destination', 'up.test', '--why', 'a test');
  // Each time before the server looks for mail that another process made due, it reads the holds. The second time that it finds
  // such mail, it has looked anew since the hold was made. A retry while an attempt is under way changes nothing, so its outcome
  // is awaited.
  const attempts = (): number =>
    postern.log().filter(({ msg, recipient }) => msg === 'deferred' && recipient === 'defer-rcpt@probe.test').length;
  await send(postern, 'defer-rcpt@probe.test');
  for (const attempt of [1, 2]) {
    await postern.until(() => attempts() === attempt);
    await queue('retry', '--domain', 'probe.test');
  }
  await postern.until(() => attempts() === 3);
  await send(postern, 'c@up.test');
  await send(postern, 'd@other.test');
  await postern.until(() => sink.messages.length === 2);
  expect(sink.messages[1]?.recipients).toEqual(['d@other.test']);
  expect(await queue('list', '--search', 'c@up.test')).toContain('(destination up.test): a test');
  await queue('release', '--destination', 'up.test');
  await postern.until(() => sink.messages.length === 3);
  expect(sink.messages[2]?.recipients).toEqual(['c@up.test']);
});
