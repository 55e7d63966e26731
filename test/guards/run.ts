// Shows that the tests hold the guards: takes each guard of `guards.ts` out, in a copy of the source, runs the tests that
// stand beside it, and demands that one of them fails. `npm run test:guards [TEXT...]` takes the guards whose file or text
// contains one of the texts. It runs for minutes, so it is no part of `npm test`.

import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Guard } from './guard.ts';
import { guards } from './guards.ts';

const root = resolve(import.meta.dirname, '../..');
/** What the tests read of the project. */
const copied = ['src', 'test', 'config', 'docs', 'packages', 'package.json', 'tsconfig.json', 'vitest.config.ts'];
/** How long the tests of one guard may take, in milliseconds. Tests that then still wait do not hold it. */
const patienceMs = 300_000;

/** Runs tests in a copy. @returns how many failed; undefined where they could not be run to their end */
async function failures(copy: string, tests: readonly string[]): Promise<number | undefined> {
  const report = join(copy, 'report.json');
  rmSync(report, { force: true });
  const [files, names] = [0, 1].map((at) =>
    tests.map((test) => test.split(' > ')[at]).filter((part) => part !== undefined),
  );
  // All of a file, unless every one of the tests is named.
  const pattern = names?.length === tests.length ? ['--testNamePattern', names.join('|')] : [];
  const args = [
    'vitest',
    'run',
    '--bail',
    '1',
    '--reporter',
    'json',
    '--outputFile',
    report,
    ...pattern,
    ...(files ?? []),
  ];
  // A group of its own, so that gateways of tests that hang end with them.
  const child = spawn('npx', args, { cwd: copy, stdio: 'ignore', detached: true });
  const end = (): void => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
  };
  process.once('exit', end);
  const patience = setTimeout(end, patienceMs);
  await new Promise((done) => child.once('close', done));
  clearTimeout(patience);
  process.off('exit', end);
  try {
    const { numTotalTests, numFailedTests } = JSON.parse(readFileSync(report, 'utf8')) as Record<string, number>;
    return numTotalTests === 0 ? undefined : numFailedTests;
  } catch {
    return undefined;
  }
}

/** Takes a guard out and runs its tests. @returns what is wrong; undefined where a test fails, as it has to */
async function judge(copy: string, { file, guard, without, tests }: Guard): Promise<string | undefined> {
  const path = join(copy, file);
  const source = readFileSync(path, 'utf8');
  const [before, ...behind] = source.split(guard);
  if (behind.length !== 1) return `the text is there ${behind.length} times, not once`;
  writeFileSync(path, `${before}${without}${behind[0]}`);
  try {
    const failed = await failures(copy, tests);
    if (failed === undefined) return 'its tests could not be run to their end';
    return failed === 0 ? 'no test fails without it' : undefined;
  } finally {
    writeFileSync(path, source);
  }
}

async function run(texts: readonly string[]): Promise<boolean> {
  const wanted = guards.filter(
    ({ file, guard }) => texts.length === 0 || texts.some((text) => `${file} ${guard}`.includes(text)),
  );
  const copy = mkdtempSync(join(tmpdir(), 'postern-guards-'));
  try {
    for (const name of copied) cpSync(join(root, name), join(copy, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const whole = await failures(copy, [...new Set(wanted.flatMap(({ tests }) => tests))]);
    if (whole !== 0) throw new Error('The tests do not pass with all guards in place');
    let missed = 0;
    for (const guard of wanted) {
      const fault = await judge(copy, guard);
      console.log(`${fault === undefined ? 'held  ' : 'MISSED'} ${guard.file}: ${guard.guard}`);
      if (fault !== undefined) console.log(`       ${fault} (${guard.tests.join(', ')})`);
      if (fault !== undefined) missed += 1;
    }
    console.log(`${wanted.length} guards, ${missed} of them missed`);
    return wanted.length > 0 && missed === 0;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

process.exitCode = (await run(process.argv.slice(2))) ? 0 : 1;
