// The console of a running gateway: on the API's own hosts and nowhere else, with the link of the banner, over a restart and a
// reload.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { get, speak, speakTls } from '../support/edge-app.ts';
import { ask } from '../support/http-app.ts';
import { type RunningPostern, testToken } from '../support/postern-process.ts';
import { startReloadable, startReloadableHere } from '../support/reloadable.ts';

const running: RunningPostern[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

async function siteOrigin(): Promise<string> {
  const server = createServer((request, response) => {
    response.end(`site ${request.method} ${request.url} ${request.headers.cookie}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const json = ['Accept: application/json'];
const link = /(http:\/\/127\.0\.0\.1:\d+)(\/console\/sign-in\/([\w-]{43}))\n/;
const timeout = 60_000;

test('a start in development prints a link that signs in once; a restart prints another', { timeout }, async () => {
  const first = await startReloadable();
  running.push(first.postern);
  const printed = async ({ postern }: typeof first): Promise<RegExpExecArray> =>
    await postern.until(() => link.exec(postern.output()) ?? undefined);
  const [, base = '', path = '', code = ''] = await printed(first);
  const opened = await ask(`${base}${path}`, { redirect: 'manual' });
  expect([opened.status, opened.headers.get('location')]).toEqual([303, '/console']);
  const Cookie = opened.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const tokens = '/client/v4/accounts/payg/tokens';
  expect((await ask(`${base}${tokens}`, { headers: { Cookie } })).status).toBe(200);
  expect((await ask(`${base}${path}`, { redirect: 'manual' })).headers.get('location')).toBe('/console?notice=link');
  const logged = (): string[] =>
    first.postern
      .output()
      .split('\n')
      .filter((line) => line.includes(code));
  expect(logged()).toEqual([expect.stringMatching(/^ {2}http/)]);
  expect(first.postern.output()).not.toContain(Cookie.slice(-43));

  // Off by a reload: the pages and the sessions are gone; on again, the session goes on.
  const at = first.postern.ports['http'] ?? 0;
  first.change((config) => (config['console'] = { enabled: false }));
  expect((await first.reload()).code).toBe(0);
  expect((await ask(`${base}/console`)).status).toBe(404);
  expect((await ask(`${base}${tokens}`, { headers: { Cookie } })).status).toBe(401);
  first.change((config) => (config['console'] = { publicUrl: 'https://gateway.example' }));
  expect((await first.reload()).code).toBe(0);
  expect((await ask(`${base}${tokens}`, { headers: { Cookie } })).status).toBe(200);
  expect((await speak(at, get('gateway.example', '/console/session'))).body).toContain('"result":null');
});

test('it is on the hosts of the API alone; a zone has its own /console', { timeout }, async () => {
  const origin = await siteOrigin();
  const { postern } = await startReloadableHere((config) => {
    config.zones = [{ name: 'example.com', id: '1'.repeat(32), account: 'dev', hostnames: ['example.com'], origin }];
  });
  running.push(postern);
  const { http = 0, https = 0 } = postern.ports;
  const body = JSON.stringify({ token: testToken });
  const fields = [
    ...['Content-Type: application/json', 'X-Postern-Console: 1', `Content-Length: ${body.length}`],
    'Sec-Fetch-Site: same-origin',
  ];
  const paths = ['/console', '/console/session', '/console/assets/x', `/console/sign-in/${'x'.repeat(43)}`, '/m/1'];
  for (const path of paths) {
    expect((await speak(http, get('example.com', path, ['Cookie: a=b']))).body).toContain(`site GET ${path} a=b`);
    expect((await speakTls(https, get('example.com', path), 'example.com')).body).toContain(`site GET ${path}`);
    expect((await speak(http, get('nobody.example', path, json))).body).toContain('"error_code":1004');
    expect((await speak(http, get('192.0.2.1', path, json))).body).toContain('"error_code":1003');
  }
  const signIn = (host: string) =>
    speak(
      http,
      `POST /console/session HTTP/1.1\r\nHost: ${host}\r\n${fields.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`,
    );
  expect((await signIn('example.com')).body).toContain('site POST /console/session');
  expect((await signIn('nobody.example')).body).toContain('Error 1004');
  const opened = await signIn('localhost');
  expect([opened.status, opened.body]).toEqual([200, expect.stringContaining('"success":true')]);
  // SNI of another host: a connection for it must not be used for the console (D68).
  expect((await speakTls(https, get('localhost', '/console/session'), 'example.com')).status).toBe(421);
  expect((await speakTls(https, get('localhost', '/console/session'), 'localhost')).status).toBe(200);
});

test('where the API has a listener of its own, the console is there alone', { timeout }, async () => {
  const { postern } = await startReloadable((config) => (config.http['adminListen'] = '127.0.0.1:0'));
  running.push(postern);
  const { http = 0, admin = 0 } = postern.ports;
  expect((await speak(http, get('localhost', '/console/session', json))).body).toContain('"error_code":1004');
  expect((await speak(admin, get('example.com', '/console/session'))).body).toContain('"result":null');
  const [, base] = await postern.until(() => link.exec(postern.output()) ?? undefined);
  expect(base).toBe(`http://127.0.0.1:${admin}`);
});

test('what the pages ask tells of what happened, of the account that asks alone', { timeout }, async () => {
  const gateway = await startReloadableHere((config) => {
    const zone = { id: '1'.repeat(32), account: 'dev', origin: 'http://127.0.0.1:9' };
    config.zones = [{ ...zone, name: 'example.com' }];
  });
  const { postern } = gateway;
  running.push(postern);
  const { http = 0 } = postern.ports;
  const base = `http://127.0.0.1:${http}/client/v4`;
  const call = async (path: string, body?: unknown) => {
    const headers = { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' };
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const { status, json, text } = await ask(`${base}${path}`, { ...init, headers });
    return { status, text, result: json.result as Record<string, unknown> };
  };
  const sending = '/accounts/dev/email/sending';
  const message = { from: 'a@example.com', to: 'b@example.net', subject: 'Hello', text: 'x' };
  expect((await call(`${sending}/send`, message)).status).toBe(200);
  expect((await call(`${sending}/send`, { ...message, headers: { 'X-OK': '1', 'Not-On-The-List': '1' } })).status).toBe(
    400,
  );
  await expect
    .poll(async () => ((await call(`${sending}/overview`)).result['totals'] as Record<string, unknown>)['delivered'])
    .toBe(1);
  const overview = await call(`${sending}/overview?minutes=5`);
  expect(overview.result).toMatchObject({
    minutes: 5,
    step_minutes: 1,
    totals: {
      accepted: 1,
      refused: 1,
      delivered: 1,
      deferred: 0,
      failed: 0,
      latency_p50_ms: expect.any(Number) as unknown,
    },
    queue: { messages: 0, recipients: 0, failed: 0, oldest_at: null },
    reasons: [{ code: 'E_HEADER_NOT_ALLOWED', field: 'Not-On-The-List', count: 1 }],
    routes: [{ name: 'default', delivered: 1 }],
  });
  expect(overview.result['series']).toHaveLength(5);
  // What waited was looked at when the gateway started, and at each minute since then.
  expect(overview.result['series']).toContainEqual(
    expect.objectContaining({ queued: expect.any(Number), oldest_seconds: expect.any(Number) }),
  );
  expect((await call('/email/sending/overview?minutes=1440')).result).toMatchObject({
    step_minutes: 12,
    totals: { accepted: 1 },
  });
  expect((await call('/accounts/payg/email/sending/overview')).result).toMatchObject({
    totals: { accepted: 0, refused: 0 },
  });
  for (const minutes of ['0', '1441', 'x', '1e3', '']) {
    expect([minutes, (await call(`${sending}/overview?minutes=${minutes}`)).status]).toEqual([minutes, 400]);
  }

  expect((await speak(http, get('example.com', '/', json))).status).toBe(521);
  const failures = await call('/accounts/dev/edge/failures');
  expect(failures.result['zones']).toMatchObject([
    {
      zone: 'example.com',
      requests: 1,
      failed: 1,
      codes: [{ code: 521, count: 1, documentation_url: `http://127.0.0.1:${http}/errors/521` }],
    },
  ]);
  expect((await call('/accounts/payg/edge/failures')).result['zones']).toEqual([]);

  const raw =
    'From: a@example.com\r\nTo: b@example.net\r\nSubject: <b>x\r\nNot-On-The-List: 1\r\nDate: x\r\n\r\nHi\r\n';
  const rehearsed = await call(`${sending}/rehearse`, { raw });
  const verdicts = rehearsed.result['verdicts'] as readonly Record<string, unknown>[];
  expect(verdicts.map(({ name, value, verdict }) => [name, value, verdict])).toEqual([
    ['From', 'a@example.com', 'lifted'],
    ['To', 'b@example.net', 'lifted'],
    ['Subject', '<b>x', 'lifted'],
    ['Not-On-The-List', '1', 'refused'],
    ['Date', 'x', expect.any(String)],
  ]);
  expect([rehearsed.result['valid'], rehearsed.result['sent']]).toEqual([false, null]);
  const good = await call(`${sending}/rehearse`, {
    raw: raw.replace('Not-On-The-List: 1\r\n', '').replace('Date: x\r\n', ''),
  });
  expect(good.result).toMatchObject({
    valid: true,
    sent: { text: expect.stringContaining('DKIM-Signature:') as unknown, is_whole: true },
  });
  expect((await call(`${sending}/rehearse`, { raw: 5 })).result['valid']).toBe(false);
  expect((await call(`${sending}/messages`)).result).toHaveLength(1);

  const records = (await call(`${sending}/domains/EXAMPLE.com/records`)).result as unknown as readonly unknown[];
  expect(records.length).toBeGreaterThan(2);
  expect((await call(`${sending}/domains/payg.example/records`)).status).toBe(404);
  expect((await call('/accounts/dev/proxy/traffic')).result).toEqual([]);

  gateway.write('smtp: 5\n');
  await gateway.reload();
  const settings = await call('/settings');
  expect(settings.result).toMatchObject({
    mode: 'development',
    last_reload: { why: 'command', ok: false, changed: [], faults: [expect.stringContaining('smtp') as unknown] },
    config: { console: { enabled: true }, platform: { domain: 'platform.example' } },
  });
  expect(settings.text).not.toContain(testToken);
});
