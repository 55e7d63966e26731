// The count of the gateways of one database: each zone has its own.

import { expect, test } from 'vitest';
import { createMinuteCounts } from '../../../src/accounts/minute-window.ts';
import { ToldCounts } from '../../../src/accounts/told-counts.ts';
import { silentLog } from '../../../src/base/log.ts';
import { tellRateLimits } from '../../../src/edge/zone/rate-limit.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { manualClock } from '../../support/smtp-peers.ts';

test('a client that has used up its requests to one zone has those to another', async () => {
  const clock = manualClock();
  const minutes = createMinuteCounts(() => clock.monotonic());
  const counts = await ToldCounts.open(await openTestDatabase(':memory:'), { clock, log: silentLog, minutes });
  const limitOf = tellRateLimits((...asked) => counts.takeWindow(...asked));
  const [one, two] = ['1', '2'].map((id) => limitOf(id.repeat(32), { requests: 1, perSeconds: 60 }));
  expect([one, one, two, two].map((limit) => limit?.take('192.0.2.1'))).toEqual([0, 60, 0, 60]);
  await counts.close();
});
