// Several processes for one server, as real processes on real sockets: they act as one, and nothing that was accepted is lost
// when one is killed.

import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import {
  type PosternOptions,
  type PosternProcess,
  projectRoot,
  startPostern,
  testToken,
} from '../support/postern-process.ts';
import { childrenOf, isRunning, readNumbers, readyStatus, sendOne, servingPids } from '../support/server-processes.ts';
import { RawClient } from '../support/smtp-peers.ts';
import { runProgram } from '../system/programs.ts';

// Each process of a server starts slowly on a busy machine.
vi.setConfig({ testTimeout: 240_000 });

let postern: PosternProcess | undefined;
afterEach(async () => {
  await postern?.cleanUp();
  postern = undefined;
});

interface Configuration {
  smtp: { listeners: object[]; limits?: object };
  http: object;
  accounts: Record<string, unknown>[];
  [key: string]: unknown;
}

async function start(edit: (config: Configuration) => void = () => undefined, options: PosternOptions = {}) {
  const config = deviceConfiguration({ routes: [captureRoute], processes: 2 }) as Configuration;
  config.accounts = config.accounts.map((account) => ({
    ...account,
    credentials: [{ name: 'devices', scopes: ['email:send'], tokenEnv: 'POSTERN_TOKEN' }],
  }));
  edit(config);
  postern = await startPostern({ config, startSeconds: 90, ...options });
  return { postern, config, port: postern.ports['devices'] ?? 0 };
}

async function send(one: PosternProcess): Promise<number> {
  const url = `http://127.0.0.1:${one.ports['http']}/client/v4/accounts/${'a1'.repeat(16)}/email/sending/send`;
  const headers = { authorization: `Bearer ${testToken}`, 'content-type': 'application/json', connection: 'close' };
  const body = JSON.stringify({ from: 'a@example.com', to: 'b@example.net', subject: 'x', text: 'x' });
  return (await fetch(url, { method: 'POST', headers, body })).status;
}

/** Asks for an error page of a zone. */
function askEdge(one: PosternProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = request({
      ...{ host: '127.0.0.1', port: one.ports['http'], path: '/cdn-cgi/error/1015', agent: false },
      headers: { host: 'www.example.com', accept: 'application/json' },
    });
    asked.once('error', reject);
    asked.once('response', (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => (text += part));
      answer.once('end', () => resolve(text));
    });
    asked.end();
  });
}

test('two processes answer as one: ports, mail, edge, readiness and the sum of their numbers', async () => {
  const zone = {
    id: 'b2'.repeat(16),
    name: 'example.com',
    account: 'dev',
    hostnames: ['www.example.com'],
    origin: 'http://127.0.0.1:9',
  };
  const { postern: one, port } = await start((config) => Object.assign(config, { zones: [zone] }));
  expect(one.log().filter(({ msg }) => msg === 'listening')).toHaveLength(1);
  expect(servingPids(one).size).toBe(2);
  expect(await readyStatus(one)).toBe(200);
  const sent = await Promise.all(Array.from({ length: 12 }, () => sendOne(port)));
  expect(sent.filter((reply) => reply.startsWith('250'))).toHaveLength(12);
  expect(await Promise.all(Array.from({ length: 6 }, () => send(one)))).toEqual(Array<number>(6).fill(200));
  for (const page of await Promise.all(Array.from({ length: 4 }, () => askEdge(one))))
    expect(JSON.parse(page)).toMatchObject({ error_code: 1015 });
  await one.until(() => one.captured().length === 18);
  // A message is in the Maildir a moment before its delivery is recorded.
  await vi.waitFor(async () => {
    const counted = await readNumbers(one);
    expect(counted.get('postern_deliveries_total{outcome="delivered",route="default"}')).toBe(18);
    expect(counted.get('postern_delivery_latency_seconds_count{route="default"}')).toBe(18);
  }, 10_000);
  const numbers = await readNumbers(one);
  expect(numbers.get('postern_messages_accepted_total')).toBe(18);
  expect(numbers.get('postern_spool_takes_mail')).toBe(1);
  expect(numbers.get('postern_processes{state="serving"}')).toBe(2);
  // Both took some: the kernel gives a connection to whoever is free.
  expect(
    new Set(
      one
        .log()
        .filter(({ msg }) => msg === 'accepted')
        .map(({ process }) => process),
    ),
  ).toEqual(new Set([1, 2]));
  expect(await one.end('SIGTERM')).toBe(0);
});

test('limits hold over all processes: connections of an address, messages a minute', async () => {
  const { postern: one, port } = await start((config) => {
    config.smtp.limits = { connectionsPerAddress: 5 };
    config.http = { listen: '127.0.0.1:0', limits: { connectionsPerAddress: 6 } };
    config.accounts = config.accounts.map((account) => ({ ...account, limits: { messagesPerMinute: 3 } }));
  });
  const sent = await Promise.all(Array.from({ length: 4 }, () => send(one)));
  const over = [];
  for (let index = 0; index < 4; index += 1) over.push(await sendOne(port));
  expect(sent.filter((status) => status === 200)).toHaveLength(3);
  expect(sent.filter((status) => status === 429)).toHaveLength(1);
  for (const reply of over) expect(reply).toMatch(/^451 4\.7\.0 E_RATE_LIMIT_EXCEEDED/);
  const clients = Array.from({ length: 20 }, () => RawClient.open(port));
  const greetings = await Promise.all(clients.map((client) => client.reply()));
  expect(greetings.filter((greeting) => greeting.startsWith('220'))).toHaveLength(5);
  expect(greetings.filter((greeting) => greeting.startsWith('421'))).toHaveLength(15);
  for (const client of clients) client.destroy();
  // Places come back.
  await vi.waitFor(async () => expect(await sendOne(port)).toMatch(/^451/), 10_000);
});

test('a killed process is started again, and what it had in hand is delivered by the others', async () => {
  const sink = await FaultSink.start();
  const route = { name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}`, tls: 'none', connections: 4 };
  try {
    const { postern: one, port } = await start((config) => {
      config['routes'] = [route];
    });
    const subjects = Array.from({ length: 30 }, (_, index) => `mark-${index}`);
    const replies = await Promise.all(subjects.map((subject) => sendOne(port, subject, 'slow@example.net')));
    expect(replies.filter((reply) => reply.startsWith('250'))).toHaveLength(30);
    const before = await readNumbers(one);
    const pids = servingPids(one);
    process.kill(pids.get(1) ?? 0, 'SIGKILL');
    await one.until(() => !isRunning(pids.get(1) ?? 0));
    expect(await readyStatus(one)).toBe(503);
    const arrived = (): number =>
      new Set(sink.messages.map(({ raw }) => /Subject: (\S+)/.exec(raw.toString())?.[1])).size;
    await one.until(() => arrived() === 30, 60);
    await one.until(() => servingPids(one).size === 2);
    expect(servingPids(one).get(1)).not.toBe(pids.get(1));
    expect(await readyStatus(one)).toBe(200);
    const after = await readNumbers(one);
    // A counter that fell would look like a restart of all.
    expect(after.get('postern_messages_accepted_total')).toBe(before.get('postern_messages_accepted_total'));
    expect(after.get('postern_process_restarts_total')).toBe(1);
    // The process of the spool is no exception, only that the others end with it.
    const ended = [...servingPids(one).values()];
    const [spool] = childrenOf(one.pid).filter((pid) => !ended.includes(pid));
    process.kill(spool ?? 0, 'SIGKILL');
    await one.until(
      () => servingPids(one).size === 2 && [...servingPids(one).values()].every((pid) => !ended.includes(pid)),
    );
    expect(await sendOne(port)).toMatch(/^250 /);
  } finally {
    await sink.close();
  }
});

test('a reload is taken by all processes or by none', async () => {
  const { postern: one, config, port } = await start();
  const file = join(one.folder, 'postern.yaml');
  const reload = () =>
    runProgram(process.execPath, [join(projectRoot, 'src/main.ts'), 'reload'], { cwd: one.folder, env: one.env });
  writeFileSync(file, JSON.stringify({ ...config, drainSeconds: -1 }));
  expect(await reload()).toMatchObject({ code: 78 });
  // Judged by each process: the socket of a listener cannot be bound.
  const taken = { ...(config.smtp.listeners[0] as object), name: 'more', listen: `127.0.0.1:${one.ports['http']}` };
  writeFileSync(
    file,
    JSON.stringify({ ...config, smtp: { ...config.smtp, listeners: [...config.smtp.listeners, taken] } }),
  );
  expect((await reload()).output).toMatch(/^Cannot listen on .* EADDRINUSE.*\nNothing has changed\.\n$/);
  config.accounts = config.accounts.map((account) => ({ ...account, limits: { messagesPerMinute: 1 } }));
  writeFileSync(file, JSON.stringify(config));
  expect(await reload()).toMatchObject({ code: 0, output: expect.stringContaining('reloaded') });
  const replies = [await sendOne(port), await sendOne(port), await sendOne(port), await sendOne(port)];
  expect(replies.filter((reply) => reply.startsWith('250'))).toHaveLength(1);
  writeFileSync(file, JSON.stringify({ ...config, processes: 3 }));
  expect((await reload()).output).toContain('restart to change processes');
  const numbers = await readNumbers(one);
  expect(numbers.get('postern_config_reloads_total{result="success"}')).toBe(1);
  // Without their supervisor the processes drain and end, and the process of the spool after them.
  const children = childrenOf(one.pid);
  expect(children).toHaveLength(3);
  await one.end('SIGKILL');
  await one.until(() => !children.some(isRunning));
});

test('a server whose processes cannot start ends, and says why', async () => {
  const { postern: one } = await start();
  const config = deviceConfiguration({ routes: [captureRoute], processes: 2 }) as Configuration;
  config.smtp.listeners = config.smtp.listeners.map((listener) => ({
    ...listener,
    listen: `127.0.0.1:${one.ports['http']}`,
  }));
  await expect(startPostern({ config, startSeconds: 90 })).rejects.toThrow(
    /ended with 78[^]*Cannot listen on 127\.0\.0\.1:\d+ for SMTP listener/,
  );
});
