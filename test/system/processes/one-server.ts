// Several processes for one server, as real processes on real sockets: they act as one, and nothing that was accepted is lost
// when one is killed. One server serves all tests in turn, because each process of it starts slowly on a busy machine.

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { captureRoute, deviceConfiguration } from '../../support/device-config.ts';
import { FaultSink } from '../../support/fault-sink.ts';
import { type PosternProcess, projectRoot, startPostern, testToken } from '../../support/postern-process.ts';
import {
  childrenOf,
  isRunning,
  readNumbers,
  readyStatus,
  sendOne,
  servingPids,
} from '../../support/server-processes.ts';
import { RawClient } from '../../support/smtp-peers.ts';
import { soonTakenOver } from '../../support/store.ts';
import { runProgram } from '../programs.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

interface Configuration {
  smtp: { listeners: object[] };
  accounts: Record<string, unknown>[];
  [key: string]: unknown;
}

let sink: FaultSink;
let config: Configuration;
let one: PosternProcess;
let port: number;
beforeAll(async () => {
  sink = await FaultSink.start();
  config = configuration(sink.port);
  one = await startPostern({ config, startSeconds: 90 });
  port = one.ports['devices'] ?? 0;
});
afterAll(async () => {
  await one?.cleanUp();
  await sink?.close();
});

/** Two processes, two accounts with a listener each, the second with three messages a minute, and a zone. */
function configuration(sinkPort: number): Configuration {
  const zone = {
    id: 'b2'.repeat(16),
    name: 'example.com',
    account: 'dev',
    hostnames: ['www.example.com'],
    origin: 'http://127.0.0.1:9',
  };
  const route = { name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sinkPort}`, tls: 'none', connections: 4 };
  const limited = { name: 'limited', credential: 'limited/devices', allowFrom: ['127.0.0.0/8'] };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is made from these keys
  const made = deviceConfiguration({
    routes: [route],
    processes: 2,
    zones: [zone],
    smtpLimits: { connectionsPerAddress: 15 },
    listeners: [{ ...limited, role: 'submission', listen: '127.0.0.1:0', tls: 'none' }],
    credential: { tokenEnv: 'POSTERN_TOKEN' },
    ...soonTakenOver,
  }) as Configuration;
  const [dev] = made.accounts;
  const devices = { name: 'devices', scopes: ['email:send'] };
  const second = { id: 'c3'.repeat(16), name: 'limited', credentials: [devices], limits: { messagesPerMinute: 3 } };
  return { ...made, accounts: [dev ?? {}, { ...dev, ...second, sendingDomains: [{ name: 'limited.example' }] }] };
}

/** Kills a process of the server. Process 0 would be all of this run of tests. */
function kill(pid: number | undefined): void {
  if (pid === undefined) throw new Error('There is no such process');
  process.kill(pid, 'SIGKILL');
}

/** Sends a message by REST. @returns its status, or the whole answer where it was not taken */
async function send(): Promise<number | string> {
  const url = `http://127.0.0.1:${one.ports['http']}/client/v4/accounts/${'a1'.repeat(16)}/email/sending/send`;
  const headers = { authorization: `Bearer ${testToken}`, 'content-type': 'application/json', connection: 'close' };
  const body = JSON.stringify({ from: 'a@example.com', to: 'b@example.net', subject: 'x', text: 'x' });
  const answer = await fetch(url, { method: 'POST', headers, body });
  return answer.ok ? answer.status : `${answer.status} ${await answer.text()}`;
}

function reload(): ReturnType<typeof runProgram> {
  return runProgram(process.execPath, [join(projectRoot, 'src/main.ts'), 'reload'], { cwd: one.folder, env: one.env });
}

/** Asks for an error page of a zone. */
function askEdge(): Promise<string> {
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
  expect(one.log().filter(({ msg }) => msg === 'listening')).toHaveLength(1);
  expect(servingPids(one).size).toBe(2);
  expect(await readyStatus(one)).toBe(200);
  const sent = await Promise.all(Array.from({ length: 12 }, () => sendOne(port)));
  expect(sent.filter((reply) => reply.startsWith('250'))).toHaveLength(12);
  expect(await Promise.all(Array.from({ length: 6 }, () => send()))).toEqual(Array<number>(6).fill(200));
  for (const page of await Promise.all(Array.from({ length: 4 }, () => askEdge())))
    expect(JSON.parse(page)).toMatchObject({ error_code: 1015 });
  await vi.waitFor(async () => {
    const counted = await readNumbers(one);
    expect(counted.get('postern_deliveries_total{outcome="delivered",route="sink"}')).toBe(18);
    expect(counted.get('postern_delivery_latency_seconds_count{route="sink"}')).toBe(18);
  }, 20_000);
  const numbers = await readNumbers(one);
  expect(numbers.get('postern_messages_accepted_total')).toBe(18);
  expect(numbers.get('postern_spool_takes_mail')).toBe(1);
  // The disk is the server's.
  expect(numbers.has('postern_spool_free_bytes')).toBe(false);
  expect(numbers.get('postern_processes{state="serving"}')).toBe(2);
  // Both took some: the kernel gives a connection to whoever is free.
  const accepted = one.log().filter(({ msg }) => msg === 'accepted');
  expect(new Set(accepted.map(({ process }) => process))).toEqual(new Set([1, 2]));
});

test('limits hold over all processes: connections of an address, messages a minute', async () => {
  const limited = one.ports['limited'] ?? 0;
  const replies = await Promise.all(
    Array.from({ length: 10 }, () => sendOne(limited, 'x', 'b@example.net', 'a@limited.example')),
  );
  expect(replies.filter((reply) => reply.startsWith('250'))).toHaveLength(3);
  expect(replies.filter((reply) => reply.startsWith('451 4.7.0 E_RATE_LIMIT_EXCEEDED'))).toHaveLength(7);
  // From an address that had none before: one that has just ended may be counted a moment longer.
  const clients: RawClient[] = [];
  const greeting = async (): Promise<string> => {
    const client = RawClient.open(port, { localAddress: '127.0.0.7' });
    clients.push(client);
    return await client.reply();
  };
  const end = (): void => {
    for (const client of clients.splice(0)) client.destroy();
  };
  onTestFinished(end);
  const greetings = await Promise.all(Array.from({ length: 25 }, greeting));
  expect(greetings.filter((reply) => reply.startsWith('220'))).toHaveLength(15);
  expect(greetings.filter((reply) => reply.startsWith('421'))).toHaveLength(10);
  end();
  // Places come back.
  await vi.waitFor(async () => expect(await greeting()).toMatch(/^220/), 10_000);
});

test('a reload is taken by all processes or by none', async () => {
  const file = join(one.folder, 'postern.yaml');
  writeFileSync(file, JSON.stringify({ ...config, drainSeconds: -1 }));
  expect(await reload()).toMatchObject({ code: 78 });
  // Judged by each process: the socket of a listener cannot be bound.
  const taken = { ...config.smtp.listeners[0], name: 'more', listen: `127.0.0.1:${one.ports['http']}` };
  const { smtp } = config;
  writeFileSync(file, JSON.stringify({ ...config, smtp: { ...smtp, listeners: [...smtp.listeners, taken] } }));
  expect((await reload()).output).toMatch(/^Cannot listen on .* EADDRINUSE.*\nNothing has changed\.\n$/);
  const [dev, second] = config.accounts;
  writeFileSync(file, JSON.stringify({ ...config, processes: 3 }));
  expect((await reload()).output).toContain('restart to change processes');
  writeFileSync(file, JSON.stringify({ ...config, accounts: [dev, { ...second, limits: {} }] }));
  expect(await reload()).toMatchObject({ code: 0, output: expect.stringContaining('reloaded') });
  const limited = one.ports['limited'] ?? 0;
  const replies = await Promise.all(
    Array.from({ length: 6 }, () => sendOne(limited, 'x', 'b@example.net', 'a@limited.example')),
  );
  expect(replies.filter((reply) => reply.startsWith('250'))).toHaveLength(6);
  const numbers = await readNumbers(one);
  expect(numbers.get('postern_config_reloads_total{result="success"}')).toBe(1);
});

test('a killed process is started again, and what it had in hand is delivered by the others', async () => {
  const subjects = Array.from({ length: 30 }, (_, index) => `mark-${index}`);
  for (const signal of ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)
    for (const pid of servingPids(one).values()) process.kill(pid, signal);
  // A connection that has just ended may be counted a moment longer, so few are open at a time.
  for (let start = 0; start < subjects.length; start += 5) {
    const replies = await Promise.all(subjects.slice(start, start + 5).map((subject) => sendOne(port, subject)));
    expect(replies.filter((reply) => !reply.startsWith('250'))).toEqual([]);
  }
  const before = await readNumbers(one);
  const pids = servingPids(one);
  kill(pids.get(1));
  await one.until(() => !isRunning(pids.get(1) ?? 0));
  // The other serves on.
  expect(await readyStatus(one)).toBe(200);
  const arrived = new Set<string | undefined>();
  await one.until(() => {
    for (const { raw } of sink.messages) arrived.add(/Subject: (mark-\d+)/.exec(raw.toString())?.[1]);
    return subjects.every((subject) => arrived.has(subject));
  }, 60);
  await one.until(() => servingPids(one).size === 2 && servingPids(one).get(1) !== pids.get(1), 60);
  // A signal to reload, or of another program's, that goes to all processes ends none and opens no debugger.
  expect(one.output()).not.toContain('Debugger');
  expect(servingPids(one).get(2)).toBe(pids.get(2));
  expect(await readyStatus(one)).toBe(200);
  const after = await readNumbers(one);
  // A counter that fell would look like a restart of all.
  expect(after.get('postern_messages_accepted_total')).toBe(before.get('postern_messages_accepted_total'));
  expect(after.get('postern_process_restarts_total')).toBe(1);
});

test('one that drains by a signal of its own keeps the others neither from being ready nor from a reload', async () => {
  const [first, second] = [1, 2].map((number) => servingPids(one).get(number) ?? one.pid);
  // While the first is stopped, the second takes the connection.
  process.kill(first ?? one.pid, 'SIGSTOP');
  const client = RawClient.open(port);
  onTestFinished(() => client.destroy());
  await client.reply();
  process.kill(first ?? one.pid, 'SIGCONT');
  for (const line of ['EHLO client.example', 'MAIL FROM:<a@example.com>', 'RCPT TO:<b@example.net>', 'DATA'])
    await client.ask(line);
  process.kill(second ?? one.pid, 'SIGTERM');
  await one.until(() => one.log().some(({ msg, process: number }) => msg === 'draining' && number === 2));
  expect(await readyStatus(one)).toBe(200);
  expect(await reload()).toMatchObject({ code: 0 });
  expect((await readNumbers(one)).get('postern_processes{state="serving"}')).toBe(1);
  expect(await client.ask('From: a@example.com\r\nSubject: x\r\n\r\nx\r\n.')).toMatch(/^250/);
  await one.until(() => servingPids(one).size === 2 && servingPids(one).get(2) !== second, 60);
});

test('a process that is started again without a secret of the configuration says so, and tries again', async () => {
  const token = join(one.folder, 'token');
  writeFileSync(token, 'token-of-the-second-account');
  const { development: _, ...production } = config;
  const [dev, second] = config.accounts;
  const credentials = [{ name: 'devices', scopes: ['email:send'], tokenFile: token }];
  const accounts = [dev, { ...second, credentials }];
  writeFileSync(join(one.folder, 'postern.yaml'), JSON.stringify({ ...production, accounts }));
  expect(await reload()).toMatchObject({ code: 0 });
  rmSync(token);
  kill(servingPids(one).get(1));
  const told = ({ code, reason }: Record<string, unknown>) => code === 78 && String(reason).includes(`"${token}"`);
  await one.until(() => one.log().some(told), 60);
  expect(await readyStatus(one)).toBe(200);
  writeFileSync(token, 'token-of-the-second-account');
  await one.until(() => servingPids(one).size === 2, 60);
});

test('without their supervisor the processes drain and end', async () => {
  const children = childrenOf(one.pid);
  expect(children).toHaveLength(2);
  await one.end('SIGKILL');
  await one.until(() => !children.some(isRunning));
});

test('a configuration that comes through a pipe is read once, for all processes', async () => {
  const piped = await startPostern({
    config: deviceConfiguration({ routes: [captureRoute], processes: 2 }),
    under: ['bash', '-c', 'exec "$@" --config <(cat postern.yaml)', 'bash'],
    startSeconds: 90,
  });
  onTestFinished(() => piped.cleanUp());
  expect(servingPids(piped).size).toBe(2);
  // What was read cannot be read again.
  process.kill(piped.pid, 'SIGHUP');
  const refused = await piped.until(() => piped.log().find(({ msg }) => msg === 'reload failed'));
  expect(refused['faults']).toEqual([expect.stringMatching(/^\/dev\/fd\/\d+: cannot be read: /)]);
  expect(await readyStatus(piped)).toBe(200);
});

test('the console waits for no pipe in the place of the configuration', async () => {
  const credential = { tokenEnv: 'POSTERN_TOKEN', scopes: ['email:send', 'console:read', 'admin'] };
  const made = deviceConfiguration({ routes: [captureRoute], processes: 2, credential });
  const watched = await startPostern({ config: { ...made, console: { enabled: true } }, startSeconds: 90 });
  onTestFinished(() => watched.cleanUp());
  const file = join(watched.folder, 'postern.yaml');
  rmSync(file);
  execFileSync('mkfifo', [file]);
  const url = `http://127.0.0.1:${watched.ports['http']}/client/v4/accounts/${'a1'.repeat(16)}/email/sending/refusals`;
  expect((await fetch(url, { headers: { authorization: `Bearer ${testToken}` } })).status).toBe(200);
});

test('a server whose processes cannot start ends, and says why', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void other.close());
  await once(other, 'listening');
  const { port: taken } = other.address() as AddressInfo;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is made from these keys
  const made = deviceConfiguration({ routes: [captureRoute], processes: 2 }) as Configuration;
  const listeners = made.smtp.listeners.map((listener) => ({ ...listener, listen: `127.0.0.1:${taken}` }));
  await expect(
    startPostern({ config: { ...made, smtp: { ...made.smtp, listeners } }, startSeconds: 90 }),
  ).rejects.toThrow(/ended with 78[^]*Cannot listen on 127\.0\.0\.1:\d+ for SMTP listener/);
});
