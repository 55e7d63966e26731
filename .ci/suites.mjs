// Runs the suites `unit` and `system`, one after another. Files that failed run once more, alone: those that pass then are told
// as unsteady, and the run fails where one fails again. Any Node from 18 on runs this file, since it stands before npx.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'postern-ci-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** What a run told of its files; undefined: it came to no end, and nothing is known of any. */
function run(script, args) {
  const file = join(folder, 'report.json');
  rmSync(file, { force: true });
  const reporters = ['--reporter=default', '--reporter=./.ci/report.mjs'];
  const { status } = spawnSync('npm', ['run', script, '--', ...reporters, ...args], {
    stdio: 'inherit',
    env: { ...process.env, POSTERN_CI_REPORT: file },
  });
  if (!existsSync(file)) return undefined;
  return { ...JSON.parse(readFileSync(file, 'utf8')), status };
}

const total = { passed: 0, failed: 0 };
const unsteady = [];
const faults = [];

for (const script of process.argv.length > 2 ? process.argv.slice(2) : ['test', 'test:system']) {
  const crowd = run(script, []);
  if (!crowd) {
    faults.push(`npm run ${script} came to no end`);
    continue;
  }
  const files = new Map(crowd.files.map((file) => [file.path, file]));
  const failed = crowd.files.filter((file) => file.failed.length > 0);
  // What no test has caught belongs to no file, so nothing can be run again for it.
  if (crowd.unhandledErrors > 0) faults.push(`npm run ${script}: ${crowd.unhandledErrors} unhandled errors`);
  else if (crowd.status !== 0 && failed.length === 0) faults.push(`npm run ${script} ended with ${crowd.status}`);
  if (failed.length > 0) {
    console.log(`\n${failed.length} files failed in the crowd, and run once more, one at a time.\n`);
    const alone = run(script, ['--maxWorkers=1', ...failed.map(({ path }) => path)]);
    if (!alone) faults.push(`npm run ${script}: the second run came to no end`);
    else if (alone.unhandledErrors > 0) faults.push(`npm run ${script}: unhandled errors in the second run`);
    for (const second of alone ? alone.files : []) {
      const first = files.get(second.path);
      // A file that skipped what had failed, or that was only found by a part of another's name, has not passed.
      if (!first || first.failed.length === 0 || second.passed < first.passed) continue;
      files.set(second.path, second);
      if (second.failed.length === 0) unsteady.push(first);
    }
  }
  for (const { path, passed, failed: names } of files.values()) {
    total.passed += passed;
    total.failed += names.length;
    for (const name of names) faults.push(`${relative('.', path)} > ${name}`);
  }
}

for (const { path, failed } of unsteady) {
  for (const name of failed) console.log(`failed in the crowd, passed alone: ${relative('.', path)} > ${name}`);
}
for (const fault of faults) console.log(`failed: ${fault}`);
// The closing line in a form any reader of logs can count.
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = faults.length > 0 ? 1 : 0;
