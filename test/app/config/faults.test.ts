// Golden faults: each file under faults/ is a configuration with the lines of `#>` that its errors must be.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { loadYaml } from '../../support/scratch.ts';

const folder = join(import.meta.dirname, 'faults');
const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'));

function errorOf(yaml: string, env: Readonly<Record<string, string>> = {}): ConfigurationError {
  try {
    loadYaml(yaml, env);
  } catch (error) {
    if (error instanceof ConfigurationError) return error;
    throw error;
  }
  throw new Error('no fault was found');
}

test('there are cases', () => {
  expect(files.length).toBeGreaterThanOrEqual(103);
});

test.each(files)('%s', (file) => {
  const text = readFileSync(join(folder, file), 'utf8');
  const wanted = [...text.matchAll(/^#> (.*)$/gm)].map((match) => `postern.yaml:${match[1]}`);
  expect(wanted.length).toBeGreaterThan(0);
  const error = errorOf(text.replaceAll(/^#> .*\n/gm, ''));
  expect(error.message.split('\n')).toEqual(wanted);
  expect(error.exitCode).toBe(78);
  expect(error.message).not.toContain('hunter2');
});

test('a file with more faults than a validator lists by default has them all told', () => {
  const listeners = Array.from({ length: 40 }, (_, index) => `  - { name: l${index}, listen: x, tls: y }`);
  const lines = errorOf(`smtp:\n  listeners:\n${listeners.map((line) => `  ${line}`).join('\n')}\n`).message.split(
    '\n',
  );
  expect(lines).toHaveLength(80);
});

test('tens of thousands of keys in one mapping are compared and found by themselves', { timeout: 20_000 }, () => {
  const keys = Array.from({ length: 50_000 }, (_, index) => `k${index}: 1\n`).join('');
  const lines = errorOf(keys).message.split('\n');
  expect([lines.length, lines.at(-1)]).toEqual([
    50_000,
    expect.stringMatching(/^postern\.yaml:50000:1: k49999: unknown key/),
  ]);
  expect(errorOf(`${keys}k7: 2\n`).message).toBe('postern.yaml:50001:1: k7: this key is given twice in one mapping');
});

test('tens of thousands of faults are told, too, without comparing each with every other', { timeout: 60_000 }, () => {
  const zones = Array.from({ length: 30_000 }, (_, index) => `  - { name: z${index}.example, hostnames: [] }\n`);
  const lines = errorOf(`zones:\n${zones.join('')}`).message.split('\n');
  expect(lines.length).toBeGreaterThanOrEqual(60_000);
  expect(lines[0]).toMatch(/^postern\.yaml:2:\d+: zones\[0\]\./);
});

test('a shape fault in one section does not hide entries that do not fit in another', () => {
  const lines = errorOf('drainSeconds: -1\nplatform: { bounceDomain: elsewhere.example }\n').message.split('\n');
  expect(lines).toEqual([
    'postern.yaml:1:15: drainSeconds: got -1, want a whole number of seconds, 0 to 3600',
    'postern.yaml:2:27: platform.bounceDomain: got "elsewhere.example", want platform.domain (platform.example) or a name below it',
  ]);
});

test('a value through an alias is told where it is used, a long one is cut', () => {
  const long = 'x'.repeat(100);
  const lines = errorOf(`dataDir: &name ${long}\nlog: { level: *name }\n`).message.split('\n');
  expect(lines).toEqual([
    `postern.yaml:2:15: log.level: got "${'x'.repeat(60)}...", want one of trace, debug, info, warn, error, fatal, silent`,
  ]);
});

test.each([
  ['[', ']'],
  ['{ a: ', '}'],
])('brackets in brackets without an end are a fault, and do not keep the program: %s', (open, close) => {
  const text = `log:\n  level: ${open.repeat(100_000)}${close.repeat(100_000)}`;
  expect(errorOf(text).message).toBe(
    `postern.yaml:2:${10 + 100 * open.length}: more than 100 brackets are open here; want fewer`,
  );
  const most = `a: ${'['.repeat(100)}${']'.repeat(100)} # ${'['.repeat(200)}`;
  expect(errorOf(most).message).toMatch(/^postern\.yaml:1:1: a: unknown key/);
});

test('lists in lists without brackets are a fault in words, too', () => {
  expect(errorOf('- '.repeat(20_000)).message).toMatch(/: nested too deeply to be read$/m);
});

test('aliases that multiply are refused, not followed', () => {
  let yaml = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n';
  for (let level = 1; level < 9; level += 1) {
    yaml += `a${level}: &a${level} [${Array.from({ length: 10 }, () => `*a${level - 1}`).join(', ')}]\n`;
  }
  expect(errorOf(yaml).message).toContain('alias');
});
