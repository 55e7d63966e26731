// When the spool's thread is sent what waits. The thread's side of the port is played here, so that its answers come when the test says.

import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { type SpoolPort, SpoolThread } from '../../../src/spool/sqlite/sqlite-thread.ts';

type Sent = Parameters<SpoolPort['postMessage']>[0];
type Heard = Parameters<Extract<Parameters<SpoolPort['on']>, ['message', unknown]>[1]>[0];

test('outcomes that wait while refusals are written are sent once these are written', async () => {
  const sent: Sent[] = [];
  let answer: ((message: Heard) => void) | undefined;
  const port = {
    postMessage: (message: Sent) => void sent.push(message),
    on: (event: string, listener: never) => {
      if (event === 'message') answer = listener;
    },
  } as SpoolPort;
  const listener = { onWritten: () => undefined, onHealth: () => undefined, onLost: () => undefined };
  const thread = new SpoolThread(port, { clock: systemClock, listener });
  const kinds = (): readonly (readonly string[])[] =>
    sent.map((batch) => (batch === 'close' ? ['close'] : batch.operations.map(({ kind }) => kind)));

  void thread.writeOutcome({ kind: 'record' } as never);
  void thread.writeOutcome({ kind: 'refusals' } as never);
  expect(kinds()).toEqual([['refusals']]);
  // Longer than an outcome waits for a message to be sent with.
  await new Promise((resolve) => setTimeout(resolve, 300));
  answer?.({ kind: 'written', result: { outcomes: [{ value: undefined }] } } as Heard);
  await expect.poll(kinds).toEqual([['refusals'], ['record']]);
});
