// A TLS origin that is OpenSSL's own server: what it refuses only after our side of the handshake is done (D66).

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { testCertificate } from '../support/certificate.ts';
import { logLines } from '../support/log-lines.ts';
import { marker, originFront } from '../support/origin-front.ts';
import { rawAsk } from '../support/raw-http.ts';
import { requirePrograms } from './programs.ts';

beforeAll(() => requirePrograms('openssl'));

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** Starts `openssl s_server -www` for example.com with further options; gives its port and certificate. */
async function opensslServer(options: readonly string[]): Promise<{ readonly port: number; readonly cert: string }> {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port } = free.address() as AddressInfo;
  free.close();
  await once(free, 'close');
  const folder = mkdtempSync(join(tmpdir(), 'postern-openssl-'));
  const { key, cert } = await testCertificate(['example.com']);
  writeFileSync(join(folder, 'key.pem'), key);
  writeFileSync(join(folder, 'cert.pem'), cert);
  const files = ['-key', join(folder, 'key.pem'), '-cert', join(folder, 'cert.pem')];
  const child = spawn('openssl', ['s_server', '-accept', `127.0.0.1:${port}`, ...files, '-www', ...options], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  ends.push(async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
    rmSync(folder, { recursive: true });
  });
  let output = '';
  for await (const text of child.stdout.setEncoding('utf8')) {
    output += String(text);
    if (output.includes('ACCEPT')) break;
  }
  return { port, cert };
}

const get = 'GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n';

test.each([['-tls1_3'], ['-tls1_2']])('525 where it wants a certificate of ours (%s)', async (version) => {
  const { port, cert } = await opensslServer(['-Verify', '1', '-verify_return_error', version]);
  const { log, lines } = logLines();
  const front = await originFront({ origin: `https://127.0.0.1:${port}`, ca: cert, log });
  ends.push(() => front.close());
  expect(await rawAsk(front.port, get)).toContain(marker(525));
  expect(lines).toMatchObject([{ code: 525, cause: expect.stringContaining('TLS handshake: ERR_SSL_') }]);
});

test.each([['-tls1_3'], ['-tls1_2']])('its page, where it takes us (%s)', async (version) => {
  const { port, cert } = await opensslServer([version]);
  const front = await originFront({ origin: `https://127.0.0.1:${port}`, ca: cert });
  ends.push(() => front.close());
  expect(await rawAsk(front.port, get)).toMatch(/^HTTP\/1\.1 200 ok\r\n[^]*Ciphers supported/);
});
