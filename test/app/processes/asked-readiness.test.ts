// How often the supervisor is asked whether all are ready, and whose answer is given to whom.

import { expect, test } from 'vitest';
import { askedReadiness } from '../../../src/app/processes/supervisor-link.ts';

test('however many ask, one question is under way and one waits, and nobody gets an answer to a question of before', async () => {
  const questions: PromiseWithResolvers<boolean>[] = [];
  const ask = askedReadiness(() => {
    const question = Promise.withResolvers<boolean>();
    questions.push(question);
    return question.promise;
  });
  const first = ask();
  const later = Array.from({ length: 100 }, () => ask());
  expect(questions).toHaveLength(1);
  questions[0]?.resolve(true);
  expect(await first).toBe(true);
  await expect.poll(() => questions.length).toBe(2);
  const last = ask();
  questions[1]?.resolve(false);
  expect(new Set(await Promise.all(later))).toEqual(new Set([false]));
  await expect.poll(() => questions.length).toBe(3);
  questions[2]?.resolve(true);
  expect(await last).toBe(true);
  void ask();
  expect(questions).toHaveLength(4);
});

test('where the supervisor is gone nobody is ready', async () => {
  const ask = askedReadiness(() => Promise.reject(new Error('gone')));
  expect([await ask(), await ask()]).toEqual([false, false]);
});
