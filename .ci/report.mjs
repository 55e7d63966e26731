// A reporter of vitest for .ci/suites.mjs: writes what became of each test file to the file that POSTERN_CI_REPORT names.

import { writeFileSync } from 'node:fs';

/** Counts the tests of one file. One that fails as a whole, such as at an import or in a hook, has at least one failure. */
function countsOf(module) {
  const states = [...module.children.allTests()].map((test) => ({ name: test.fullName, state: test.result().state }));
  const failed = states.filter(({ state }) => state === 'failed').map(({ name }) => name);
  if (module.state() === 'failed' && failed.length === 0) failed.push('the file as a whole');
  return { path: module.moduleId, passed: states.filter(({ state }) => state === 'passed').length, failed };
}

export default class CiReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const report = { files: modules.map(countsOf), unhandledErrors: unhandledErrors.length };
    writeFileSync(process.env['POSTERN_CI_REPORT'], JSON.stringify(report));
  }
}
