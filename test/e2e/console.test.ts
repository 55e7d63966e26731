// The console of a running gateway: on the API's own hosts and nowhere else, with the link of the banner, over a restart and a
// reload.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { get, speak, speakTls } from '../support/edge-app.ts';
import { ask } from '../support/http-app.ts';
import { type PosternProcess, testToken } from '../support/postern-process.ts';
import { startReloadable } from '../support/reloadable.ts';

const running: PosternProcess[] = [];
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
  const { postern } = await startReloadable((config) => {
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
