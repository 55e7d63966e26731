import { expect, test } from 'vitest';
import { type Grouped, GroupQueue } from '../../src/spool/core/group-queue.ts';

interface Named extends Grouped {
  readonly name: string;
}

function named(name: string, isAlone = false): Named {
  return { name, isAlone, octets: 0, isPatient: false };
}

/** A queue whose first write goes on until it is let go, and the names of each group. */
function startQueue() {
  const groups: string[][] = [];
  const first = Promise.withResolvers<void>();
  const queue = new GroupQueue<Named>(
    [
      async (group) => {
        groups.push(group.map(({ name }) => name));
        if (groups.length === 1) await first.promise;
      },
    ],
    false,
  );
  return { queue, groups, letGo: first.resolve };
}

test('what is written alone goes before the others, one behind another as they came', async () => {
  const { queue, groups, letGo } = startQueue();
  queue.put(named('first'));
  await expect.poll(() => groups.length).toBe(1);
  queue.put(named('message'));
  queue.put(named('refusals', true));
  queue.put(named('more refusals', true));
  queue.put(named('outcome'));
  letGo();
  await queue.quiet();
  expect(groups).toEqual([['first'], ['refusals'], ['more refusals'], ['message', 'outcome']]);
});

test('is quiet only when nothing waits and nothing is being written', async () => {
  const { queue, groups, letGo } = startQueue();
  expect(queue.isQuiet).toBe(true);
  queue.put(named('first'));
  expect(queue.isQuiet).toBe(false);
  await expect.poll(() => groups.length).toBe(1);
  expect(queue.isQuiet).toBe(false);
  letGo();
  await queue.quiet();
  expect(queue.isQuiet).toBe(true);
});

test('a group waits for a message that is being judged, and goes as soon as that is there', async () => {
  const { queue, groups } = startQueue();
  queue.expect(1);
  queue.put(named('first'));
  await new Promise((turn) => setImmediate(turn));
  expect(groups).toEqual([]);
  queue.expect(-1);
  queue.put(named('second'));
  await new Promise((turn) => setImmediate(turn));
  expect(groups).toEqual([['first', 'second']]);
});

test('a group goes without a message that does not come', async () => {
  const { queue, groups } = startQueue();
  queue.expect(1);
  queue.put(named('first'));
  await expect.poll(() => groups).toEqual([['first']]);
});
