// Staging safety (D98a) on the running program: a queue from before the rule, restart and reload, SMTP, REST and send_raw,
// and signatures of what leaves.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { type Reloadable, type ReloadedConfig, startReloadable, testToken } from '../support/reloadable.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { plainResponse, RawClient } from '../support/smtp-peers.ts';
import { soonTakenOver } from '../support/store.ts';

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const account = (config: ReloadedConfig) => config.accounts[0] as { redirectAll?: string; allowRecipients?: string[] };

async function start(edit: (config: ReloadedConfig) => void, folder?: string): Promise<Reloadable> {
  const editAll = (config: ReloadedConfig): void => edit(Object.assign(config, soonTakenOver));
  const one = await startReloadable(editAll, folder === undefined ? {} : { folder });
  closers.push(() => one.postern.cleanUp());
  return one;
}

async function sendSmtp({ postern }: Reloadable, from: string, to: readonly string[]): Promise<string> {
  const client = RawClient.openTls(postern.ports['submissions'] ?? 0);
  closers.push(() => client.destroy());
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask(`AUTH PLAIN ${plainResponse('api_token', testToken)}`)).toMatch(/^235 /);
  expect(await client.ask(`MAIL FROM:<${from}>`)).toMatch(/^250 /);
  for (const address of to) expect(await client.ask(`RCPT TO:<${address}>`)).toMatch(/^250 /);
  await client.ask('DATA');
  return await client.ask(
    `From: a@example.com\r\nTo: ${to[0]}\r\nX-Original-To: forged@real.test\r\nSubject: x\r\n\r\nx\r\n.`,
  );
}

async function sendRest({ postern }: Reloadable, path: string, body: object): Promise<unknown> {
  const url = `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/${path}`;
  const headers = { authorization: `Bearer ${testToken}`, 'content-type': 'application/json', prefer: 'wait=20' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  return ((await answer.json()) as { result: unknown }).result;
}

function header(raw: Buffer): string {
  return (
    raw
      .toString('latin1')
      .split('\r\n\r\n')[0]
      ?.replaceAll(/\r\n(?=[ \t])/g, '') ?? ''
  );
}

test('what was accepted before the rule, through every door, leaves to the address alone, signed as ever', async () => {
  const port = await freePort();
  const route = { name: 'out', type: 'smarthost', url: `smtp://127.0.0.1:${port}` };
  const before = await start((config) => (config.routes = [route]));
  const recipients = ['customer@real.test', 'second@real.test', 'blind@real.test'];
  expect(await sendSmtp(before, 'a@example.com', recipients)).toMatch(/^250 /);
  expect(await sendSmtp(before, '', ['bounced@real.test'])).toMatch(/^250 /);
  const { postern } = before;
  await postern.until(() => postern.log().filter(({ msg }) => msg === 'deferred').length >= 4);
  await postern.end('SIGKILL');

  const sink = await FaultSink.start({ port });
  closers.push(() => sink.close());
  const after = await start((config) => {
    config.routes = [route];
    account(config).redirectAll = 'staging@corp.example';
  }, postern.folder);
  const retried = await runCli(['queue', 'retry', '--all'], {
    env: postern.env,
    cwd: postern.folder,
  });
  expect(retried.exitCode).toBe(0);
  await after.postern.until(() => sink.messages.length >= 2);
  const rest = { from: 'a@example.com', to: 'rest@real.test', bcc: ['hidden@real.test'], subject: 'x', text: 'x' };
  expect(await sendRest(after, 'send', rest)).toMatchObject({ delivered: ['rest@real.test', 'hidden@real.test'] });
  const mime = 'From: a@example.com\r\nTo: raw@real.test\r\nSubject: x\r\n\r\nx\r\n';
  expect(
    await sendRest(after, 'send_raw', { from: 'a@example.com', recipients: ['raw@real.test'], mime_message: mime }),
  ).toMatchObject({
    delivered: ['raw@real.test'],
  });

  expect(sink.messages.map((message) => message.recipients)).toEqual(
    Array.from({ length: 4 }, () => ['staging@corp.example']),
  );
  const headers = sink.messages.map(({ raw }) => header(raw));
  const originals = headers.map((text) => /^X-Original-To: ([^\r]*)/.exec(text)?.[1]);
  expect(new Set(originals)).toEqual(
    new Set([recipients.join(', '), 'bounced@real.test', 'rest@real.test, hidden@real.test', 'raw@real.test']),
  );
  const records = dkimRecords(postern.certsDir);
  for (const { raw } of sink.messages) {
    const verdicts = await verifySignatures(raw, records);
    expect(verdicts.length).toBeGreaterThanOrEqual(2);
    expect(new Set(verdicts.map(({ result }) => result))).toEqual(new Set(['pass']));
  }
  const delivered = await after.postern.until(() => {
    const lines = after.postern.log().filter(({ msg }) => msg === 'delivered');
    return lines.length >= 7 ? lines : undefined;
  });
  expect(new Set(delivered.map((line) => line['redirectedTo']))).toEqual(new Set(['staging@corp.example']));
  expect(delivered.map((line) => line['recipient'])).toEqual(expect.arrayContaining(recipients));
});

test('a rule is put in force by a reload, for what is queued too, and captured mail is found by the command', async () => {
  const sink = await FaultSink.start();
  closers.push(() => sink.close());
  const running = await start((config) => {
    // Nobody is there: what is sent waits.
    config.routes = [{ name: 'out', type: 'smarthost', url: 'smtp://127.0.0.1:1' }];
  });
  const { postern } = running;
  await sendSmtp(running, 'a@example.com', ['customer@real.test', 'qa@corp.example']);
  await postern.until(() => postern.log().filter(({ msg }) => msg === 'deferred').length >= 2);
  running.change((config) => {
    account(config).allowRecipients = ['@corp.example'];
    config.routes = [{ name: 'out', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}` }];
  });
  const { code, output } = await running.reload();
  expect([code, output]).toEqual([0, expect.stringContaining('staging safety')]);
  const { env } = postern;
  await runHere(['queue', 'retry', '--all'], { env, cwd: postern.folder });
  await postern.until(() => postern.log().filter(({ msg }) => msg === 'delivered').length >= 2);
  expect(sink.messages.map(({ recipients }) => recipients)).toEqual([['qa@corp.example']]);
  const inbox = join(postern.dataDir, 'capture/new');
  const files = readdirSync(inbox);
  expect(files).toHaveLength(1);
  expect(header(readFileSync(join(inbox, files[0] ?? '')))).toContain('Return-Path:');
  const listed = await runCli(['capture', 'list'], { env, cwd: postern.folder });
  expect(listed.stdout).toContain(files[0]?.replace('.eml', '') ?? 'none');
  const checked = await runHere(['config', 'check'], { env, cwd: postern.folder });
  expect(checked.stdout).toMatch(/staging +account "dev": only whom 1 pattern of allowRecipients name/);
});
