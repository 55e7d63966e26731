// What the shares of next hops must keep to, on every engine that several processes can share.

import { describe, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import type { HopShare } from '../../src/delivery/hop/hop-share.ts';
import { openShares } from '../../src/delivery/hop/leased-shares.ts';
import type { Engine } from '../support/engines.ts';

const waiting = { timeout: 15_000, interval: 10 };
const lookMs = 40;

/** A process that has as many connections open as it may, for as long as it has mail. */
interface Deliverer {
  readonly share: HopShare;
  /** Its connections may close. */
  isBusy: boolean;
  hasMail: boolean;
  open: number;
}

/** The contract of shares that several processes lease from each other. */
export function sharesContract(engine: Engine): void {
  describe(`shares of next hops in ${engine.name}`, () => {
    async function start(count: number, most: number) {
      const connect = engine.make();
      const all: Deliverer[] = [];
      const stops: (() => Promise<void>)[] = [];
      for (let index = 0; index < count; index += 1) {
        const shares = await openShares(await connect(), { clock: systemClock, log: silentLog, lookMs });
        let ended: Promise<void> | undefined;
        const stop = (): Promise<void> => (ended ??= shares.stop());
        onTestFinished(stop);
        const one = { isBusy: false, hasMail: true, open: 0 };
        const changed = (): void => {
          if (!one.isBusy || one.open < share.connections) one.open = one.hasMail ? share.connections : 0;
        };
        const user = {
          most: () => most,
          open: () => one.open,
          isUnused: () => !one.hasMail && one.open === 0,
          changed,
        };
        const share = shares.share('route mx.test', user);
        all.push(Object.assign(one, { share }));
        stops.push(stop);
      }
      const counts = (): readonly number[] => all.map(({ share }) => share.connections);
      const open = (): number => all.reduce((sum, one) => sum + one.open, 0);
      return { all, stops, counts, open };
    }

    test('a second process gets its part once the first has closed connections, and never earlier', async () => {
      const { all, counts, open } = await start(2, 5);
      const [first, second] = all;
      if (!first || !second) throw new Error('not started');
      first.share.want();
      await expect.poll(counts, waiting).toEqual([5, 0]);
      expect([first.share.part, first.open]).toEqual([1, 5]);
      first.isBusy = true;
      second.share.want();
      // The first is to close some of its connections, and until it has, the second gets none.
      await expect.poll(() => counts()[0], waiting).toBeLessThan(5);
      await new Promise((wait) => setTimeout(wait, 5 * lookMs));
      expect([second.open, open()]).toEqual([0, 5]);
      first.isBusy = false;
      first.open = first.share.connections;
      await expect.poll(() => counts().toSorted((a, b) => a - b), waiting).toEqual([2, 3]);
      expect(first.share.part + second.share.part).toBe(1);
      // What has no mail any more leaves its part to the other.
      Object.assign(first, { hasMail: false, open: 0 });
      await expect.poll(() => second.share.connections, waiting).toBe(5);
    });

    test('where there are more processes than connections, those without a share know it', async () => {
      const { all, counts } = await start(3, 2);
      for (const { share } of all) share.want();
      await expect.poll(() => counts().toSorted((a, b) => a - b), waiting).toEqual([0, 1, 1]);
      await expect.poll(() => all.filter(({ share }) => share.isNone).length, waiting).toBe(1);
    });

    test('what a process that ends had comes back, whether it says a word or not', async () => {
      const { all, stops, counts } = await start(3, 6);
      for (const { share } of all) share.want();
      await expect.poll(counts, waiting).toEqual([2, 2, 2]);
      await stops[2]?.();
      await expect.poll(() => counts().slice(0, 2), waiting).toEqual([3, 3]);
    });
  });
}
