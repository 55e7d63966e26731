// The end of the process (D97): whatever clients and next hops do, it comes in time, with 0, and sends nothing twice.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { type PosternProcess, projectRoot, startPostern } from '../support/postern-process.ts';
import { connectSmtp, type RawSmtpClient } from '../support/raw-smtp-client.ts';
import { scratchFolder } from '../support/scratch.ts';
import { copyTestKeys } from '../support/test-keys.ts';

const running: PosternProcess[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

async function start(config: object): Promise<PosternProcess> {
  const postern = await startPostern({ config });
  running.push(postern);
  return postern;
}

/** A client whose DATA is open and stays so. */
async function inData(postern: PosternProcess): Promise<RawSmtpClient> {
  const client = await connectSmtp(postern.ports['devices'] ?? 0);
  await client.reply();
  await client.command('EHLO linger.example.com');
  await client.command('MAIL FROM:<a@example.com>');
  await client.command('RCPT TO:<b@partner.test>');
  expect((await client.command('DATA')).code).toBe(354);
  client.write('From: a@example.com\r\n');
  return client;
}

test('no attempt is begun while sessions drain, so none is cut behind the end of its data', async () => {
  const sink = await FaultSink.start({ slowMilliseconds: 500 });
  const routes = [{ name: 'relay', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}`, tls: 'none' }];
  const postern = await start({ ...deviceConfiguration({ routes }), drainSeconds: 4 });
  const client = await connectSmtp(postern.ports['devices'] ?? 0);
  await client.reply();
  await client.command('EHLO many.example.com');
  for (let count = 0; count < 60; count += 1) {
    await client.command('MAIL FROM:<a@example.com>');
    await client.command('RCPT TO:<slow@partner.test>');
    await client.command('DATA');
    expect((await client.command('From: a@example.com\r\n\r\nx\r\n.')).code).toBe(250);
  }
  const lingering = await inData(postern);
  expect(await postern.end('SIGTERM')).toBe(0);
  lingering.close();
  const told = (msg: string) => postern.log().filter((line) => line['msg'] === msg).length;
  expect(told('deferred')).toBe(0);
  expect(told('delivered')).toBe(sink.messages.length);
  await sink.close();
});

test('an HTTP connection that asks nothing, or half a question, does not keep the process', async () => {
  const postern = await start({ ...deviceConfiguration({ routes: [captureRoute] }), drainSeconds: 1 });
  const sockets = ['', 'GET /livez HTTP/1.1\r\nHost: x\r\n'].map((text) => {
    const socket = connect(postern.ports['http'] ?? 0, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(text);
    return socket;
  });
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  expect((await fetch(`http://127.0.0.1:${postern.ports['http']}/livez`)).status).toBe(200);
  expect(await postern.end('SIGTERM')).toBe(0);
  for (const socket of sockets) socket.destroy();
});

test('SIGTERM while it is still starting ends it with 0', async () => {
  const folder = scratchFolder();
  const child = spawn(process.execPath, [join(projectRoot, 'src/main.ts'), 'serve'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      POSTERN_CONFIG: join(projectRoot, 'config/postern.yaml'),
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
      POSTERN_SMTP_PORT: '0',
      POSTERN_SMTPS_PORT: '0',
      POSTERN_HTTP_PORT: '0',
      POSTERN_HTTPS_PORT: '0',
    },
    stdio: 'ignore',
  });
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(signal ?? code)));
  // The first file that a first start makes; the keys behind it take a while.
  while (!existsSync(join(folder, 'certs/hmac.key'))) await new Promise((wait) => setTimeout(wait, 5));
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});

test('/readyz is 503 and endpoints refuse while sessions drain; HTTP ends last', async () => {
  const postern = await start({ ...deviceConfiguration({ routes: [captureRoute] }), drainSeconds: 20 });
  const base = `http://127.0.0.1:${postern.ports['http']}`;
  const client = await inData(postern);
  expect((await fetch(`${base}/readyz`)).status).toBe(200);
  const ended = postern.end('SIGTERM');
  await postern.until(() => postern.log().some(({ msg }) => msg === 'draining'));
  expect((await fetch(`${base}/readyz`)).status).toBe(503);
  expect((await fetch(`${base}/livez`)).status).toBe(200);
  const refused = await fetch(`${base}/client/v4/accounts/dev/email/sending/domains`);
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('5');
  expect((await client.command('\r\nx\r\n.')).code).toBe(250);
  expect(await ended).toBe(0);
});

test('SIGHUP ends nothing: it reads the configuration again, and the log says so', async () => {
  const postern = await start(deviceConfiguration({ routes: [captureRoute] }));
  process.kill(postern.pid, 'SIGHUP');
  await postern.until(() => postern.log().some(({ why, msg }) => why === 'SIGHUP' && msg === 'configuration reloaded'));
  expect((await fetch(`http://127.0.0.1:${postern.ports['http']}/readyz`)).status).toBe(200);
  expect(await postern.end('SIGTERM')).toBe(0);
});

test('SIGUSR1 and SIGUSR2 open no debugger and end nothing: the log says what other signals do', async () => {
  const postern = await start(deviceConfiguration({ routes: [captureRoute] }));
  const told = (): readonly unknown[] => postern.log().filter(({ msg }) => String(msg).startsWith('the signal means'));
  for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) {
    process.kill(postern.pid, signal);
    await postern.until(() => told().some((line) => Object(line).signal === signal));
  }
  expect(postern.output()).not.toContain('Debugger');
  expect(await postern.end('SIGTERM')).toBe(0);
});

test.each(['run-time.mjs', 'main.ts', 'cli/serve.ts'])(
  'SIGHUP while the program is still being loaded ends nothing either: at %s',
  async (module) => {
    // Sent from within, at the moment when the module is loaded.
    const hook = `import { registerHooks } from 'node:module';
    registerHooks({ load(url, context, next) {
      if (url.endsWith('/src/${module}')) process.kill(process.pid, 'SIGHUP');
      return next(url, context);
    } });`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
    const postern = await startPostern({
      config: deviceConfiguration({ routes: [captureRoute] }),
      env: { NODE_OPTIONS },
      entry: 'start.mjs',
    });
    running.push(postern);
    expect((await fetch(`http://127.0.0.1:${postern.ports['http']}/readyz`)).status).toBe(200);
    expect(await postern.end('SIGTERM')).toBe(0);
  },
);

test('a signal to npm start ends the gateway, and npm with it', async () => {
  const folder = scratchFolder();
  copyTestKeys(join(folder, 'certs'));
  const child = spawn('npm', ['start', '--prefix', projectRoot], {
    cwd: projectRoot,
    env: {
      PATH: process.env['PATH'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      HOME: folder,
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
      POSTERN_SMTP_PORT: '0',
      POSTERN_SMTPS_PORT: '0',
      POSTERN_HTTP_PORT: '0',
      POSTERN_HTTPS_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const closed = new Promise((resolve) => child.once('close', resolve));
  while (!output.includes('"msg":"listening"')) await new Promise((wait) => setTimeout(wait, 20));
  child.kill('SIGTERM');
  // The pipe closes only when the last process that holds it has ended: the gateway itself.
  await closed;
  expect(output).toContain('"msg":"stopped"');
});
