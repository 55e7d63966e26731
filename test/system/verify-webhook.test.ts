// The programs of docs/examples that verify webhooks: they take what Postern signs, and nothing else.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { makeSecret, signatureOf } from '../../src/delivery/webhooks/secret.ts';
import { projectRoot } from '../support/postern-process.ts';

const secret = makeSecret();
const examples = join(projectRoot, 'docs/examples');

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts a program. @returns its URL, and what it has printed */
async function start(command: string, args: readonly string[], port: number) {
  const child: ChildProcess = spawn(command, args, { env: { PATH: process.env['PATH'], WEBHOOK_SECRET: secret } });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text: Buffer) => (printed += text.toString()));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
  });
  const url = `http://127.0.0.1:${port}/`;
  await expect
    .poll(
      () =>
        fetch(url).then(
          () => true,
          () => false,
        ),
      { timeout: 15_000, interval: 50 },
    )
    .toBe(true);
  return { url, printed: () => printed };
}

test.each([
  ['JavaScript', process.execPath, (port: number) => [join(examples, 'verify-webhook.mjs'), String(port)]],
  ['Python', 'python3', (port: number) => [join(examples, 'verify-webhook.py'), String(port)]],
  ['PHP', 'php', (port: number) => ['-S', `127.0.0.1:${port}`, join(examples, 'verify-webhook.php')]],
] as const)('the program in %s', async (_name, command, args) => {
  const port = await freePort();
  const { url, printed } = await start(command, args(port), port);
  const body = JSON.stringify({ type: 'delivered', data: { recipient: 'bücher@example.net' } });
  const now = Math.floor(Date.now() / 1000);
  const post = async (
    changes: { body?: string; timestamp?: number; secrets?: readonly string[]; id?: string } = {},
  ) => {
    const { secrets = [secret], timestamp = now } = changes;
    const id = 'evt_1_abc';
    const signature = signatureOf(secrets, { id, timestamp, body });
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        'webhook-id': changes.id ?? id,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': signature,
      },
      body: changes.body ?? body,
    });
    return answer.status;
  };
  expect(await post()).toBe(204);
  expect(await post({ secrets: [makeSecret(), secret] })).toBe(204);
  expect(printed()).toMatch(/evt_1_abc delivered b.+cher@example\.net/);
  expect(await post({ secrets: [makeSecret()] })).toBe(400);
  expect(await post({ body: `${body} ` })).toBe(400);
  expect(await post({ id: 'evt_2_abc' })).toBe(400);
  expect(await post({ timestamp: now - 3600 })).toBe(400);
  expect((await fetch(url, { method: 'POST', body })).status).toBe(400);
});
