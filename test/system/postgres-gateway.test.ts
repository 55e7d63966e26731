// The gateway on PostgreSQL, as real processes: what was answered 250 arrives, whatever becomes of server and gateways.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { FaultSink } from '../support/fault-sink.ts';
import { arrivals, ask, relaySettings, Senders } from '../support/gateway-load.ts';
import { type PosternOptions, type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { runCli } from '../support/run-cli.ts';
import { readNumbers, servingPids } from '../support/server-processes.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

/** Does something while the server is stopped. Whatever comes of it, the server runs again afterwards, for the next test. */
async function whileStopped(mode: 'fast' | 'immediate', work: () => Promise<void>): Promise<void> {
  await server.stop(mode);
  try {
    await work();
  } finally {
    await server.start();
  }
}

async function startSink(): Promise<FaultSink> {
  const sink = await FaultSink.start();
  onTestFinished(() => sink.close());
  return sink;
}

/** Starts a gateway that ends with the test. */
async function start(options: PosternOptions): Promise<PosternProcess> {
  const postern = await startPostern(options);
  onTestFinished(async () => {
    await postern.end('SIGKILL');
    rmSync(postern.folder, { recursive: true, force: true });
  });
  return postern;
}

async function sendByRest(postern: PosternProcess, to: string, token = testToken): Promise<Response> {
  return await fetch(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ from: 'a@example.com', to, subject: 'by REST', text: 'Hello.' }),
  });
}

test('takes mail by SMTP and REST, relays it, and shows the queue to commands', { timeout: 90_000 }, async () => {
  const sink = await startSink();
  const url = await server.createSchema();
  const postern = await start(relaySettings(sink, url));
  const senders = new Senders('first');
  const sending = senders.run(() => postern.ports['devices']);
  await postern.until(() => senders.marks((code) => code === 250).length > 20);
  senders.stop();
  await sending;
  expect((await sendByRest(postern, 'rest@one.test')).status).toBe(200);
  const wanted = [...senders.marks((code) => code === 250), 'rest'];
  await postern.until(() => wanted.every((mark) => arrivals(sink).get(mark) === 1));

  const env = { ...postern.env } as Record<string, string>;
  const cli = async (...args: string[]) => await runCli(args, { env, cwd: postern.folder });
  expect((await cli('queue', 'summary')).stdout).toContain('0 messages queued');
  // The running server is asked by a socket in the data folder, which has no other use here.
  expect((await cli('queue', 'destinations')).stdout).toContain('sink');
  expect(await cli('backup', join(postern.folder, 'b'))).toMatchObject({ exitCode: 64 });
  expect((await cli('queue', 'compact')).stderr).toContain('autovacuum');
  expect((await cli('token', 'create', '--account', 'dev', '--credential', 'devices')).exitCode).toBe(0);
  expect((await cli('token', 'list', '--account', 'dev')).stdout).toContain('devices');
  const shown = await cli('config', 'show');
  expect(shown.stdout).toContain('url: "[hidden]"');
  expect(await postern.end('SIGTERM')).toBe(0);
  expect(await ask(url, 'SELECT id FROM spool_processes')).toEqual([]);
});

test('a restart of the server under load is answered 451 and 503, and loses nothing', {
  timeout: 120_000,
}, async () => {
  const sink = await startSink();
  const url = await server.createSchema();
  const postern = await start(relaySettings(sink, url));
  const senders = Array.from({ length: 4 }, (_, index) => new Senders(`s${index}x`));
  const sending = senders.map((one) => one.run(() => postern.ports['devices']));
  const heard = (code: number): number =>
    senders.reduce((sum, one) => sum + one.marks((got) => got === code).length, 0);
  const ready = async (): Promise<number> => (await fetch(`http://127.0.0.1:${postern.ports['http']}/readyz`)).status;
  for (const mode of ['fast', 'immediate'] as const) {
    const [before, refused] = [heard(250), heard(451)];
    await postern.until(() => heard(250) > before + 25);
    await whileStopped(mode, async () => {
      await postern.until(() => heard(451) > refused);
      expect(await ready()).toBe(503);
      const answer = await sendByRest(postern, 'never@one.test');
      expect([answer.status, answer.headers.get('retry-after') !== null]).toEqual([503, true]);
    });
    const between = heard(250);
    await postern.until(() => heard(250) > between + 20);
    expect(await ready()).toBe(200);
  }
  for (const one of senders) one.stop();
  await Promise.all(sending);
  const accepted = senders.flatMap((one) => one.marks((code) => code === 250));
  await postern.until(() => accepted.every((mark) => arrivals(sink).has(mark)), 40);
  const seen = arrivals(sink);
  const refused = new Set(senders.flatMap((one) => one.marks((code) => code >= 400)));
  expect([...seen.keys()].filter((mark) => refused.has(mark))).toEqual([]);
  const twice = [...seen.values()].filter((count) => count > 1).length;
  console.log(`${accepted.length} accepted, ${refused.size} refused, ${twice} arrived more than once`);
  expect(await postern.end('SIGTERM')).toBe(0);
  const left = 'SELECT message, attempts, reply_code, reply_text, claimed_by FROM spool_recipients WHERE state = 0';
  expect(await ask(url, left)).toEqual([]);
});

test('what one gateway is told, the other knows: a token, a suppression, a hold and its end', {
  timeout: 90_000,
}, async () => {
  const sink = await startSink();
  const url = await server.createSchema();
  const [one, two] = await Promise.all([start(relaySettings(sink, url)), start(relaySettings(sink, url))]);
  const env = { ...one.env } as Record<string, string>;
  const cli = async (...args: string[]) => await runCli(args, { env, cwd: one.folder });
  for (const postern of [one, two]) expect((await sendByRest(postern, 'first@one.test')).status).toBe(200);
  await one.until(() => arrivals(sink).get('first') === 2);
  expect(await cli('suppression', 'add', '--account', 'dev', 'never@one.test')).toMatchObject({ exitCode: 0 });
  await expect.poll(async () => (await sendByRest(two, 'never@one.test')).status, { timeout: 10_000 }).toBe(400);
  expect((await cli('queue', 'hold', '--account', 'dev')).exitCode).toBe(0);
  // What comes while the hold is not known yet may still leave; soon nothing does.
  await new Promise((wait) => setTimeout(wait, 1500));
  expect((await sendByRest(two, 'held@one.test')).status).toBe(200);
  await expect
    .poll(() => ask(url, 'SELECT count(*)::integer AS left FROM spool_recipients WHERE claimed_by IS NULL'))
    .toEqual([{ left: 1 }]);
  expect(arrivals(sink).has('held')).toBe(false);
  expect((await cli('queue', 'release', '--account', 'dev')).exitCode).toBe(0);
  await one.until(() => arrivals(sink).get('held') === 1);
  const made = await cli('token', 'create', '--account', 'dev', '--credential', 'devices');
  const token = /^pt_\S+$/m.exec(made.stdout)?.[0];
  expect((await sendByRest(two, 'first@one.test', token)).status).toBe(200);
  const [row] = await ask(url, "SELECT id FROM tokens WHERE credential = 'devices' ORDER BY created_at DESC LIMIT 1");
  expect(await cli('token', 'revoke', String(row?.['id']))).toMatchObject({ exitCode: 0 });
  for (const postern of [one, two]) expect((await sendByRest(postern, 'first@one.test', token)).status).toBe(401);
});

test('two processes of one gateway share the work, and when one is killed under load all that was accepted arrives', {
  timeout: 120_000,
}, async () => {
  const sink = await startSink();
  const url = await server.createSchema();
  const settings = relaySettings(sink, url);
  const postern = await start({ ...settings, config: { ...settings.config, processes: 2 }, startSeconds: 60 });
  const senders = Array.from({ length: 4 }, (_, index) => new Senders(`p${index}x`));
  const sending = senders.map((one) => one.run(() => postern.ports['devices']));
  const accepted = (): string[] => senders.flatMap((one) => [...one.marks((code) => code === 250)]);
  await postern.until(() => accepted().length > 40);
  const killed = servingPids(postern).get(1) ?? 0;
  process.kill(killed, 'SIGKILL');
  const before = accepted().length;
  await postern.until(
    () => accepted().length > before + 40 && ![undefined, killed].includes(servingPids(postern).get(1)),
    60,
  );
  for (const one of senders) one.stop();
  await Promise.all(sending);
  expect((await sendByRest(postern, 'rest@one.test')).status).toBe(200);
  const wanted = [...accepted(), 'rest'];
  await postern.until(() => wanted.every((mark) => arrivals(sink).has(mark)), 60);
  const numbers = await readNumbers(postern);
  expect(numbers.get('postern_processes{state="serving"}')).toBe(2);
  expect(numbers.get('postern_process_restarts_total')).toBe(1);
  // The row of the one that was killed goes when the others take it for dead, which nothing of the above has to wait for.
  await expect.poll(() => ask(url, 'SELECT id FROM spool_processes'), { timeout: 30_000 }).toHaveLength(2);
  expect(await postern.end('SIGTERM')).toBe(0);
  expect(await ask(url, 'SELECT id FROM spool_processes')).toEqual([]);
});
