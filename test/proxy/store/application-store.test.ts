// The store of proxy applications in SQLite under the contract, in a file and in memory; and what only a file has.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Database } from '../../../src/base/database/database.ts';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { type ApplicationStore, openApplicationStore } from '../../../src/proxy/store/application-store.ts';
import { maxApplications } from '../../../src/proxy/store/application-writing.ts';
import { applicationsContract } from '../../contract/applications.ts';
import { applicationWrite, zones } from '../../support/applications.ts';
import { testPatienceMs } from '../../support/database-patience.ts';
import { scratchFolder } from '../../support/scratch.ts';

const opened: Database[] = [];
let folder = '';

async function open(file: string): Promise<ApplicationStore> {
  const database = await openDatabase(file, { patienceMs: testPatienceMs });
  opened.push(database);
  return await openApplicationStore(database);
}

async function close(): Promise<void> {
  await Promise.all(opened.splice(0).map((database) => database.close()));
  if (folder !== '') rmSync(folder, { recursive: true, force: true });
  folder = '';
}

applicationsContract('SQLite application store in memory', { open: () => open(':memory:'), clean: close });

applicationsContract('SQLite application store in a file', {
  open: () => open(join((folder = mkdtempSync(join(tmpdir(), 'postern-applications-'))), 'postern.db')),
  another: () => open(join(folder, 'postern.db')),
  clean: close,
});

async function inProcess(file: string, name: string): Promise<Readonly<Record<string, number>>> {
  const program = join(import.meta.dirname, '../../support/application-process.ts');
  const child = spawn(process.execPath, [program, file, name], { stdio: ['pipe', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    // Both begin once both are there.
    if (output === '' && text.startsWith('ready')) ready.push(() => child.stdin.end('go\n'));
    output += text;
    if (ready.length === 2) for (const go of ready.splice(0)) go();
  });
  const [code] = await once(child, 'close');
  expect(code).toBe(0);
  return JSON.parse(output.split('\n')[1] ?? '') as Record<string, number>;
}
const ready: (() => void)[] = [];

test('of writes by two processes at once as many come through as one process would let through', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const store = await open(file);
  const [one, two] = await Promise.all([inProcess(file, 'one'), inProcess(file, 'two')]);
  const sum = (kind: string): number => (one[kind] ?? 0) + (two[kind] ?? 0);
  expect([sum('protocol'), sum('quota'), sum('hostname'), sum('edge-ips'), sum('ports')]).toEqual([1, 5, 1, 1, 1]);
  expect(await store.all()).toHaveLength(9);
  await close();
}, 60_000);

test('a zone has at most 10,000 applications, and another zone has its own', async () => {
  const database = await openDatabase(':memory:');
  const store = await openApplicationStore(database);
  const first = applicationWrite({ hostname: 'h.one.example' });
  const create = async (hostname: string, zone = first.zone) => store.create(applicationWrite({ hostname, zone }));
  expect((await store.create(first)).ok).toBe(true);
  await database.run(
    `WITH RECURSIVE n (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < ${maxApplications - 2})
     INSERT INTO proxy_applications (id, zone, account, hostname, transport, first_port, last_port, edge, fields,
       created_at, modified_at, is_ftp)
     SELECT 'x' || at, a.zone, a.account, a.hostname, 'tcp', 22, 22, 'ipv6', a.fields, 0, 0, 0
     FROM n, proxy_applications a WHERE a.id = $1`,
    [first.id],
  );
  expect((await create('last.one.example')).ok).toBe(true);
  expect(await create('more.one.example')).toEqual({ ok: false, conflict: { kind: 'applications' } });
  expect((await create('h.two.example', zones.two)).ok).toBe(true);
  await database.close();
});

test('a thousand applications are written, listed and looked up by an index', async () => {
  const database = await openDatabase(':memory:');
  const store = await openApplicationStore(database);
  const pool = '10.0.0.0/16';
  for (let at = 0; at < 1000; at += 1) {
    const write = applicationWrite({ hostname: `h${at}.one.example`, quota: 100_000, pool, protocol: 'tcp/1-1000' });
    expect((await store.create(write)).ok).toBe(true);
  }
  const plans = [
    [
      'SELECT last_port FROM proxy_bindings WHERE address = ? AND transport = ? AND first_port <= ? ORDER BY first_port DESC LIMIT 1',
      'PRIMARY KEY',
    ],
    ['SELECT 1 FROM proxy_applications WHERE account = ? AND sole_protocol = ? AND id <> ?', 'INDEX'],
    ['SELECT 1 FROM proxy_applications WHERE hostname = ?', 'INDEX'],
    ['SELECT * FROM proxy_applications WHERE zone = ? ORDER BY zone, hostname, id LIMIT 20', 'INDEX proxy_by_hostname'],
  ] as const;
  for (const [sql, uses] of plans) {
    const steps = await database.query(`EXPLAIN QUERY PLAN ${sql}`);
    const plan = steps.map(({ detail }) => String(detail)).join('; ');
    expect(plan).toContain('SEARCH');
    expect(plan).toContain(uses);
    expect(plan).not.toContain('SCAN');
  }
  const page = await store.list(zones.one, { page: 50, perPage: 20, order: 'dns', direction: 'asc' });
  expect([page.applications.length, page.total]).toEqual([20, 1000]);
  await database.close();
}, 60_000);
