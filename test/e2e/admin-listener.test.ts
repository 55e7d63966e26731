// The API on a listener of its own, on a running gateway: what the public listeners still answer, the log line, the banner, the
// metrics and their token, connections, own doors, and the end.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { get, speak, speakTls } from '../support/edge-app.ts';
import { ask } from '../support/http-app.ts';
import { startHere } from '../support/postern-here.ts';
import { type PosternProcess, type RunningPostern, startPostern, testToken } from '../support/postern-process.ts';
import { rawHttp } from '../support/raw-http.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';

const running: RunningPostern[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

const zone = '1'.repeat(32);
const metricsToken = 'a-token-for-metrics-0123456789';

async function siteOrigin(): Promise<string> {
  const server = createServer((request, response) => response.end(`site ${request.headers.host} ${request.url}`));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function placeOf(http: object, env: NodeJS.ProcessEnv = {}) {
  const none = { tls: 'none', credential: 'dev/default', allowFrom: ['127.0.0.1'] };
  const dkim = [{ selector: 'e1', algorithm: 'ed25519' }];
  return {
    config: {
      development: { account: 'dev', credential: 'default' },
      drainSeconds: 4,
      smtp: {
        listeners: [
          { name: 'submission', listen: '127.0.0.1:0', tls: 'starttls' },
          { name: 'devices', listen: '127.0.0.1:0', ...none },
        ],
      },
      http: { listen: '127.0.0.1:0', ...http },
      accounts: [
        {
          name: 'dev',
          id: 'a1'.repeat(16),
          sendingDomains: [{ name: 'example.com', dkim }],
          credentials: [{ name: 'default', scopes: ['email:send', 'proxy:read', 'proxy:edit'] }],
        },
      ],
      zones: [{ name: 'example.com', id: zone, account: 'dev', origin: await siteOrigin() }],
    },
    env: { METRICS_TOKEN: metricsToken, ...env },
  };
}

async function start(http: object, env?: NodeJS.ProcessEnv): Promise<PosternProcess> {
  const postern = await startPostern(await placeOf(http, env));
  running.push(postern);
  return postern;
}

/** In the test's process, which none of its clients sees. */
async function startInside(http: object): Promise<RunningPostern> {
  const postern = await startHere(await placeOf(http));
  running.push(postern);
  return postern;
}

const json = ['Accept: application/json'];
const timeout = 60_000;

test('zones on the public listeners, everything else on the admin listener', { timeout }, async () => {
  const postern = await start({ metricsTokenEnv: 'METRICS_TOKEN' }, { POSTERN_ADMIN_PORT: '0' });
  const { http = 0, https = 0, admin = 0 } = postern.ports;
  expect(Object.keys(postern.ports)).toEqual(['submission', 'devices', 'http', 'https', 'admin']);

  for (const path of ['/', '/metrics', '/client/v4/zones']) {
    expect((await speak(http, get('example.com', path))).body).toContain(`site example.com ${path}`);
    expect((await speakTls(https, get('example.com', path), 'example.com')).body).toContain(`site example.com ${path}`);
  }
  for (const path of ['/', '/metrics', '/docs', '/openapi.json', '/errors/522', '/client/v4/accounts/dev/tokens']) {
    expect([path, (await speak(http, get('localhost', path, json))).body]).toEqual([
      path,
      expect.stringContaining('"error_code":1004'),
    ]);
    const secure = await speakTls(https, get('127.0.0.1', path, json), '');
    expect([path, secure.body]).toEqual([path, expect.stringContaining('"error_code":1003')]);
  }
  expect((await speak(http, get('127.0.0.1', '/readyz'))).body).toBe('ready\n');
  expect((await speakTls(https, get('lb.example', '/livez'), 'example.com')).body).toBe('live\n');

  const base = `http://127.0.0.1:${admin}`;
  for (const path of ['/', '/docs', '/openapi.json', '/errors', '/errors/522', '/livez', '/readyz']) {
    expect([path, (await ask(base + path)).status]).toEqual([path, 200]);
  }
  expect((await speak(admin, get('example.com', '/index.html'))).body).toBe('Not found\n');

  expect((await ask(`${base}/metrics`)).status).toBe(401);
  const wrong = await ask(`${base}/metrics`, { headers: { Authorization: `Bearer ${testToken}` } });
  expect([wrong.status, wrong.headers.get('www-authenticate')]).toEqual([
    401,
    'Bearer realm="postern", error="invalid_token"',
  ]);
  const metrics = await ask(`${base}/metrics`, { headers: { Authorization: `Bearer ${metricsToken}` } });
  expect(metrics.text).toMatch(/^postern_http_admin_connections [1-9]/m);
  expect(metrics.text).toContain('postern_http_connections_refused_total{limit="admin_all"} 0\n');
  expect(postern.output()).not.toContain(metricsToken);
});

test('what is public is full to its limit, and the admin listener answers', { timeout }, async () => {
  const limits = { connections: 6, connectionsPerAddress: 6 };
  const postern = await startInside({ adminListen: '127.0.0.1:0', limits });
  const { http = 0, https = 0, admin = 0 } = postern.ports;
  const held = await Promise.all([http, http, http, https, https, https].map((port) => rawHttp(port)));
  onTestFinished(() => {
    for (const { socket } of held) socket.destroy();
  });
  const metrics = async (): Promise<string> => (await ask(`http://127.0.0.1:${admin}/metrics`)).text;
  // Connected is not yet taken in: who asks too early would take the place of one of them.
  const open = async (): Promise<number> => {
    const text = await metrics();
    const read = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
    return read('postern_http_connections') - read('postern_http_admin_connections');
  };
  await expect.poll(open, { timeout: 20_000 }).toBe(6);
  expect((await speak(http, get('127.0.0.1', '/livez'))).status).toBe(503);
  expect((await speak(admin, get('127.0.0.1', '/readyz'))).body).toBe('ready\n');
  expect(await metrics()).toMatch(/^postern_http_connections_refused_total\{limit="address"\} [1-9]/m);
});

test('no application has the admin listener for its origin, or its port', { timeout }, async () => {
  const postern = await startInside({ adminListen: '127.0.0.1:0' });
  const { admin = 0 } = postern.ports;
  const answer = await ask(`http://127.0.0.1:${admin}/client/v4/zones/${zone}/proxy/apps`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      protocol: 'tcp/22',
      dns: { type: 'CNAME', name: 'ssh.example.com' },
      origin_direct: [`tcp://127.0.0.1:${admin}`],
    }),
  });
  expect(answer.json.errors.map(({ code }) => code)).toEqual([11002]);
});

test('the banner leads there', { timeout }, async () => {
  const postern = await start({ adminListen: '127.0.0.1:0' }, { POSTERN_TOKEN: '' });
  const { http = 0, admin = 0 } = postern.ports;
  const output = await postern.until(() => postern.output().includes('you@example.net') && postern.output());
  expect(output).toContain(`curl 'http://127.0.0.1:${admin}/client/v4/accounts/dev/email/sending/send'`);
  expect(output).toContain(`http://127.0.0.1:${admin}/ `);
  expect(output).not.toContain(`http://127.0.0.1:${http}/client`);
});

test('it ends with HTTP: while mail drains it says that it is not ready', { timeout }, async () => {
  const postern = await start({ adminListen: '127.0.0.1:0' });
  const { admin = 0, devices = 0 } = postern.ports;
  const client = await connectSmtp(devices);
  await client.reply();
  for (const line of ['EHLO client.example', 'MAIL FROM:<a@example.com>', 'RCPT TO:<b@example.net>']) {
    await client.command(line);
  }
  expect((await client.command('DATA')).code).toBe(354);
  const ended = postern.end('SIGTERM');
  await postern.until(() => postern.log().some((line) => line['msg'] === 'draining'));
  expect((await speak(admin, get('127.0.0.1', '/readyz'))).body).toBe('not ready\n');
  await client.command('From: a@example.com\r\n\r\nx\r\n.');
  expect(await ended).toBe(0);
  await expect(rawHttp(admin)).rejects.toThrow(/ECONNREFUSED/);
});

test('an address that is taken ends the start with 78 and names it', { timeout }, async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  await expect(start({ adminListen: `127.0.0.1:${port}` })).rejects.toThrow(
    new RegExp(`ended with 78[^]*127\\.0\\.0\\.1:${port}`),
  );
});
