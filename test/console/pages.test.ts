// How the console's pages are served: one document for every URL, files by their hash, compressed, under a strict policy.

import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { startConsole } from '../support/console-app.ts';
import { ask } from '../support/http-app.ts';
import { rawAsk } from '../support/raw-http.ts';

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
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

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
    expect(page.text).toMatch(/src="\/console\/assets\/[0-9a-f]{16}\/main\.js"/);
    const fields = ['content-security-policy', 'cache-control', 'x-content-type-options', 'referrer-policy'];
    expect(fields.map((name) => page.headers.get(name))).toEqual([policy, 'no-cache', 'nosniff', 'no-referrer']);
    const tag = page.headers.get('etag') ?? '';
    expect((await ask(`${base}${path}`, { headers: { 'If-None-Match': `"x", W/${tag}` } })).status).toBe(304);
  }
});

test('files are kept for good under the hash of all', async () => {
  const { base, port } = await startConsole();
  const source = /src="([^"]+)"/.exec((await ask(`${base}/console`)).text)?.[1] ?? '';
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
    // A coding is another representation, so it has another tag (RFC 9110 §8.8.3).
    const again = await raw(port, '/console', [...headers, `If-None-Match: ${answer.field('etag')}`]);
    expect([again.status, again.body.length]).toEqual([304, 0]);
  });

  test('what is compressed already is not compressed again', async () => {
    const files = { 'index.html': '{assets}', 'icons/x.png': Buffer.alloc(500) };
    const { base, port } = await startConsole({ files });
    const folder = (await ask(`${base}/console`)).text;
    const icon = await raw(port, `${folder}/icons/x.png`, ['Accept-Encoding: br']);
    expect([icon.status, icon.field('content-encoding'), icon.field('content-type')]).toEqual([
      200,
      undefined,
      'image/png',
    ]);
  });
});

test('no path leads to a file that is not in the list', async () => {
  const files = { 'index.html': '{assets}', 'main.js': '1', 'secret.env': 'x', 'notes.md': 'x', 'a/b.css': 'p{}' };
  const { base, port } = await startConsole({ files });
  const folder = (await ask(`${base}/console`)).text;
  expect((await raw(port, `${folder}/a/b.css`)).status).toBe(200);
  const others = [
    ...[
      'secret.env',
      'notes.md',
      '../page-files.ts',
      '..%2fpage-files.ts',
      '%2e%2e/page-files.ts',
      'a/../main.js',
      'a',
      '',
    ],
    ...[
      'main.js/',
      '/main.js',
      'main.js%00',
      './main.js',
      'MAIN.JS',
      'a%2fb.css',
      'a\\b.css',
      '__proto__',
      'constructor',
    ],
    ...['/etc/passwd', '../../../../../../etc/passwd', 'main.js;x', 'm%61in.js'],
  ];
  for (const path of others) expect([path, (await raw(port, `${folder}/${path}`)).status]).toEqual([path, 404]);
  for (const path of ['main.js', `${'0'.repeat(16)}/main.js`, '', '0'.repeat(16)]) {
    expect([path, (await raw(port, `/console/assets/${path}`)).status]).toEqual([path, 404]);
  }
});

test('where the pages are not installed, that is said', async () => {
  const { base } = await startConsole({ files: {} });
  const answer = await ask(`${base}/console`);
  expect([answer.status, answer.text]).toEqual([404, 'The pages of the console are not installed here\n']);
});

test('what begins like the console is not the console', async () => {
  const { base } = await startConsole();
  for (const path of ['/consoles', '/CONSOLE', '/m', '/mail', '/console%2f']) {
    expect([path, (await ask(`${base}${path}`)).status]).toEqual([path, 404]);
  }
});
