// What becomes of a question where the process that should answer it has ended.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { openConfigProcess } from '../../../src/app/config/config-process.ts';
import { projectRoot } from '../../support/postern-process.ts';
import { scratchFolder } from '../../support/scratch.ts';

function program(code: string): URL {
  const file = join(scratchFolder(), 'program.mjs');
  const answers = pathToFileURL(join(projectRoot, 'src/app/config/config-process.ts')).href;
  writeFileSync(file, `import { answerAboutConfig } from '${answers}';\n${code}`);
  return pathToFileURL(file);
}

test.each([
  ['ends', 'process.exit(0)'],
  ['fails', "throw new Error('of the test')"],
])('a process that %s between two questions: the next one fails, and nobody else does', async (_, end) => {
  const ending = program(`answerAboutConfig(async () => async () => void setTimeout(() => { ${end}; }, 50));`);
  const opened = await openConfigProcess(ending, { env: {}, cwd: '/' }, '');
  expect(await opened.ask('now')).toBeUndefined();
  await expect.poll(() => opened.ask('later').then(String, String), { timeout: 10_000 }).toContain('has ended');
  await opened.close();
});
