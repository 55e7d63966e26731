// `postern health` against a real server: ready, not there, draining, and silent.

import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { startPostern } from '../support/postern-process.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';

const timeout = 60_000;

function health(port: number, by = runHere, more: Readonly<Record<string, string>> = {}) {
  const folder = scratchFolder();
  const env = { POSTERN_HTTP_PORT: String(port), POSTERN_DATA_DIR: folder, POSTERN_CERTS_DIR: join(folder, 'certs') };
  return by(['health'], { env: { ...env, ...more } });
}

test('a running server is ready, by the port of file and environment, and after its end it is not', {
  timeout,
}, async () => {
  const port = await freePort();
  const postern = await startPostern({ env: { POSTERN_HTTP_PORT: String(port), POSTERN_BIND: '0.0.0.0' } });
  onTestFinished(() => postern.cleanUp());
  const ready = await health(port, runCli, { POSTERN_BIND: '0.0.0.0' });
  expect(ready).toEqual({ exitCode: 0, stdout: `Ready: http://127.0.0.1:${port}/readyz answers 200\n`, stderr: '' });
  await postern.end('SIGTERM');
  const ended = await health(port);
  expect([ended.exitCode, ended.stdout]).toEqual([1, '']);
  expect(ended.stderr).toMatch(/^Not ready: http:\/\/127\.0\.0\.1:\d+\/readyz does not answer: connect ECONNREFUSED/);
});

test('a server that answers 503, one that says nothing and a port that nobody knows are told apart', {
  timeout,
}, async () => {
  const busy = createServer((_, response) => response.writeHead(503).end());
  const silent = createTcpServer();
  const ports: number[] = [];
  for (const server of [busy, silent]) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    ports.push((server.address() as AddressInfo).port);
  }
  const [answered, waited] = await Promise.all(ports.map((port) => health(port, runCli)));
  expect([answered?.exitCode, answered?.stderr]).toEqual([1, expect.stringContaining('/readyz answers 503')]);
  expect([waited?.exitCode, waited?.stderr]).toEqual([
    1,
    expect.stringContaining('does not answer: no answer within 4 s'),
  ]);
  const unknown = await health(0);
  expect([unknown.exitCode, unknown.stderr]).toEqual([1, expect.stringContaining('http.listen has port 0')]);
});
