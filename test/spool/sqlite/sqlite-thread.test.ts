// When the spool's thread is sent what waits. The thread's side of the port is played here, so that its answers come when the test says.

import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import type { ReadBatch, WorkerMessage, WriteBatch } from '../../../src/spool/sqlite/sqlite-protocol.ts';
import { type SpoolPort, SpoolThread } from '../../../src/spool/sqlite/sqlite-thread.ts';

test('outcomes that wait while refusals are written are sent once these are written', async () => {
  const sent: (WriteBatch | ReadBatch | 'close')[] = [];
  let answer: ((message: WorkerMessage) => void) | undefined;
  const port = {
    postMessage: (message: (typeof sent)[number]) => void sent.push(message),
    on: (event: string, listener: never) => {
      if (event === 'message') answer = listener;
    },
  } as unknown as SpoolPort;
  const listener = { onWritten: () => undefined, onHealth: () => undefined, onLost: () => undefined };
  const thread = new SpoolThread(port, { clock: systemClock, listener });
  const kinds = (): readonly (readonly string[])[] =>
    sent.map((batch) => (batch === 'close' ? ['close'] : batch.operations.map(({ kind }) => kind)));

  void thread.run('record', [], 0);
  void thread.run('refusals', [], []);
  await expect.poll(kinds).toEqual([['refusals']]);
  // Longer than an outcome waits for a message to be sent with.
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(kinds()).toEqual([['refusals']]);
  const result = { outcomes: [{ value: undefined }], orphanedBodies: [], removed: [], isBusy: false };
  answer?.({ kind: 'written', result });
  await expect.poll(kinds).toEqual([['refusals'], ['record']]);
});
