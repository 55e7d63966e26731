// A folder of a test's own, and configurations in it.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type Config, loadConfig } from '../../src/app/config/config.ts';

/** Makes an empty folder that is removed when the test ends. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'postern-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes a configuration into a folder of the test's own and loads it there. */
export function loadYaml(
  yaml: string,
  env: Readonly<Record<string, string | undefined>> = {},
  cwd = scratchFolder(),
): Config {
  writeFileSync(join(cwd, 'postern.yaml'), yaml);
  return loadConfig({ file: 'postern.yaml', env, cwd });
}
