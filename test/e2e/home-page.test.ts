// What `/` is on each kind of Host (D67): the page about what lives here on the API's own, the edge everywhere else.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { projectRoot } from '../support/postern-process.ts';
import { rawAsk } from '../support/raw-http.ts';

const running: PosternHere[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

async function asker(apiHosts: readonly string[]): Promise<(host: string, target?: string) => Promise<string>> {
  const shipped = parse(readFileSync(join(projectRoot, 'config/postern.yaml'), 'utf8')) as { readonly http: object };
  const postern = await startHere({
    config: { ...shipped, http: { ...shipped.http, apiHosts } },
    env: { POSTERN_SMTP_PORT: '0', POSTERN_SMTPS_PORT: '0', POSTERN_HTTP_PORT: '0' },
  });
  running.push(postern);
  return async (host, target = '/') => {
    const head = `Host: ${host}\r\nAccept: application/json\r\nConnection: close\r\n\r\n`;
    const answer = await rawAsk(postern.ports['http'] ?? 0, `GET ${target} HTTP/1.1\r\n${head}`);
    const status = answer.slice(9, 12);
    const code = /"error_code":\s?(\d+)/.exec(answer)?.[1];
    return code === undefined
      ? `${status} ${answer.includes('<h1><span>Postern') ? 'home' : 'other'}`
      : `error ${code}`;
  };
}

test('the names and addresses of apiHosts lead to what lives here; other Hosts to the edge', async () => {
  const ask = await asker(['127.0.0.1', 'localhost', 'gateway.example']);
  for (const host of ['127.0.0.1', '127.0.0.1:8080', 'LOCALHOST', 'gateway.example.']) {
    expect([host, await ask(host)]).toEqual([host, '200 home']);
  }
  expect(await ask('gateway.example', '/?a=b')).toBe('200 home');
  expect(await ask('gateway.example', '/index.html')).toBe('404 other');
  expect(await ask('nobody.example', 'http://gateway.example/')).toBe('200 home');
  expect(await ask('192.0.2.1')).toBe('error 1003');
  expect(await ask('127.0.0.2')).toBe('error 1003');
  expect(await ask('nobody.example')).toBe('error 1004');
  // A zone without an origin.
  expect(await ask('example.com')).toBe('error 1004');
  expect(await ask('gateway.example', 'http://example.com/')).toBe('error 1004');
});

test('the loopback address that a request came to leads there too, whatever apiHosts has', async () => {
  const ask = await asker(['gateway.example']);
  expect(await ask('127.0.0.1')).toBe('200 home');
  expect(await ask('127.0.0.1', '/x')).toBe('error 1003');
  expect(await ask('127.0.0.2')).toBe('error 1003');
  expect(await ask('localhost')).toBe('error 1004');
});
