// The modules by which the console judges in the browser: each is there, none asks for what a browser has not, and in the plain
// JavaScript of an image they are found as well.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { type BrowserModule, policyModules } from '../../../src/web/console/files/browser-modules.ts';

const root = resolve(import.meta.dirname, '../../..');

/** The paths that a module imports. */
function importsOf({ path, text }: BrowserModule): readonly string[] {
  const code = text.replace(/\/\*[^]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
  const found = [...code.matchAll(/(?:^|[;}])\s*(?:import|export)\b[^'"();=]*?'([^']+)'|\bimport\('([^']+)'\)/gm)];
  return found.map(([, one, other]) => posix.join(posix.dirname(path), one ?? other ?? ''));
}

function expectComplete(modules: readonly BrowserModule[]): void {
  const paths = new Set(modules.map(({ path }) => path));
  expect(modules[0]?.path).toBe('policy/judge.js');
  expect(paths.size).toBeGreaterThan(50);
  expect([...new Set(modules.flatMap(importsOf))].filter((path) => !paths.has(path))).toEqual([]);
  expect(modules.filter(({ text }) => /['"]node:|\bprocess\./.test(text)).map(({ path }) => path)).toEqual([]);
}

test('every module that one imports is there, and none is of Node', async () => {
  expectComplete(await policyModules());
});

test('they are found in the plain JavaScript of an image', { timeout: 60_000 }, () => {
  const image = mkdtempSync(join(tmpdir(), 'postern-image-'));
  try {
    const node = (...args: readonly string[]) =>
      execFileSync(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
        encoding: 'utf8',
        maxBuffer: 16_777_216,
      });
    node(join(root, 'deploy/plain-javascript.mjs'), join(root, 'src'), join(image, 'src'));
    node(
      join(root, 'deploy/plain-javascript.mjs'),
      join(root, 'packages/policy/src'),
      join(image, 'packages/policy/src'),
    );
    writeFileSync(join(image, 'package.json'), '{"type":"module"}');
    symlinkSync(join(root, 'node_modules'), join(image, 'node_modules'));
    const url = join(image, 'src/web/console/files/browser-modules.js');
    const program = `import { policyModules } from ${JSON.stringify(url)};\nconsole.log(JSON.stringify(await policyModules()));`;
    expectComplete(JSON.parse(node('--input-type=module', '--eval', program)) as readonly BrowserModule[]);
  } finally {
    rmSync(image, { recursive: true, force: true });
  }
});
