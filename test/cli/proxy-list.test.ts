// `postern proxy list` on a real store.

import { expect, test } from 'vitest';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { runCommandLine } from '../../src/cli/run.ts';
import { openApplicationStore } from '../../src/proxy/store/application-store.ts';
import { applicationWrite, type WriteOptions } from '../support/applications.ts';
import { databaseFileOf } from '../support/database-file.ts';
import { loadYaml, scratchFolder } from '../support/scratch.ts';

const yaml = `
dataDir: ./data
certsDir: ./certs
proxy: { portOffset: 20000 }
development: { account: dev, credential: default }
accounts:
  - { name: dev, id: "${'a'.repeat(32)}", plan: enterprise, credentials: [{ name: default }] }
zones:
  - { name: one.example, id: "${'1'.repeat(32)}", account: dev }
`;

const ids = ['11', '22', '33', '44'].map((pair) => pair.repeat(16));

const writes: readonly WriteOptions[] = [
  { hostname: 'ssh.one.example' },
  {
    hostname: 'b.one.example',
    protocol: 'udp/1000-1009',
    edge: { kind: 'static', ips: ['127.9.0.1', '2001:db8::1'] },
    more: { origin_direct: ['udp://127.0.0.1:1000-1009'] },
  },
  { hostname: 'a.one.example', protocol: 'tcp/60000', edge: { kind: 'ipv6' } },
  { hostname: 'ssh.two.example', zone: '2'.repeat(32) },
];

async function storeFolder(applications = writes): Promise<string> {
  const folder = scratchFolder();
  const database = await openDatabase(databaseFileOf(loadYaml(yaml, {}, folder)));
  const store = await openApplicationStore(database);
  for (const [at, options] of applications.entries()) {
    const id = ids[at];
    if (id === undefined) throw new Error('There are not so many ids');
    expect(await store.create(applicationWrite({ id, ...options }))).toMatchObject({ ok: true });
  }
  await database.close();
  return folder;
}

async function list(cwd: string, ...args: readonly string[]) {
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({ write: (text: string) => void (written[name] += text) });
  const io = { stdout: into('stdout'), stderr: into('stderr'), env: {}, cwd };
  return { exitCode: await runCommandLine(['proxy', 'list', '--config', 'postern.yaml', ...args], io), ...written };
}

test('each application has a line with the addresses and ports that it listens on', async () => {
  const { exitCode, stdout, stderr } = await list(await storeFolder());
  expect([exitCode, stderr]).toEqual([0, '']);
  const two = '2'.repeat(32);
  expect(stdout.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    [ids[3], two, 'tcp/22', 'ssh.two.example', 'nowhere'],
    [ids[2], 'one.example', 'tcp/60000', 'a.one.example', 'nowhere'],
    [ids[1], 'one.example', 'udp/1000-1009', 'b.one.example', '127.9.0.1:21000-21009, [2001:db8::1]:21000-21009'],
    [ids[0], 'one.example', 'tcp/22', 'ssh.one.example', '127.64.0.1:20022'],
    [''],
  ]);
  expect(
    new Set(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => /(?:tcp|udp)\//.exec(line)?.index),
    ).size,
  ).toBe(1);
});

test('those of one zone, as JSON', async () => {
  const folder = await storeFolder();
  const ofZone = async (zone: string) =>
    (await list(folder, '--zone', zone, '--json')).stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line).id);
  expect(await ofZone('one.example')).toEqual([ids[2], ids[1], ids[0]]);
  expect(await ofZone('1'.repeat(32))).toEqual([ids[2], ids[1], ids[0]]);
  expect(await ofZone('2'.repeat(32))).toEqual([ids[3]]);
  const { stdout } = await list(folder, '--json', '--zone', '2'.repeat(32));
  expect(JSON.parse(stdout)).toEqual({
    id: ids[3],
    zone: '2'.repeat(32),
    protocol: 'tcp/22',
    hostname: 'ssh.two.example',
    listening: [],
  });
});

test('no applications', async () => {
  expect(await list(await storeFolder([]))).toEqual({ exitCode: 0, stdout: '', stderr: 'No applications.\n' });
});

test('ports that the offset carries over 65535 are not listed', async () => {
  const folder = await storeFolder([
    { protocol: 'tcp/45530-45540', more: { origin_direct: ['tcp://127.0.0.1:45530-45540'] } },
  ]);
  expect((await list(folder)).stdout).toContain('127.64.0.1:65530-65535\n');
});
