// Queues of work by key that leave time to others behind each piece of work.

import { expect, test } from 'vitest';
import { createRestingQueues } from '../../src/base/keyed-queues.ts';
import { manualClock } from '../support/manual-clock.ts';

test('of one key 250 pieces of work wait at most, and others are taken once some have ended', async () => {
  const queued = createRestingQueues(manualClock());
  const gate = Promise.withResolvers<void>();
  const asked = Array.from({ length: 250 }, () => queued('one', () => gate.promise));
  await expect(queued('one', () => Promise.resolve())).rejects.toThrow('250 changes of this account wait already');
  expect(await queued('two', () => Promise.resolve('taken'))).toBe('taken');
  gate.resolve();
  await Promise.all(asked);
  expect(await queued('one', () => Promise.resolve('taken again'))).toBe('taken again');
});

test('who asks without a pause waits between pieces of work, and no other waits for it', async () => {
  const clock = manualClock();
  const queued = createRestingQueues(clock);
  const done: string[] = [];
  const ask = (key: string, name: string, seconds = 0.05): Promise<string> =>
    queued(key, async () => {
      clock.pass(seconds);
      done.push(name);
      return await Promise.resolve(name);
    });
  const failing = queued('one', () => Promise.reject(new Error('no')));
  const first = ask('one', 'first');
  const second = ask('one', 'second', 0);
  await expect(failing).rejects.toThrow('no');
  // Its result does not wait, only what comes behind it does.
  expect(await first).toBe('first');
  await new Promise((resolve) => setImmediate(resolve));
  expect(await ask('two', 'other')).toBe('other');
  expect(done).toEqual(['first', 'other']);
  expect(await second).toBe('second');
});
