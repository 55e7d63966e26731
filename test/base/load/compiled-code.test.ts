// A thread that has started, in a process of its own: what it gives back, and when.

import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from '../../support/postern-process.ts';
import { runProgram } from '../../system/programs.ts';

/** Starts as the first thread does, works, and ends. @returns V8's lines about collections that shrink the heap */
async function collections(work: string): Promise<readonly string[]> {
  const module = JSON.stringify(join(projectRoot, 'src/base/load/compiled-code.ts'));
  const code = `import { settleHeap } from ${module}; settleHeap(); ${work}`;
  const { output } = await runProgram(process.execPath, ['--trace-gc', '--input-type=module', '--eval', code]);
  return output.split('\n').filter((line) => line.includes('Mark-Compact (reduce)'));
}

test('a thread that rests gives back what its start has left, once', async () => {
  // V8 goes over the heap twice to seven times in a row, until nothing more goes; looks go on every 250 ms.
  const { length } = await collections('setTimeout(() => {}, 2500)');
  expect(length).toBeGreaterThan(0);
  expect(length).toBeLessThan(8);
});

test('a thread that works is not held up for it', async () => {
  const work = `const end = performance.now() + 1500;
    const timer = setInterval(() => {
      const pause = performance.now() + 20;
      while (performance.now() < pause);
      if (pause > end) clearInterval(timer);
    }, 10);`;
  expect(await collections(work)).toEqual([]);
});
