// How the console's pages are served: one document for every URL, files by their hash, compressed, under a strict policy.

import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { startConsole } from '../../support/console-app.ts';
import { ask } from '../../support/http-app.ts';
import { rawAsk } from '../../support/raw-http.ts';

/** Asks by a socket, so that nothing is decompressed, and a path is sent as it is. */
async function raw(port: number, target: string, headers: readonly string[] = [], method = 'GET') {
  const fields = ['Host: 127.0.0.1', 'Connection: close', ...headers].join('\r\n');
  const answer = await rawAsk(port, `${method} ${target} HTTP/1.1\r\n${fields}\r\n\r\n`);
  const end = answer.indexOf('\r\n\r\n');
  const head = answer.slice(0, end);
  const field = (name: string): string | undefined => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim();
  return { status: Number(head.slice(9, 12)), field, body: Buffer.from(answer.slice(end + 4), 'latin1') };
}

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types postern-preview";

test('every URL of a page is the same document, asked for anew each time', async () => {
  const { base } = await startConsole();
  const paths = [
    '/console',
    '/console/',
    '/console?notice=link',
    '/console/messages/x?q=%3Cb%3E',
    '/m/0190-x',
    '/m/a/b',
  ];
  for (const path of paths) {
    const page = await ask(`${base}${path}`);
    expect([path, page.status, page.headers.get('content-type')]).toEqual([path, 200, 'text/html; charset=utf-8']);
    expect(page.text).toMatch(/src="\/console\/assets\/[0-9a-f]{16}\/web\/main\.ts"/);
    const fields = ['content-security-policy', 'cache-control', 'x-content-type-options', 'referrer-policy'];
    expect(fields.map((name) => page.headers.get(name))).toEqual([policy, 'no-cache', 'nosniff', 'no-referrer']);
  }
});

test('files are kept for good under the hash of all', async () => {
  const { base, port } = await startConsole();
  const source = /type="module" src="([^"]+)"/.exec((await ask(`${base}/console`)).text)?.[1] ?? '';
  const file = await ask(`${base}${source}`);
  expect([file.status, file.headers.get('content-type'), file.headers.get('cache-control')]).toEqual([
    200,
    'text/javascript; charset=utf-8',
    'public, max-age=31536000, immutable',
  ]);
  expect(file.headers.get('content-security-policy')).toBe(policy);
  expect((await ask(`${base}${source}?x`)).text).toBe(file.text);
  const head = await raw(port, source, [], 'HEAD');
  expect([head.status, head.field('content-length'), head.body.length]).toEqual([200, String(file.text.length), 0]);
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const refused = await raw(port, source, ['Content-Length: 0'], method);
    expect([refused.status, refused.field('allow')]).toEqual([405, 'GET, HEAD']);
  }
});

describe('compression', () => {
  test.each([
    ['br', ['Accept-Encoding: gzip, deflate, br, zstd'], brotliDecompressSync],
    ['gzip', ['Accept-Encoding: gzip;q=0.5, br;q=0'], gunzipSync],
    ['gzip', ['Accept-Encoding: GZIP'], gunzipSync],
    [undefined, [], undefined],
    [undefined, ['Accept-Encoding: deflate, br;q=0.0 , gzip ; q=0'], undefined],
    [undefined, [`Accept-Encoding: ${'x,'.repeat(5000)}`], undefined],
  ] as const)('%s for %j', async (coding, headers, decompress) => {
    const { base, port } = await startConsole();
    const plain = await ask(`${base}/console`);
    const answer = await raw(port, '/console', headers);
    expect([answer.status, answer.field('content-encoding'), answer.field('vary')]).toEqual([
      200,
      coding,
      'Accept-Encoding',
    ]);
    expect((decompress?.(answer.body) ?? answer.body).toString()).toBe(plain.text);
    expect(answer.field('content-length')).toBe(String(answer.body.length));
  });
});

test('no path leads to a file that is not in the list', async () => {
  const { base, port } = await startConsole();
  const folder = /(\/console\/assets\/[0-9a-f]{16})\//.exec((await ask(`${base}/console`)).text)?.[1] ?? '';
  expect((await raw(port, `${folder}/web/text/filters.ts`)).status).toBe(200);
  expect((await raw(port, `${folder}/packages/preact.js`)).status).toBe(200);
  const others = [
    ...['web/tsconfig.json', 'web/style/base.css', 'web', '', 'web/', 'web/main.ts/', '/web/main.ts', 'web/main.ts%00'],
    ...['../page-routes.ts', '..%2fpage-routes.ts', '%2e%2e/page-routes.ts', 'web/../files/make-files.ts'],
    ...['./web/main.ts', 'WEB/MAIN.TS', 'web%2fmain.ts', 'web\\main.ts', '__proto__', 'constructor', 'web/main.ts;x'],
    ...['/etc/passwd', '../../../../../../etc/passwd', 'web/m%61in.ts', 'packages/pg.js', 'packages/../web/main.ts'],
  ];
  for (const path of others) expect([path, (await raw(port, `${folder}/${path}`)).status]).toEqual([path, 404]);
  for (const path of ['web/main.ts', `${'0'.repeat(16)}/web/main.ts`, '', '0'.repeat(16)]) {
    expect([path, (await raw(port, `/console/assets/${path}`)).status]).toEqual([path, 404]);
  }
});

test('the first page needs at most 150 KB compressed, and every module that it names is there', async () => {
  const { base, port } = await startConsole();
  const page = (await ask(`${base}/console`)).text;
  const urls = [...page.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(([, url = '']) => url);
  const named = [...new Set(urls)];
  expect(named.length).toBeGreaterThan(15);
  let octets = 0;
  for (const url of named) {
    const file = await raw(port, url, ['Accept-Encoding: gzip']);
    expect([url, file.status]).toEqual([url, 200]);
    octets += file.body.length;
  }
  // The overview and what it draws its plots with are loaded behind them.
  const folder = named[0]?.split('/').slice(0, 4).join('/') ?? '';
  for (const path of ['web/pages/overview.ts', 'web/parts/plot.ts', 'packages/uplot.js']) {
    octets += (await raw(port, `${folder}/${path}`, ['Accept-Encoding: gzip'])).body.length;
  }
  expect(octets).toBeGreaterThan(20_000);
  expect(octets).toBeLessThan(150 * 1024);
});

test('modules hold no types, name other modules by relative paths alone, and nothing of another host', async () => {
  const { base, port } = await startConsole();
  const page = (await ask(`${base}/console`)).text;
  const seen = new Set(['web/main.ts']);
  const folder = /(\/console\/assets\/[0-9a-f]{16})\//.exec(page)?.[1] ?? '';
  for (const path of seen) {
    const { status, body } = await raw(port, `${folder}/${path}`);
    const text = body.toString();
    expect([path, status, /\binterface [A-Z]|^import type/m.test(text)]).toEqual([path, 200, false]);
    const specifiers = [...text.matchAll(/\b(?:from|import)\s*\(?["']([\w@./-]+)["']/g)].map(([, name = '']) => name);
    expect([path, specifiers.filter((name) => !/^\.\.?\//.test(name))]).toEqual([path, []]);
    for (const name of specifiers) seen.add(new URL(name, `http://x/${path}`).pathname.slice(1));
  }
  expect(seen.size).toBeGreaterThan(40);
});

test('what begins like the console is not the console', async () => {
  const { base } = await startConsole();
  for (const path of ['/consoles', '/CONSOLE', '/m', '/mail', '/console%2f']) {
    expect([path, (await ask(`${base}${path}`)).status]).toEqual([path, 404]);
  }
});
