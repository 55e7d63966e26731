// The contract of the store of custom errors (D65, D94): one suite, run on every engine.

import { describe, expect, test } from 'vitest';
import { openCustomErrorStore } from '../../src/edge/custom/custom-error-store.ts';
import type { Engine } from '../support/engines.ts';
import { manualClock } from '../support/smtp-peers.ts';

const zone = { level: 'zone', id: '11'.repeat(16) } as const;
const account = { level: 'account', id: '11'.repeat(16) } as const;

/** Defines the suite for one engine. */
export function customErrorsContract(engine: Engine): void {
  describe(engine.name, () => {
    test('each owner and kind has one row, whose version counts its changes and whose revision orders all', async () => {
      const store = await openCustomErrorStore(await engine.make()(), manualClock());
      expect([await store.revision(), await store.changedSince(0)]).toEqual([0, []]);
      const first = await store.put(zone, 'rules', '[]');
      expect(first).toMatchObject({
        level: 'zone',
        owner: zone.id,
        kind: 'rules',
        version: 1,
        revision: 1,
        body: '[]',
      });
      await store.put(account, 'rules', 'theirs');
      await store.put(zone, 'page', 'html');
      const taken = await store.put(zone, 'rules', undefined);
      expect(taken).toMatchObject({ version: 2, revision: 4 });
      expect(taken?.body).toBeUndefined();
      expect(await store.revision()).toBe(4);
      expect((await store.changedSince(0)).map(({ revision }) => revision)).toEqual([2, 3, 4]);
      expect((await store.changedSince(3)).map(({ kind, body }) => [kind, body])).toEqual([['rules', undefined]]);
    });

    test('a change of a version that is not the present one is none', async () => {
      const store = await openCustomErrorStore(await engine.make()(), manualClock());
      expect(await store.put(zone, 'rules', 'first', 0)).toMatchObject({ version: 1 });
      expect(await store.put(zone, 'rules', 'second', 0)).toBeUndefined();
      expect(await store.put(zone, 'rules', undefined, 2)).toBeUndefined();
      expect(await store.changedSince(0)).toMatchObject([{ version: 1, body: 'first' }]);
      const puts = [1, 1, 1].map((version, index) => store.put(zone, 'rules', `third ${index}`, version));
      expect((await Promise.all(puts)).filter((put) => put !== undefined)).toHaveLength(1);
      expect(await store.put(zone, 'rules', undefined, 2)).toMatchObject({ version: 3 });
    });

    test('changes at the same time, of two connections too, have each a revision of its own', async () => {
      const open = engine.make();
      const one = await openCustomErrorStore(await open(), manualClock());
      const two = engine.isShared ? await openCustomErrorStore(await open(), manualClock()) : one;
      const puts = Array.from({ length: 40 }, (_, n) =>
        (n % 2 === 0 ? one : two).put({ level: 'zone', id: `${n % 8}` }, 'page', `${n}`),
      );
      const revisions = (await Promise.all(puts)).map((put) => put?.revision ?? 0);
      expect(revisions.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, n) => n + 1));
      expect(await one.revision()).toBe(40);
      expect((await two.changedSince(0)).map(({ version }) => version)).toEqual([5, 5, 5, 5, 5, 5, 5, 5]);
    });
  });
}
