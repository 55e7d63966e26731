// What commands do to the queue beside the server: the server's log and metrics tell of it.

import { afterEach, expect, test } from 'vitest';
import { deviceConfiguration } from '../support/device-config.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { runCli } from '../support/run-cli.ts';
import { RawClient } from '../support/smtp-peers.ts';

let postern: PosternHere | undefined;
afterEach(async () => {
  await postern?.cleanUp();
  postern = undefined;
});

test('queue retry and queue drop stand in the log and the metrics of the running server', {
  timeout: 60_000,
}, async () => {
  // Nobody listens at the next hop.
  const routes = [{ name: 'out', type: 'smarthost', url: 'smtp://127.0.0.1:1' }];
  const running = (postern = await startHere({ config: deviceConfiguration({ routes }) }));
  const client = RawClient.open(running.ports['devices'] ?? 0);
  await client.reply();
  await client.ask('EHLO client.example');
  await client.ask('MAIL FROM:<a@example.com>');
  await client.ask('RCPT TO:<b@real.test>');
  await client.ask('RCPT TO:<c@real.test>');
  await client.ask('DATA');
  expect(await client.ask('From: a@example.com\r\nSubject: x\r\n\r\nx\r\n.')).toMatch(/^250 /);
  client.destroy();
  const line = (msg: string) => running.until(() => running.log().find((one) => one['msg'] === msg));
  const { id, session, messageId } = await line('accepted');
  await line('deferred');
  const run = async (...args: string[]) =>
    (await runCli(['queue', ...args], { env: running.env, cwd: running.folder })).exitCode;
  expect(await run('retry', String(id))).toBe(0);
  expect(await line('requeued')).toMatchObject({
    level: 'info',
    id,
    session,
    messageId,
    account: 'dev',
    recipients: 2,
    failed: 0,
  });
  expect(await run('drop', String(id))).toBe(0);
  expect(await line('dropped')).toMatchObject({ level: 'warn', id, session, account: 'dev', recipients: 2 });
  const metrics = await (await fetch(`http://127.0.0.1:${running.ports['http']}/metrics`)).text();
  expect(metrics).toContain('postern_queue_actions_total{action="requeued"} 1\n');
  expect(metrics).toContain('postern_queue_actions_total{action="dropped"} 1\n');
});
