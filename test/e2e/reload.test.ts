// The configuration is read again while the program runs (D94): accounts, tokens, routes, zones and listeners change without
// a restart, connections stay, and what cannot be taken whole changes nothing.

import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { FaultSink } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { holdLock } from '../support/lock-holder.ts';
import {
  type Reloadable,
  type ReloadedConfig,
  sha256Of,
  shippedConfig,
  startReloadable,
  testToken,
} from '../support/reloadable.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { plainResponse, RawClient } from '../support/smtp-peers.ts';
import { isOnPostgres } from '../support/store.ts';

// A start is slow on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const running: Reloadable[] = [];
afterEach(async () => {
  for (const one of running.splice(0).toReversed()) await one.postern.cleanUp();
});

async function start(edit?: (config: ReloadedConfig) => void, options?: { folder: string }): Promise<Reloadable> {
  const one = await startReloadable(edit, options);
  running.push(one);
  return one;
}

let kept: Promise<Reloadable> | undefined;
afterAll(async () => (await kept)?.postern.cleanUp());

/** The gateway of the tests that need none of their own, with the shipped configuration, whatever the one before has left. */
async function shared(): Promise<Reloadable> {
  kept ??= startReloadable();
  const one = await kept;
  one.change((config) => {
    for (const key of Object.keys(config)) delete config[key];
    Object.assign(config, shippedConfig());
  });
  expect((await one.reload()).code).toBe(0);
  return one;
}

/** An SMTP session with TLS and AUTH. */
async function login({ postern }: Reloadable, token = testToken): Promise<RawClient> {
  const client = RawClient.openTls(postern.ports['submissions'] ?? 0);
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask(`AUTH PLAIN ${plainResponse('api_token', token)}`)).toMatch(/^235 /);
  return client;
}

async function sendBy(client: RawClient, from: string, to: string): Promise<string> {
  const mail = await client.ask(`MAIL FROM:<${from}>`);
  if (!mail.startsWith('250')) return mail;
  const rcpt = await client.ask(`RCPT TO:<${to}>`);
  if (!rcpt.startsWith('250')) return rcpt;
  const data = await client.ask('DATA');
  if (!data.startsWith('354')) return data;
  return await client.ask(`From: ${from}\r\nSubject: x\r\n\r\nx\r\n.`);
}

/** Asks for a path of a host; one connection for all of them would be the client's choice. */
async function statusOf({ postern }: Reloadable, host: string, path = '/'): Promise<number> {
  const { request } = await import('node:http');
  return await new Promise((resolve, reject) => {
    const asked = request({ port: postern.ports['http'], host: '127.0.0.1', path, headers: { host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asked.on('error', reject).end();
  });
}

const secondToken = 'second-token-0123456789abcdefghijklmnopqrst';

function addAccount(config: ReloadedConfig): void {
  config.accounts.push({
    name: 'second',
    id: '5'.repeat(32),
    sendingDomains: [{ name: 'second.example' }],
    credentials: [{ name: 'default', scopes: ['email:send'], tokenSha256: sha256Of(secondToken) }],
  });
}

test('an account is added, its token is removed, and a session that was open all the while goes on', async () => {
  const one = await shared();
  const witness = await login(one);
  expect(await sendBy(witness, 'a@example.com', 'b@partner.test')).toMatch(/^250 /);

  one.change(addAccount);
  expect(await one.reload()).toMatchObject({
    code: 0,
    output: expect.stringMatching(/^reloaded: accounts, tokens, DKIM keys\n$/),
  });
  const second = await login(one, secondToken);
  expect(await sendBy(second, 'a@second.example', 'b@partner.test')).toMatch(/^250 /);

  one.change((config) => delete config.accounts.at(-1)?.credentials[0]?.['tokenSha256']);
  expect((await one.reload()).code).toBe(0);
  expect(await sendBy(second, 'a@second.example', 'b@partner.test')).toMatch(/^530 /);
  expect(await sendBy(witness, 'a@example.com', 'b@partner.test')).toMatch(/^250 /);
  for (const client of [witness, second]) client.destroy();
});

test('limits change for sessions that are open', async () => {
  const one = await shared();
  const client = await login(one);
  one.change((config) => {
    config.smtp.limits['messageBytes'] = 100_000;
    const [dev] = config.accounts;
    if (dev) dev.limits = { messagesPerMinute: 1 };
  });
  expect((await one.reload()).code).toBe(0);
  expect(await client.ask('MAIL FROM:<a@example.com> SIZE=100001')).toMatch(/^552 /);
  expect(await sendBy(client, 'a@example.com', 'b@partner.test')).toMatch(/^250 /);
  expect(await sendBy(client, 'a@example.com', 'b@partner.test')).toMatch(/^451 /);
  client.destroy();
});

test('a route changes under load: no message is lost, none is sent twice', async () => {
  // The first next hop would take a quarter of a minute for what it is given before the change, so that some of it is left.
  const before = await FaultSink.start({ slowMilliseconds: 500 });
  const after = await FaultSink.start();
  const routeTo = (sink: FaultSink) => (config: ReloadedConfig) => {
    const url = `smtp://127.0.0.1:${sink.port}`;
    config.routes = [{ name: 'relay', type: 'smarthost', url, tls: 'none', connections: 4 }];
  };
  const one = await start(routeTo(before));
  const client = await login(one);
  let sent = 0;
  const send = async (count: number, to: string): Promise<void> => {
    for (let number = 0; number < count; number += 1) {
      expect(await sendBy(client, 'a@example.com', to)).toMatch(/^250 /);
      sent += 1;
    }
  };
  await send(60, 'slow@partner.test');
  one.change(routeTo(after));
  const [reloaded] = await Promise.all([one.reload(), send(60, 'quick@partner.test')]);
  expect(reloaded).toMatchObject({ code: 0, output: 'reloaded: routes\n' });
  await send(20, 'quick@partner.test');
  await one.postern.until(() => before.messages.length + after.messages.length >= sent, 60);
  const ids = [...before.messages, ...after.messages].map(
    ({ raw }) => /^Message-ID: (.*)$/im.exec(raw.toString())?.[1],
  );
  expect(new Set(ids).size).toBe(sent);
  expect(ids.length).toBe(sent);
  expect(after.messages.length).toBeGreaterThan(20);
  const inHand = async () => (await one.metrics()).get('postern_delivery_in_hand');
  while ((await inHand()) !== 0) await new Promise((wait) => setTimeout(wait, 50));
  const delivered = (): number => one.postern.log().filter(({ msg }) => msg === 'delivered').length;
  await one.postern.until(() => delivered() >= sent);
  expect(delivered()).toBe(sent);
  client.destroy();
  await before.close();
  await after.close();
});

test('a zone is added and taken away, while a connection to the API stays', async () => {
  const one = await shared();
  const reloads = 'postern_config_reloads_total{result="success"}';
  const before = (await one.metrics()).get(reloads) ?? 0;
  expect(await statusOf(one, 'new.example')).not.toBe(403);
  one.change((config) => {
    config.zones.push({ id: '7'.repeat(32), name: 'new.example', account: 'dev', block: ['127.0.0.0/8'] });
  });
  expect(await one.reload()).toMatchObject({ code: 0, output: 'reloaded: zones, certificate of new.example\n' });
  expect(await statusOf(one, 'new.example')).toBe(403);
  const answer = await fetch(
    `http://127.0.0.1:${one.postern.ports['http']}/client/v4/zones/${'7'.repeat(32)}/proxy/protocols`,
    { headers: { authorization: `Bearer ${testToken}` } },
  );
  expect(answer.status).toBe(200);
  one.change((config) => config.zones.pop());
  expect((await one.reload()).code).toBe(0);
  expect(await statusOf(one, 'new.example')).not.toBe(403);
  const metrics = await one.metrics();
  expect(metrics.get('postern_edge_requests_open')).toBe(0);
  expect(metrics.get('postern_edge_origin_requests')).toBe(0);
  expect(metrics.get(reloads)).toBe(before + 2);
});

test('a listener comes and goes; those that stay keep their connections, those of the one that goes end with 421', async () => {
  const one = await shared();
  const witness = await login(one);
  const port = await freePort();
  one.change((config) => {
    config.smtp.listeners.push({
      name: 'printers',
      role: 'submission',
      listen: `127.0.0.1:${port}`,
      tls: 'none',
      credential: 'dev/devices',
      allowFrom: ['127.0.0.1/32'],
    });
  });
  expect(await one.reload()).toMatchObject({ code: 0, output: 'reloaded: SMTP listeners\n' });
  const printer = RawClient.open(port);
  await printer.reply();
  await printer.ask('EHLO printer.example');
  expect(await sendBy(printer, 'a@example.com', 'b@partner.test')).toMatch(/^250 /);
  one.change((config) => config.smtp.listeners.pop());
  expect((await one.reload()).code).toBe(0);
  expect(await printer.untilEnd()).toMatch(/^421 4\.3\.2 /);
  const refused = RawClient.open(port);
  expect(await refused.untilEnd()).toBe('');
  expect(await sendBy(witness, 'a@example.com', 'b@partner.test')).toMatch(/^250 /);
  witness.destroy();
});

test('a port that is taken, and what only a restart can change, keep everything as it is', async () => {
  const one = await shared();
  const taken = await FaultSink.start();
  one.change((config) => {
    addAccount(config);
    config.smtp.listeners.push({
      name: 'taken',
      role: 'submission',
      listen: `127.0.0.1:${taken.port}`,
      tls: 'starttls',
    });
  });
  const refused = await one.reload();
  expect(refused).toMatchObject({ code: 78, output: expect.stringContaining('EADDRINUSE') });
  const client = RawClient.openTls(one.postern.ports['submissions'] ?? 0);
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask(`AUTH PLAIN ${plainResponse('api_token', secondToken)}`)).toMatch(/^535 /);
  one.change((config) => {
    config.smtp.listeners.pop();
    config['spool'] = { minFreeBytes: 1 };
    config.http['listen'] = '127.0.0.1:1';
  });
  const restart = await one.reload();
  expect(restart.code).toBe(78);
  expect(restart.output).toContain('spool has changed; restart to change spool');
  client.destroy();
  await taken.close();
});

test('a faulty file under load changes nothing and says why: in the log, in the exit status and in /metrics', async () => {
  const one = await shared();
  const reloadsFailed = () => one.postern.log().filter(({ msg }) => msg === 'reload failed');
  const counted = async () => (await one.metrics()).get('postern_config_reloads_total{result="failure"}') ?? 0;
  const [before, countBefore] = [reloadsFailed(), await counted()];
  const client = await login(one);
  const stopping = new AbortController();
  let sent = 0;
  const load = (async () => {
    while (!stopping.signal.aborted) {
      expect(await sendBy(client, 'a@example.com', 'b@partner.test')).toMatch(/^250 /);
      sent += 1;
    }
  })();
  one.change((config) => {
    addAccount(config);
    config.smtp.limits['recipients'] = 'many';
  });
  const refused = await one.reload();
  expect(refused.code).toBe(78);
  expect(refused.output).toMatch(/postern\.yaml:1:\d+: smtp\.limits\.recipients: /);
  expect(refused.output).toContain('Nothing has changed');
  const failed = await one.postern.until(() => reloadsFailed()[before.length]);
  expect(failed).toMatchObject({ level: 'error', faults: [expect.stringContaining('smtp.limits.recipients')] });
  const metrics = await one.metrics();
  expect(await counted()).toBe(countBefore + 1);
  expect(metrics.get('postern_config_last_reload_successful')).toBe(0);
  const loadedAt = metrics.get('postern_config_loaded_timestamp_seconds') ?? 0;
  one.change((config) => delete config.smtp.limits['recipients']);
  expect((await one.reload()).code).toBe(0);
  const cured = await one.metrics();
  expect(cured.get('postern_config_last_reload_successful')).toBe(1);
  expect(cured.get('postern_config_loaded_timestamp_seconds')).toBeGreaterThan(loadedAt);
  stopping.abort();
  await load;
  expect(sent).toBeGreaterThan(0);
  client.destroy();
});

test('SIGHUP reloads; two hundred of them in a second do no harm', async () => {
  const one = await shared();
  const before = await one.metrics();
  const client = await login(one);
  one.change(addAccount);
  for (let count = 0; count < 200; count += 1) {
    process.kill(one.postern.pid, 'SIGHUP');
    if (count % 20 === 0) await new Promise((wait) => setTimeout(wait, 50));
  }
  await one.postern.until(() =>
    one.postern.log().find(({ msg, why }) => msg === 'configuration reloaded' && why === 'SIGHUP'),
  );
  // Whoever asks shares the reload that is next, so this one is behind all of them.
  expect((await one.reload()).code).toBe(0);
  expect(await sendBy(client, 'a@example.com', 'b@partner.test')).toMatch(/^250 /);
  (await login(one, secondToken)).destroy();
  const metrics = await one.metrics();
  const more = (result: string): number => {
    const name = `postern_config_reloads_total{result="${result}"}`;
    return (metrics.get(name) ?? 0) - (before.get(name) ?? 0);
  };
  expect([more('failure'), more('success') < 30]).toEqual([0, true]);
  client.destroy();
});

test('a file that is being written, or is empty, is never taken', async () => {
  const one = await shared();
  one.change(addAccount);
  expect((await one.reload()).code).toBe(0);
  const whole = JSON.stringify(one.config);
  one.write('');
  expect(await one.reload()).toMatchObject({ code: 78, output: expect.stringContaining('is empty') });
  const stopping = new AbortController();
  const writtenAt: number[] = [];
  const writer = (async () => {
    for (let count = 0; !stopping.signal.aborted; count += 1) {
      one.write(count % 2 === 0 ? 'log: { level: info }\n' : whole);
      writtenAt.push(performance.now());
      await new Promise((wait) => setTimeout(wait, 15));
    }
  })();
  // On a busy machine this writer too may stand still for so long that the file is taken for whole, which it may be: such turns
  // do not count.
  for (let count = 0; count < 3; ) {
    writtenAt.splice(0);
    const began = performance.now();
    const { code, output } = await one.reload();
    const times = [began, ...writtenAt, performance.now()];
    if (times.some((time, index) => time - (times[index - 1] ?? time) > 80)) continue;
    expect([code, output]).toEqual([78, expect.stringContaining('is being written')]);
    count += 1;
  }
  stopping.abort();
  await writer;
  (await login(one, secondToken)).destroy();
  one.write(whole);
  expect(await one.reload()).toMatchObject({ code: 0, output: 'reloaded: nothing has changed\n' });
});

test('a changed Error Page and a changed HMAC key are told, and a pipe in the place of the file changes nothing', async () => {
  const one = await start();
  const page = join(one.postern.folder, 'page.html');
  writeFileSync(page, '<p>one</p>');
  one.change((config) => {
    const [zone] = config.zones;
    if (zone) zone['customErrors'] = { errorPage: { file: page } };
  });
  expect((await one.reload()).output).toBe('reloaded: zones, Error Pages\n');
  expect((await one.reload()).output).toBe('reloaded: nothing has changed\n');
  writeFileSync(page, '<p>two</p>');
  expect((await one.reload()).output).toBe('reloaded: Error Pages\n');
  writeFileSync(join(one.postern.certsDir, 'hmac.key'), 'x'.repeat(40));
  expect((await one.reload()).output).toBe('reloaded: HMAC key\n');
  const file = join(one.postern.folder, 'postern.yaml');
  unlinkSync(file);
  execFileSync('mkfifo', [file]);
  process.kill(one.postern.pid, 'SIGHUP');
  await one.postern.until(() => one.postern.output().includes('cannot be read: it is a pipe'));
  expect(await statusOf(one, 'example.com')).toBeGreaterThan(0);
});

test('a reload during the drain is refused, and the end comes with 0', async () => {
  const one = await start((config) => {
    // The drain ends when the message is taken.
    config['drainSeconds'] = 60;
  });
  const client = await login(one);
  await client.ask('MAIL FROM:<a@example.com>');
  await client.ask('RCPT TO:<b@partner.test>');
  await client.ask('DATA');
  one.change(addAccount);
  const ended = one.postern.end('SIGTERM');
  await one.postern.until(() => one.postern.log().find(({ msg }) => msg === 'draining'));
  process.kill(one.postern.pid, 'SIGHUP');
  const refused = await one.reload();
  expect(refused).toMatchObject({ code: 1, output: expect.stringContaining('no server is running on') });
  expect(await client.ask('From: a@example.com\r\n\r\nx\r\n.')).toMatch(/^250 /);
  expect(await ended).toBe(0);
  expect(one.postern.log().some(({ msg }) => msg === 'configuration reloaded')).toBe(false);
  expect(existsSync(join(one.postern.dataDir, 'postern.sock'))).toBe(false);
});

// The lock is that of SQLite's file. In PostgreSQL no program holds the whole database.
test.skipIf(isOnPostgres)(
  'while another program holds the lock on the database a reload is taken whole or refused whole',
  async () => {
    const one = await start();
    const client = await login(one);
    const holder = await holdLock(join(one.postern.dataDir, 'postern.db'));
    try {
      one.change(addAccount);
      expect((await one.reload()).code).toBe(0);
      one.change((config) => {
        const [zone] = config.zones;
        const application = { id: 'f'.repeat(32), protocol: 'tcp/22', dns: { type: 'CNAME', name: 'ssh.example.com' } };
        if (zone) zone['applications'] = [{ ...application, origin_direct: ['tcp://192.0.2.1:22'] }];
        config.zones.push({ id: '7'.repeat(32), name: 'new.example', account: 'dev', block: ['127.0.0.0/8'] });
      });
      const refused = await one.reload();
      expect(refused).toMatchObject({ code: 78, output: expect.stringContaining('lock') });
      expect(await statusOf(one, 'new.example')).not.toBe(403);
      expect(holder.isHolding()).toBe(true);
    } finally {
      await holder.release();
    }
    expect((await one.reload()).code).toBe(0);
    expect(await statusOf(one, 'new.example')).toBe(403);
    client.destroy();
  },
);

test('the socket is the owner’s alone, one of a killed process is replaced, and without a server the command says so', async () => {
  const one = await start();
  const socket = join(one.postern.dataDir, 'postern.sock');
  expect(statSync(socket).mode & 0o777).toBe(0o600);
  await one.postern.end('SIGKILL');
  expect(readdirSync(one.postern.dataDir)).toContain('postern.sock');
  expect(await one.reload()).toMatchObject({ code: 1, output: `no server is running on ${one.postern.dataDir}\n` });
  const again = await start(undefined, { folder: one.postern.folder });
  expect(await again.reload()).toMatchObject({ code: 0, output: 'reloaded: nothing has changed\n' });
  // By processes of their own, which end by themselves.
  const { env, folder: cwd } = again.postern;
  const all = await Promise.all(Array.from({ length: 4 }, () => runCli(['reload'], { env, cwd })));
  expect(all.map(({ exitCode, stderr }) => [exitCode, stderr])).toEqual(all.map(() => [0, '']));
  // The server of the default folder is not asked in place of one whose file is misspelt.
  expect(existsSync(join(cwd, 'data/postern.sock'))).toBe(true);
  for (const [args, env] of [
    [['--config', 'psotern.yaml'], {}],
    [[], { POSTERN_CONFIG: 'psotern.yaml' }],
  ] as const) {
    const { exitCode, stderr } = await runCli(['reload', ...args], { env, cwd });
    expect([exitCode, stderr]).toEqual([
      78,
      expect.stringMatching(/^psotern\.yaml: cannot be read: there is no such file/),
    ]);
  }
});

test('a file that the server does not read is not taken for the one that it reads', async () => {
  const one = await shared();
  const { env, folder: cwd } = one.postern;
  const [own, other] = [join(cwd, 'postern.yaml'), join(cwd, 'other.yaml')];
  const reload = (file: string): Promise<unknown> => runHere(['reload', '--config', file], { env, cwd });
  copyFileSync(own, other);
  const told = `the server on ${one.postern.dataDir} reads ${own}, not ${other}: name that file, or none. Nothing has changed.\n`;
  expect(await reload('other.yaml')).toMatchObject({ exitCode: 78, stdout: '', stderr: told });
  // Whichever name the file has.
  rmSync(other);
  symlinkSync('postern.yaml', other);
  expect(await reload('other.yaml')).toMatchObject({ exitCode: 0, stdout: 'reloaded: nothing has changed\n' });
  rmSync(other);
});

test('a file that names no data folder is named where no server runs on the default', async () => {
  const cwd = scratchFolder();
  writeFileSync(join(cwd, 'empty.yaml'), '');
  const { exitCode, stderr } = await runCli(['reload', '--config', 'empty.yaml'], { env: {}, cwd });
  const told = `no server is running on ${join(cwd, 'data')}, the default, since empty.yaml names no dataDir\n`;
  expect([exitCode, stderr]).toEqual([1, told]);
});
