// Backups and a disk that is full for real: a small file system of memory (needs root for mount).

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

let mounted = '';

afterEach(() => {
  if (mounted !== '') execFileSync('umount', [mounted]);
  mounted = '';
});

test('where there is no room a backup and a restore say so and leave what was there', async () => {
  const folder = scratchFolder();
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db') });
  for (let at = 0; at < 8; at += 1) await spool.add(spoolEntry({ body: Buffer.alloc(1_000_000, 'x') }), someTime);
  await spool.close();
  const disk = join(folder, 'disk');
  mkdirSync(disk);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=6m,mode=700', 'tmpfs', disk]);
  mounted = disk;
  const env = { POSTERN_DATA_DIR: folder, POSTERN_CERTS_DIR: join(folder, 'certs') };

  const full = await runCli(['backup', join(disk, 'backup.db')], { env });
  expect(full).toMatchObject({ exitCode: 1, stdout: '' });
  expect(full.stderr).toMatch(/^Cannot write the backup ".*backup\.db": database or disk is full\n$/);
  expect(readdirSync(disk)).toEqual([]);

  const file = join(folder, 'backup.db');
  expect(await runCli(['backup', file], { env })).toMatchObject({ exitCode: 0 });
  const small = { ...env, POSTERN_DATA_DIR: join(disk, 'data') };
  const restored = await runCli(['restore', file], { env: small });
  expect(restored).toMatchObject({ exitCode: 1, stdout: '' });
  expect(restored.stderr).toContain('no space left on device');
  expect(existsSync(join(disk, 'data/postern.db'))).toBe(false);

  // A folder that has something keeps it.
  const own = await SqliteSpool.open({ file: join(disk, 'data/postern.db') });
  const entry = spoolEntry();
  await own.add(entry, someTime);
  await own.close();
  expect(await runCli(['restore', '--force', file], { env: small })).toMatchObject({ exitCode: 1, stdout: '' });
  expect(readdirSync(join(disk, 'data')).filter((name) => name.includes('tmp'))).toEqual([]);
  const again = await SqliteSpool.open({ file: join(disk, 'data/postern.db') });
  expect((await again.load(entry.id))?.body).toEqual(entry.body);
  await again.close();
});
