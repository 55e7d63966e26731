// A backup taken beside a server under load, restored elsewhere: what was accepted before it began is delivered from there,
// once. And a backup that is killed.

import { spawn } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { type PosternProcess, projectRoot, startPostern } from '../support/postern-process.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';
import { isOnPostgres } from '../support/store.ts';

const timeout = 120_000;

function configTo(port: number): object {
  return deviceConfiguration({
    routes: [{ name: 'out', type: 'smarthost', url: `smtp://127.0.0.1:${port}`, tls: 'none' }],
    delivery: { retry: { firstDelaySeconds: 1, maxDelaySeconds: 1, expireAfterSeconds: 3600 } },
  });
}

const postern = ({ env, folder }: PosternProcess, ...args: readonly string[]) => runCli(args, { env, cwd: folder });

/** Hands mail to a gateway until told to stop; every eighth message has a body that is a file. */
async function sendUntil({ ports }: PosternProcess, isOver: () => boolean): Promise<readonly string[]> {
  const accepted: string[] = [];
  const client = await connectSmtp(ports['devices'] ?? 0);
  await client.reply();
  await client.command('EHLO test.example');
  for (let at = 0; !isOver(); at += 1) {
    const subject = `message ${at}.`;
    await client.command('MAIL FROM:<a@example.com>');
    await client.command('RCPT TO:<b@example.net>');
    await client.command('DATA');
    const lines = `${'x'.repeat(78)}\r\n`.repeat(at % 8 === 0 ? 4000 : 2);
    client.write(`From: a@example.com\r\nSubject: ${subject}\r\n\r\n${lines}.\r\n`);
    const reply = await client.reply();
    if (reply.code !== 250) throw new Error(reply.lines.join('\n'));
    accepted.push(subject);
  }
  client.close();
  return accepted;
}

// A backup of PostgreSQL is made by its own means; the command says so and ends (test/system/postgres-gateway.test.ts).
test.skipIf(isOnPostgres)(
  'mail flows, a backup is taken, and what was queued is delivered from the folder it is restored into',
  {
    timeout,
  },
  async () => {
    const first = await startPostern({ config: configTo(await freePort()) });
    onTestFinished(() => first.cleanUp());
    let isOver = false;
    let sentBefore = 0;
    const sending = sendUntil(first, () => isOver || ((sentBefore += 1), false));
    await first.until(() => sentBefore > 60);
    const certain = sentBefore - 1;
    const file = join(scratchFolder(), 'postern.backup');
    const taken = await postern(first, 'backup', file);
    expect(taken).toMatchObject({ exitCode: 0, stderr: '' });
    expect(taken.stdout).toMatch(/^Wrote .*: \d+ octets, \d+ messages, \d+ with a large body\n$/);
    isOver = true;
    const accepted = await sending;
    const onSelf = await postern(first, 'restore', '--force', file);
    expect([onSelf.exitCode, onSelf.stderr]).toEqual([1, expect.stringContaining('A server works on')]);
    expect(await first.end('SIGTERM')).toBe(0);

    const sink = await FaultSink.start();
    onTestFinished(() => sink.close());
    const folder = scratchFolder();
    const env = {
      POSTERN_CONFIG: join(first.folder, 'postern.yaml'),
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
    };
    const restored = await runCli(['restore', file], { env, cwd: folder });
    expect(restored).toMatchObject({ exitCode: 0, stderr: '' });
    const second = await startPostern({ folder, config: configTo(sink.port) });
    onTestFinished(() => second.cleanUp());
    const wanted = Number(/Restored (\d+) messages/.exec(restored.stdout)?.[1]);
    expect(wanted).toBeGreaterThanOrEqual(certain);
    await sink.received(wanted);
    expect(await second.end('SIGTERM')).toBe(0);
    const subjects = sink.messages.map(({ raw }) => /^Subject: (.*)\r$/m.exec(raw.toString('latin1'))?.[1] ?? '');
    expect(subjects.toSorted()).toEqual(accepted.slice(0, wanted).toSorted());
    expect(sink.messages.filter(({ raw }) => raw.length > 262_144).length).toBe(Math.ceil(wanted / 8));
  },
);

test('a backup that is killed leaves no file of that name', { timeout }, async () => {
  const folder = scratchFolder();
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db') });
  for (let at = 0; at < 40; at += 1) {
    await spool.add(spoolEntry({ body: Buffer.alloc(4_000_000, 'x') }), someTime);
  }
  await spool.close();
  const target = scratchFolder();
  const file = join(target, 'backup.db');
  const env = { PATH: process.env['PATH'], POSTERN_DATA_DIR: folder, POSTERN_CERTS_DIR: join(folder, 'certs') };
  const command = [join(projectRoot, 'src/main.ts'), 'backup', file];
  const child = spawn(process.execPath, command, { cwd: projectRoot, env, stdio: 'ignore' });
  const ended = new Promise<NodeJS.Signals | null>((resolve) => child.once('close', (_, signal) => resolve(signal)));
  while (readdirSync(target).length === 0 && child.exitCode === null) await new Promise((wait) => setTimeout(wait, 2));
  child.kill('SIGKILL');
  expect(await ended).toBe('SIGKILL');
  expect(existsSync(file)).toBe(false);
  for (const name of readdirSync(target)) rmSync(join(target, name));

  const again = await runCli(['backup', file], { env });
  expect(again.exitCode).toBe(0);
  expect(readdirSync(target)).toEqual(['backup.db']);
});
