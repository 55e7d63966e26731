// `postern proxy export` on a real store: output, standard error, faults of usage.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { runCommandLine } from '../../src/cli/run.ts';
import { openApplicationStore } from '../../src/proxy/store/application-store.ts';
import { applicationWrite } from '../support/applications.ts';
import { databaseFileOf } from '../support/database-file.ts';
import { runCli } from '../support/run-cli.ts';
import { loadYaml, scratchFolder } from '../support/scratch.ts';

const yaml = `
dataDir: ./data
certsDir: ./certs
development: { account: dev, credential: default }
accounts:
  - { name: dev, id: "${'a'.repeat(32)}", plan: enterprise, credentials: [{ name: default }] }
zones:
  - { name: one.example, id: "${'1'.repeat(32)}", account: dev, block: [192.0.2.66] }
`;

/** A folder with a configuration and a store of three applications, one of them of a zone that is not configured. */
async function storeFolder(): Promise<{ readonly folder: string; readonly ids: readonly string[] }> {
  const folder = scratchFolder();
  const config = loadYaml(yaml, {}, folder);
  const database = await openDatabase(databaseFileOf(config));
  const store = await openApplicationStore(database);
  const ids: string[] = [];
  for (const write of [
    applicationWrite({ more: { ip_firewall: true } }),
    applicationWrite({
      protocol: 'udp/53',
      hostname: 'dns.one.example',
      more: { origin_direct: ['udp://127.0.0.1:53'] },
    }),
    applicationWrite({ zone: '2'.repeat(32), hostname: 'ssh.two.example' }),
  ]) {
    expect(await store.create(write)).toMatchObject({ ok: true });
    ids.push(write.id);
  }
  await database.close();
  return { folder, ids };
}

async function run(cwd: string, ...args: readonly string[]) {
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({ write: (text: string) => void (written[name] += text) });
  const io = { stdout: into('stdout'), stderr: into('stderr'), env: {}, cwd };
  const line = ['proxy', 'export', '--config', 'postern.yaml', ...args];
  return { exitCode: await runCommandLine(line, io), ...written };
}

test('the applications of the store are written, and what is missing is told on standard error', async () => {
  const { folder, ids } = await storeFolder();
  const [ssh = '', dns = '', other = ''] = ids;
  const { exitCode, stdout, stderr } = await run(folder, '--format', 'haproxy', '--port-offset', '0');
  expect(exitCode).toBe(0);
  expect(stdout).toContain(`frontend edge_${ssh}\n    bind 127.64.0.1:22\n    acl is_blocked src 192.0.2.66\n`);
  expect(stdout).not.toContain(`frontend edge_${dns}`);
  const why = 'NOT EXPORTED: HAProxy does not forward UDP';
  const unplanned = 'NOT EXPORTED: its zone is not in the configuration, or its fields cannot be read';
  expect(stdout).toContain(`# Application ${dns}: udp/53 on dns.one.example\n# ${why}\n`);
  expect(stderr.split('\n')).toEqual([
    'note: limits of open connections per application and per client, traffic counters and events are not exported',
    'note: Postern itself must not listen on the same addresses and ports on the same machine',
    `application ${other}: ${unplanned}`,
    'note: an origin that breaks off, or ends TLS without close_notify, ends cleanly for the client of HAProxy; Postern passes it on as a reset',
    `application ${dns} (dns.one.example): ${why}`,
    '',
  ]);
  expect(stdout).toContain(`# Application ${other}: ${unplanned}\n`);
});

test('the offset of the configuration is the default, and nginx has the UDP application too', async () => {
  const { folder, ids } = await storeFolder();
  const { stdout } = await run(folder, '--format', 'nginx');
  expect(stdout).toContain('listen 127.64.0.1:20022;');
  expect(stdout).toContain('listen 127.64.0.2:20053 udp reuseport;');
  expect(stdout).toContain(`upstream origin_${ids[1]} {\n        server 127.0.0.1:53 max_fails`);
});

test('--output writes a file and nothing else; --strict writes nothing where an application is left out', async () => {
  const { folder } = await storeFolder();
  const strict = await run(folder, '--format', 'envoy', '--output', 'strict.yaml', '--strict');
  expect(strict).toMatchObject({ exitCode: 1, stdout: '', stderr: expect.stringContaining('NOT EXPORTED') });
  expect(() => readFileSync(join(folder, 'strict.yaml'))).toThrow('ENOENT');
  const { exitCode, stdout } = await run(folder, '--format', 'envoy', '--output', 'envoy.yaml');
  expect([exitCode, stdout]).toEqual([0, '']);
  expect(readFileSync(join(folder, 'envoy.yaml'), 'utf8')).toMatch(/^# Proxy applications for Envoy/);
  const failed = await run(folder, '--format', 'envoy', '--output', 'no/such/folder');
  expect(failed).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining(`Cannot write "${folder}/no/such/folder"`),
  });
});

test('faults of usage', async () => {
  const folder = scratchFolder();
  const fault = async (...args: readonly string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await run(folder, ...args);
    expect([exitCode, stdout]).toEqual([64, '']);
    return stderr.trimEnd();
  };
  expect(await fault()).toBe('--format: want one of haproxy, nginx, envoy');
  expect(await fault('--format', 'ngnix')).toBe('--format: got "ngnix", did you mean "nginx"?');
  expect(await fault('--format', 'caddy-like')).toBe('--format: got "caddy-like", want one of haproxy, nginx, envoy');
  expect(await fault('--format', 'envoy', '--port-offset', '65536')).toBe(
    '--port-offset: got "65536", want a whole number, 0 to 65535',
  );
  for (const server of ['name.test', '127.0.0.1:0', '127.0.0.1:x', 'fe80::1%eth0', '1.2.3.4;']) {
    expect(await fault('--format', 'envoy', '--nameserver', `127.0.0.1, ${server}`)).toBe(
      `--nameserver: got "${server}", want an IP address, or one with a port`,
    );
  }
});

test('by the program itself, on a store that is not there yet', async () => {
  const folder = scratchFolder();
  loadYaml(yaml, {}, folder);
  const { exitCode, stdout } = await runCli(['proxy', 'export', '-f', 'nginx', '-c', 'postern.yaml'], { cwd: folder });
  expect(exitCode).toBe(0);
  expect(stdout).toContain('stream {\n}\n');
});
