// The keys and certificates of the shipped configuration, made once for a run of the tests. Making them is a third of what a
// gateway's first start costs, and hundreds of tests start one.

import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { bootstrap } from '../../src/app/bootstrap/bootstrap.ts';
import { loadConfig } from '../../src/app/config/config.ts';
import { systemClock } from '../../src/base/clock.ts';

/** The environment variable that names the folder to the tests. */
const place = 'POSTERN_TEST_KEYS';

/** Makes the keys before the first test; gives what removes them after the last. */
export default async function setUp(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-test-keys-'));
  const project = resolve(import.meta.dirname, '../..');
  const config = loadConfig({ env: { POSTERN_CERTS_DIR: folder }, cwd: project });
  await bootstrap(config, { env: {}, clock: systemClock });
  process.env[place] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

/** Copies the keys to where a gateway looks for its own, so that its first start makes only those that it has besides. */
export function copyTestKeys(certsDir: string): void {
  const made = process.env[place];
  if (made !== undefined) cpSync(made, certsDir, { recursive: true });
}
