// A request that waits to hear what became of its message (D44) holds no room in memory meanwhile: the message is on disk.

import { expect, test } from 'vitest';
import { BodyBudget } from '../../../src/base/body-budget.ts';
import { goodMessage, startRest } from '../../support/rest-gateway.ts';

test('who waits with Prefer holds no room, and the others find it', async () => {
  const bodies = new BodyBudget(16 * 1_048_576);
  const gateway = await startRest({ bodies });
  const large = { ...goodMessage, text: 'A line of text.\r\n'.repeat(60_000) };
  const waiting = gateway.post('send', large, { headers: { Prefer: 'wait=30' } });
  await expect.poll(() => gateway.sent.length).toBe(1);
  await expect.poll(() => bodies.held).toBe(0);
  expect((await gateway.post('send', large)).status).toBe(200);
  gateway.outcomes.release();
  const { status, headers } = await waiting;
  expect([status, headers.get('Preference-Applied')]).toEqual([200, 'wait=30']);
});
