// A process that is asked: what becomes of questions that it cannot get.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { AskedProcess } from '../../src/base/asked-process.ts';
import { projectRoot } from '../support/postern-process.ts';
import { scratchFolder } from '../support/scratch.ts';

test('a question that cannot be sent is refused, and those behind it are answered', async () => {
  const file = join(scratchFolder(), 'program.mjs');
  const answers = pathToFileURL(join(projectRoot, 'src/base/asked-process.ts')).href;
  writeFileSync(file, `import { answerQuestions } from '${answers}';\nanswerQuestions(async ({ n }) => ({ n }));`);
  const asked = new AskedProcess<{ n: unknown }, { n: unknown }>(pathToFileURL(file), {
    milliseconds: 20_000,
    heapMebibytes: 100,
  });
  onTestFinished(() => asked.close());
  const refused = asked.ask({ n: () => 1 }, 'a');
  const waiting = [asked.ask({ n: () => 2 }, 'a'), asked.ask({ n: 3 }, 'a')];
  await expect(refused).rejects.toThrow('cannot be started');
  await expect(waiting[0]).rejects.toThrow('cannot be started');
  expect(await waiting[1]).toEqual({ n: 3 });
});
