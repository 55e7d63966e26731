// The contract of the figures by minute: one suite, run on every engine.

import { describe, expect, test } from 'vitest';
import { type Figure, openFigureStore } from '../../src/spool/figures/figure-store.ts';
import type { Engine } from '../support/engines.ts';

const figure = (minute: number, name: string, count: number, account = 'dev'): Figure => ({
  account,
  minute,
  name,
  count,
});

/** Defines the suite for one engine. */
export function figuresContract(engine: Engine): void {
  describe(engine.name, () => {
    test('what several processes count is added up, by account or for all', async () => {
      const connect = engine.make();
      const one = await openFigureStore(await connect());
      const other = engine.isShared ? await openFigureStore(await connect()) : one;
      await Promise.all([
        one.add([figure(10, 'accepted', 1), figure(11, 'accepted', 2), figure(10, 'reason A', 1)]),
        other.add([figure(10, 'reason A', 4), figure(10, 'accepted', 3), figure(10, 'accepted', 7, 'other')]),
      ]);
      const sorted = async (query: Parameters<typeof one.read>[0]) =>
        (await one.read(query)).toSorted(
          (left, right) => left.minute - right.minute || (left.name < right.name ? -1 : 1),
        );
      expect(await sorted({ account: 'dev', since: 10, step: 1 })).toEqual([
        { minute: 10, name: 'accepted', count: 4 },
        { minute: 10, name: 'reason A', count: 5 },
        { minute: 11, name: 'accepted', count: 2 },
      ]);
      expect(await sorted({ since: 10, step: 1, prefix: 'accepted' })).toEqual([
        { minute: 10, name: 'accepted', count: 11 },
        { minute: 11, name: 'accepted', count: 2 },
      ]);
      expect(await sorted({ account: 'dev', since: 10, step: 5, prefix: 'reason ' })).toEqual([
        { minute: 10, name: 'reason A', count: 5 },
      ]);
      expect(await sorted({ account: 'dev', since: 11, step: 5, prefix: 'acc' })).toEqual([
        { minute: 10, name: 'accepted', count: 2 },
      ]);
    });

    test('of what is told of moments the last counts, and of several minutes or accounts the greatest', async () => {
      const store = await openFigureStore(await engine.make()());
      await store.add([figure(10, 'now waiting', 7), figure(11, 'now waiting', 3)]);
      await store.add([figure(10, 'now waiting', 5), figure(10, 'now waiting', 9, '')]);
      expect(await store.read({ account: 'dev', since: 10, step: 1, prefix: 'now ' })).toEqual([
        { minute: 10, name: 'now waiting', count: 5 },
        { minute: 11, name: 'now waiting', count: 3 },
      ]);
      expect(await store.read({ since: 10, step: 5, prefix: 'now ' })).toEqual([
        { minute: 10, name: 'now waiting', count: 9 },
      ]);
    });

    test('more than one statement takes are kept whole; old ones go', async () => {
      const store = await openFigureStore(await engine.make()());
      await store.add(Array.from({ length: 1001 }, (_, index) => figure(index, 'accepted', 1)));
      const total = async (): Promise<number> =>
        (await store.read({ account: 'dev', since: 0, step: 10_000 })).reduce((sum, { count }) => sum + count, 0);
      expect(await total()).toBe(1001);
      await store.prune(1000);
      expect(await total()).toBe(1);
      await store.add([]);
    });
  });
}
