// A log that cannot be written costs lines and nothing else: mail goes on, and SIGTERM ends the process with 0.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { freePort } from '../support/free-port.ts';
import { projectRoot } from '../support/postern-process.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { takesConnections } from '../support/running-program.ts';
import { scratchFolder } from '../support/scratch.ts';
import { copyTestKeys } from '../support/test-keys.ts';

interface Served {
  readonly child: ChildProcess;
  readonly httpPort: number;
  readonly smtpPort: number;
  /** SIGTERM; resolves to the exit code, null where the process had to be killed. */
  end(): Promise<number | null>;
}

/** Starts with an output of the test's own; where it listens cannot be read from it, so the ports are chosen before. */
async function serve(stdout: number | 'pipe'): Promise<Served> {
  const folder = scratchFolder();
  copyTestKeys(join(folder, 'certs'));
  const [httpPort, smtpPort] = [await freePort(), await freePort()];
  const base = deviceConfiguration({ routes: [captureRoute] }) as { readonly smtp: { readonly listeners: object[] } };
  const config = {
    ...base,
    smtp: { listeners: base.smtp.listeners.map((listener) => ({ ...listener, listen: `127.0.0.1:${smtpPort}` })) },
    http: { listen: `127.0.0.1:${httpPort}` },
  };
  writeFileSync(join(folder, 'postern.yaml'), JSON.stringify(config));
  const child = spawn(process.execPath, [join(projectRoot, 'src/main.ts'), 'serve'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      POSTERN_CONFIG: join(folder, 'postern.yaml'),
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
      POSTERN_HTTPS_PORT: '',
    },
    stdio: ['ignore', stdout, 'ignore'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const closed = once(child, 'exit');
  await takesConnections(smtpPort);
  const end = async (): Promise<number | null> => {
    child.kill('SIGTERM');
    const cut = setTimeout(() => child.kill('SIGKILL'), 15_000);
    const [code] = (await closed) as [number | null];
    clearTimeout(cut);
    return code;
  };
  return { child, httpPort, smtpPort, end };
}

async function send(port: number, count: number): Promise<void> {
  const client = await connectSmtp(port);
  await client.reply();
  await client.command('EHLO log.example.com');
  for (let sent = 0; sent < count; sent += 1) {
    await client.command('MAIL FROM:<a@example.com>');
    await client.command('RCPT TO:<b@partner.test>');
    await client.command('DATA');
    expect((await client.command('From: a@example.com\r\n\r\nx\r\n.')).code).toBe(250);
  }
  client.close();
}

test('an output that is full from the first line on', async () => {
  const full = openSync('/dev/full', 'w');
  const served = await serve(full);
  closeSync(full);
  await send(served.smtpPort, 20);
  expect((await fetch(`http://127.0.0.1:${served.httpPort}/readyz`)).status).toBe(200);
  expect(await served.end()).toBe(0);
}, 60_000);

test('a pipe that nobody reads', async () => {
  const served = await serve('pipe');
  // A pipe takes 64 KiB; each message costs several hundred octets of log.
  await send(served.smtpPort, 400);
  const metrics = await fetch(`http://127.0.0.1:${served.httpPort}/metrics`);
  expect(await metrics.text()).toContain('postern_log_lines_dropped ');
  expect(await served.end()).toBe(0);
}, 60_000);

test('a pipe whose reader has gone', async () => {
  const served = await serve('pipe');
  served.child.stdout?.destroy();
  await send(served.smtpPort, 20);
  expect(await served.end()).toBe(0);
}, 60_000);
