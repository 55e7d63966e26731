// What becomes of a question where the thread that should answer it has ended, or failed between two questions.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { openConfigThread } from '../../../src/app/config/config-thread.ts';
import { scratchFolder } from '../../support/scratch.ts';

test.each([
  ['ends', 'process.exit(0)'],
  ['fails', "throw new Error('of the test')"],
])('a thread that %s between two questions: the next one fails, and nobody else does', async (_, end) => {
  const program = join(scratchFolder(), 'program.mjs');
  const opened = "import { parentPort } from 'node:worker_threads'; parentPort.on('message', () => undefined);";
  writeFileSync(program, `${opened} parentPort.postMessage({ answer: undefined }); setTimeout(() => { ${end}; }, 50);`);
  const thread = await openConfigThread(pathToFileURL(program), { env: {}, cwd: '/' }, '');
  await expect(thread.ask('now or soon')).rejects.toThrow('has ended');
  await expect(thread.ask('later')).rejects.toThrow('has ended');
  await thread.close();
});
