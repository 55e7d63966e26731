import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { openShares, ShareStore } from '../../../src/delivery/hop/leased-shares.ts';
import { sharesContract } from '../../contract/shares.ts';
import { engines } from '../../support/engines.ts';

for (const engine of engines) if (engine.isShared) sharesContract(engine);

const waiting = { timeout: 15_000, interval: 10 };

test('the share of a process that was killed comes back after a while, and one that only slept begins anew', async () => {
  const connect = engines[0]?.make();
  if (!connect) throw new Error('no engine');
  const shares = await openShares(await connect(), { clock: systemClock, log: silentLog, lookMs: 20 });
  onTestFinished(() => shares.stop());
  const asleep = new ShareStore({ database: await connect(), holder: '00' });
  await asleep.beat();
  const wanted = [{ hop: 'h', most: 4, open: 0 }];
  expect((await asleep.renew(wanted)).get('h')).toEqual({ granted: 4, fair: 4 });
  const share = shares.share('other', {
    most: () => 1,
    open: () => 0,
    isUnused: () => false,
    changed: () => undefined,
  });
  share.want();
  // It is forgotten with all that it has; writing more for it is refused until it is entered again.
  await expect.poll(() => asleep.holders().then((all) => all.has('00')), waiting).toBe(false);
  await expect(asleep.renew([{ hop: 'h', most: 4, open: 4 }])).rejects.toThrow(/foreign key/i);
  expect(await asleep.beat()).toBe(false);
  expect((await asleep.renew(wanted)).get('h')).toEqual({ granted: 4, fair: 4 });
});
