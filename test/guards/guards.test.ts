// The list of guards names what is there: a guard that was moved or written anew is written anew there, too, so that
// `npm run test:guards` goes on showing that a test holds it.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from '../support/postern-process.ts';
import { guards } from './guards.ts';

test('the text of every guard is once in its file, and its tests are there', () => {
  const wrong = guards.flatMap(({ file, guard, without, tests }) => {
    const times = readFileSync(join(projectRoot, file), 'utf8').split(guard).length - 1;
    const missing = tests.filter((each) => !existsSync(join(projectRoot, each.split(' > ')[0] ?? '')));
    return times === 1 && missing.length === 0 && guard !== without ? [] : [{ file, guard, times, missing }];
  });
  expect(wrong).toEqual([]);
  expect(guards.length).toBeGreaterThan(280);
});
