// The writer of outcomes where a write fails at an awkward moment: delivery waits while it is told to, and must not wait for ever.

import { expect, onTestFinished, test, vi } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { OutcomeWriter } from '../../src/delivery/outcome.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the writer hands outcomes on as they are
const outcome = (recipient: string): OutcomeEvent => ({ kind: 'delivered', recipient }) as OutcomeEvent;

test('where a write fails just before the next one begins, that one takes its outcomes along, and delivery goes on', async () => {
  const writes: (PromiseWithResolvers<void> & { readonly outcomes: readonly OutcomeEvent[] })[] = [];
  const health: boolean[] = [];
  const spool = {
    record: (outcomes: readonly OutcomeEvent[]) => {
      const write = { ...Promise.withResolvers<void>(), outcomes };
      writes.push(write);
      return write.promise;
    },
  };
  const events = { onHealth: (isHealthy: boolean) => void health.push(isHealthy), onWritten: () => undefined };
  const writer = new OutcomeWriter({ spool, log: silentLog, ...events });
  writer.write(outcome('a@one.test'));
  await expect.poll(() => writes.length).toBe(1);
  // The write of the second is to begin in this turn of the event loop, and the first one's failure is heard of before it.
  writer.write(outcome('b@one.test'));
  writes[0]?.reject(new Error('the connection broke'));
  await new Promise((turn) => setImmediate(turn));
  expect([writes.length, health]).toEqual([2, [false]]);
  expect(writes[1]?.outcomes.map(({ recipient }) => recipient)).toEqual(['a@one.test', 'b@one.test']);
  writes[1]?.resolve();
  await expect.poll(() => health.at(-1), { timeout: 3000 }).toBe(true);
  expect([writer.unwritten, writes.length]).toEqual([0, 2]);
});

test('where a write fails three times in a row, as when connections break, delivery waits for less than two seconds', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const health: boolean[] = [];
  let tries = 0;
  const spool = {
    record: async () => {
      tries += 1;
      if (tries <= 3) throw new Error('the connection broke');
    },
  };
  const events = { onHealth: (isHealthy: boolean) => void health.push(isHealthy), onWritten: () => undefined };
  const writer = new OutcomeWriter({ spool, log: silentLog, ...events });
  writer.write(outcome('a@one.test'));
  await new Promise((turn) => setImmediate(turn));
  await vi.advanceTimersByTimeAsync(1999);
  expect([writer.unwritten, tries, health]).toEqual([0, 4, [false, false, false, true]]);
});
