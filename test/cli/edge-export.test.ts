// `postern edge export`: output, standard error, faults of usage.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCommandLine } from '../../src/cli/run.ts';
import { scratchFolder } from '../support/scratch.ts';

const yaml = `
dataDir: ./data
certsDir: ./certs
http: { listen: "0.0.0.0:8080" }
development: { account: dev, credential: default }
accounts:
  - { name: dev, id: "${'a'.repeat(32)}", plan: enterprise, credentials: [{ name: default }] }
zones:
  - { name: one.example, id: "${'1'.repeat(32)}", account: dev, origin: "http://127.0.0.1:3000" }
  - { name: two.example, id: "${'2'.repeat(32)}", account: dev, origin: "http://127.0.0.1:3000/app" }
`;

async function run(...args: readonly string[]) {
  const folder = scratchFolder();
  writeFileSync(join(folder, 'postern.yaml'), yaml);
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({ write: (text: string) => void (written[name] += text) });
  const io = { stdout: into('stdout'), stderr: into('stderr'), env: {}, cwd: folder };
  const exitCode = await runCommandLine(['edge', 'export', '--config', 'postern.yaml', ...args], io);
  return { exitCode, folder, ...written };
}

test('the zones of the configuration are written, and what differs is told on standard error', async () => {
  const { exitCode, stdout, stderr } = await run('--format', 'haproxy', '--listen', '127.0.0.1:8000');
  expect(exitCode).toBe(0);
  expect(stdout).toContain('    bind 127.0.0.1:8000\n');
  // Where it listens on every address, a proxy on the same machine finds it on loopback.
  expect(stdout).toContain('    server postern 127.0.0.1:8080 id 2\n');
  expect(stderr).toContain('note: edge.trustedProxies is empty');
  expect(stderr).toMatch(/^zone two\.example: NOT EXPORTED: its origin has a path/m);
});

test('--strict writes nothing where a zone would be left out; --output writes a file', async () => {
  expect(await run('--format', 'haproxy', '--strict')).toMatchObject({ exitCode: 1, stdout: '' });
  const { folder, exitCode, stdout } = await run('--format', 'caddy', '--strict', '--output', 'Caddyfile');
  expect([exitCode, stdout]).toEqual([0, '']);
  expect(readFileSync(join(folder, 'Caddyfile'), 'utf8')).toContain('http://two.example:80 {');
  const failed = await run('--format', 'caddy', '--output', 'no/such/folder');
  expect([failed.exitCode, failed.stderr]).toEqual([1, expect.stringContaining('Cannot write')]);
});

test.each([
  [[], '--format: want one of nginx, haproxy, caddy'],
  [['--format', 'cady'], '--format: got "cady", did you mean "caddy"?'],
  [['--format', 'nginx', '--listen', '80'], '--listen: got "80", want an IP address with a port'],
  [['--format', 'nginx', '--postern', '127.0.0.1:0'], '--postern: got "127.0.0.1:0", want an IP address'],
  [['--format', 'nginx', '--tls-listen', 'x:443'], '--tls-listen: got "x:443", want an IP address'],
])('%j is a fault of usage', async (args, message) => {
  const { exitCode, stderr } = await run(...args);
  expect([exitCode, stderr]).toEqual([64, expect.stringContaining(message)]);
});
