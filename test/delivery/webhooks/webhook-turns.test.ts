// The turns of webhooks that are forgotten and found again while they have one or wait for one.

import { expect, test } from 'vitest';
import type { KnownWebhook } from '../../../src/delivery/webhooks/known-webhooks.ts';
import { WebhookTurns } from '../../../src/delivery/webhooks/webhook-turns.ts';

function known(isSlow: boolean): KnownWebhook {
  const never = Number.NEGATIVE_INFINITY;
  return {
    ...{ id: 'a', account: 'dev', kinds: undefined, nextAt: 0, leasedAt: never, probedAt: never },
    ...{ isSlow, isElsewhere: false, isWanted: false },
  };
}

test('one that was slow and is found again while it has its turn has another, as it is known now', async () => {
  const ends: (() => void)[] = [];
  const turns = new WebhookTurns(
    () =>
      new Promise((done) => {
        ends.push(() => done(false));
      }),
  );
  turns.ask(known(true));
  await expect.poll(() => ends.length).toBe(1);
  turns.ask(known(false));
  ends[0]?.();
  await expect.poll(() => ends.length).toBe(2);
  ends[1]?.();
  await turns.end();
});
