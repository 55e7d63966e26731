// The turns of webhooks that are forgotten and found again while they have one or wait for one.

import { expect, test } from 'vitest';
import { type KnownWebhook, WebhookTurns } from '../../../src/delivery/webhooks/webhook-turns.ts';

function known(isSlow: boolean, id = 'a'): KnownWebhook {
  const never = Number.NEGATIVE_INFINITY;
  return {
    ...{ id, account: 'dev', kinds: undefined, nextAt: 0, leasedAt: never, probedAt: never },
    ...{ isSlow, isElsewhere: false, isWanted: false },
  };
}

test('one that was slow and is found again while it has its turn has another, as it is known now', async () => {
  const ends: (() => void)[] = [];
  const turns = new WebhookTurns({
    run: () =>
      new Promise((done) => {
        ends.push(() => done(false));
      }),
  });
  turns.ask(known(true));
  await expect.poll(() => ends.length).toBe(1);
  turns.ask(known(false));
  ends[0]?.();
  await expect.poll(() => ends.length).toBe(2);
  ends[1]?.();
  await turns.end();
});

test('one that was slow and is found again while it waits has its next turn among those that work', async () => {
  const runs: { readonly id: string; readonly end: (again: boolean) => void }[] = [];
  const turns = new WebhookTurns({ run: (id) => new Promise((end) => void runs.push({ id, end })) });
  const ran = (): string[] => runs.map(({ id }) => id);
  // An account has eight of the sixteen turns of those that fail.
  const slow = Array.from({ length: 10 }, (_, at) => known(true, `${at}`));
  for (const one of slow) turns.ask(one);
  await expect.poll(ran).toHaveLength(8);
  turns.ask(known(false, '8'));
  runs[0]?.end(false);
  await expect.poll(ran).toHaveLength(9);
  runs[8]?.end(true);
  await expect.poll(() => ran().slice(8).toSorted()).toEqual(['8', '8', '9']);
  for (const { end } of runs) end(false);
  await turns.end();
});
