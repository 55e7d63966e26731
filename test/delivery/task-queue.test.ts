// The tasks that wait for a route: in which order, how many in memory, what happens when it stops.

import { expect, test } from 'vitest';
import { FairFifo, Fifo } from '../../src/base/fifo.ts';
import { newJob, type Task } from '../../src/delivery/job.ts';
import { type TaskHost, TaskQueue } from '../../src/delivery/task-queue.ts';
import { ContentBudget, TransportShare } from '../../src/delivery/transport-share.ts';
import { spoolEntry } from '../support/spool-entry.ts';

const route = { name: 'default', type: 'capture', folder: '/nowhere', platformSignature: true } as const;
const share = new TransportShare(route, { name: 'default', transports: 1, contentBytes: 100 });
const takenAt = { wall: 0, monotonic: 0 };
const content = { head: Buffer.alloc(5), body: Buffer.alloc(5) };

function task(id: string, isLoaded: boolean): Task {
  const entry = spoolEntry({ id });
  const job = newJob({ entry, share, size: 10, recipientCount: 1, isClaimed: !isLoaded, takenAt, claimEndsAt: 0 });
  if (isLoaded) job.content = content;
  return { job, recipients: [{ address: 'bob@example.org', attempts: 0 }], deadConnections: 0 };
}

/** A host with room for so many octets; `arrive` lets every load end. */
function host(room = Number.POSITIVE_INFINITY) {
  const budget = new ContentBudget(room);
  let account = '';
  const arrivals: (() => void)[] = [];
  const givenBack: string[] = [];
  const stale = new Set<string>();
  const tasks: TaskHost = {
    load: ({ job }) => {
      account = job.entry.account;
      if (!budget.tryReserve(job.size, account)) return false;
      return new Promise((resolve) => {
        arrivals.push(() => {
          job.content = content;
          resolve(job.entry.id !== 'gone');
        });
      });
    },
    isStale: ({ job }) => stale.has(job.entry.id),
    giveBack: ({ job }) => givenBack.push(job.entry.id),
  };
  const arrive = async (): Promise<void> => {
    for (const arrival of arrivals.splice(0)) arrival();
    await new Promise((resolve) => setImmediate(resolve));
  };
  const release = (octets: number): void => budget.release(octets, account);
  return { queue: new TaskQueue(tasks), release, arrive, arrivals, givenBack, stale };
}

function pullAll(queue: TaskQueue): string[] {
  const ids: string[] = [];
  for (let next = queue.pull(); next; next = queue.pull()) ids.push(next.job.entry.id);
  return ids;
}

test('new mail and what is read back from the spool take turns', async () => {
  const { queue, arrive } = host();
  for (const id of ['old1', 'old2', 'old3']) queue.push(task(id, false));
  for (const id of ['new1', 'new2', 'new3', 'new4']) queue.push(task(id, true));
  await arrive();
  expect(queue.ready).toBe(7);
  expect(pullAll(queue)).toEqual(['new1', 'old1', 'new2', 'old2', 'new3', 'old3', 'new4']);
  expect(queue.length).toBe(0);
});

test('only some are read ahead, and only as far as there is room', async () => {
  const many = host();
  for (let count = 0; count < 100; count += 1) many.queue.push(task(`m${count}`, false));
  expect(many.arrivals).toHaveLength(16);
  const little = host(25);
  for (let count = 0; count < 5; count += 1) little.queue.push(task(`m${count}`, false));
  expect(little.arrivals).toHaveLength(2);
  await little.arrive();
  expect(pullAll(little.queue)).toEqual(['m0', 'm1']);
  expect(little.queue.length).toBe(3);
  little.release(20);
  little.queue.fill();
  await little.arrive();
  expect(pullAll(little.queue)).toEqual(['m2', 'm3']);
});

test('what is no longer there makes way for the next', async () => {
  const { queue, arrive } = host();
  let ready = 0;
  queue.onReady = () => void (ready += 1);
  queue.push(task('gone', false));
  queue.push(task('here', false));
  await arrive();
  expect(ready).toBe(1);
  expect(pullAll(queue)).toEqual(['here']);
});

test('a held queue hands nothing out until it is let go', () => {
  const { queue } = host();
  let ready = 0;
  queue.onReady = () => void (ready += 1);
  queue.push(task('a', true));
  queue.pause(true);
  expect(queue.pull()).toBeUndefined();
  expect(ready).toBe(0);
  queue.pause(false);
  expect(ready).toBe(1);
  expect(pullAll(queue)).toEqual(['a']);
});

test('a stale claim is given back', () => {
  const { queue, stale, givenBack } = host();
  for (const id of ['a', 'b', 'c']) queue.push(task(id, true));
  stale.add('a').add('b');
  expect(pullAll(queue)).toEqual(['c']);
  expect(givenBack).toEqual(['a', 'b']);
});

test('a stopped queue gives everything back, what is just being loaded as soon as it is', async () => {
  const { queue, arrive, givenBack } = host(15);
  queue.push(task('loading', false));
  queue.push(task('blocked', false));
  queue.push(task('unloaded', false));
  queue.push(task('fresh', true));
  queue.stop();
  expect(givenBack.toSorted()).toEqual(['blocked', 'fresh', 'unloaded']);
  await arrive();
  expect(givenBack).toContain('loading');
  expect(queue.length).toBe(0);
});

test('a budget lets one message in whatever its size, and no more than its limit otherwise', () => {
  const budget = new ContentBudget(100);
  expect(budget.tryReserve(1000, 'dev')).toBe(true);
  expect(budget.tryReserve(1, 'dev')).toBe(false);
  budget.release(1000, 'dev');
  expect([60, 30, 1].map((octets) => budget.tryReserve(octets, 'dev'))).toEqual([true, true, false]);
  expect(budget.used).toBe(90);
});

test('a budget leaves a tenth to other accounts, and one message of each account may exceed it, one at a time', () => {
  const budget = new ContentBudget(100);
  for (let at = 0; at < 9; at += 1) expect(budget.tryReserve(10, 'greedy')).toBe(true);
  expect(budget.tryReserve(1, 'greedy')).toBe(false);
  expect(['a', 'b', 'c'].map((account) => budget.tryReserve(4, account))).toEqual([true, true, true]);
  expect(['d', 'e'].map((account) => budget.tryReserve(1, account))).toEqual([false, false]);
  budget.release(10, 'greedy');
  expect(budget.tryReserve(70, 'd')).toBe(true);
  expect(budget.tryReserve(1, 'e')).toBe(false);
});

test('a message without room in memory holds up those of its account alone, and can be held', async () => {
  const { queue, arrive, givenBack } = host(30);
  const of = (account: string, id: string): Task => {
    const one = task(id, false);
    return { ...one, job: { ...one.job, entry: { ...one.job.entry, account } } };
  };
  for (const id of ['a1', 'a2', 'a3', 'a4']) queue.push(of('a', id));
  queue.push(of('b', 'b1'));
  await arrive();
  expect(pullAll(queue)).toEqual(['a1', 'a2', 'b1']);
  queue.giveBackWhere(({ job }) => job.entry.id === 'a3');
  expect([givenBack, queue.length]).toEqual([['a3'], 1]);
});

test('a queue keeps its order over many turns', () => {
  const fifo = new Fifo<number>();
  const seen: number[] = [];
  for (let value = 0; value < 10_000; value += 1) {
    fifo.push(value);
    if (value % 3 !== 0) seen.push(fifo.shift() ?? -1);
  }
  expect(fifo.length).toBe(10_000 - seen.length);
  seen.push(...fifo.takeAll());
  expect(seen).toEqual(Array.from({ length: 10_000 }, (_, value) => value));
  expect(fifo.shift()).toBeUndefined();
});

test('owners take turns, and one who had nothing here is next or next but one', () => {
  const fifo = new FairFifo<string>();
  for (let count = 1; count <= 6; count += 1) fifo.push('many', `many${count}`);
  expect([fifo.shift(), fifo.shift()]).toEqual(['many1', 'many2']);
  fifo.push('few', 'few1');
  expect([fifo.shift(), fifo.shift()]).toContain('few1');
  for (const owner of ['a', 'b', 'c', 'd']) fifo.push(owner, owner);
  // Newcomers leave every second turn to the others.
  const next = Array.from({ length: 6 }, () => fifo.shift());
  expect(next.filter((item) => item?.startsWith('many'))).toHaveLength(3);
  expect(next.filter((item) => item?.length === 1)).toEqual(['a', 'b', 'c']);
  expect(fifo.length).toBe(1);
  expect(fifo.takeAll()).toEqual(['d']);
  expect(fifo.shift()).toBeUndefined();
});
