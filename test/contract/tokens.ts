// The contract of the token store (D92-D94): one suite, run on every engine.

import { describe, expect, test } from 'vitest';
import { hashToken, openTokenStore, type TokenQuery } from '../../src/accounts/token-store.ts';
import type { Engine } from '../support/engines.ts';

const wanted = { account: 'a1'.repeat(16), credential: 'cron', createdAt: 1 } as const;

/** Defines the suite for one engine. */
export function tokensContract(engine: Engine): void {
  describe(engine.name, () => {
    test('a token is found by its hash until it is revoked or expires', async () => {
      const store = await openTokenStore(await engine.make()());
      const { token, record } = await store.create({ ...wanted, scopes: ['email:send'], expiresAt: 10 });
      const sha256 = hashToken(token);
      const { account, credential } = wanted;
      expect(await store.findLive(sha256, 9)).toEqual({ account, credential, scopes: ['email:send'] });
      expect(await store.findLive(sha256, 10)).toBeUndefined();
      expect(await store.findLive(hashToken('another'), 1)).toBeUndefined();
      expect(await store.revoke({ id: record.id, now: 5 })).toEqual({ ...record, revokedAt: 5 });
      expect(await store.findLive(sha256, 6)).toBeUndefined();
      expect(await store.list()).toEqual([{ ...record, revokedAt: 5 }]);
    });

    test('it is revoked once, and only where it is of the account that is named', async () => {
      const store = await openTokenStore(await engine.make()());
      const { token, record } = await store.create(wanted);
      expect(await store.revoke({ id: record.id, account: 'b2'.repeat(16), now: 2 })).toBeUndefined();
      expect(await store.findLive(hashToken(token), 2)).toEqual({ account: wanted.account, credential: 'cron' });
      expect((await store.revoke({ id: record.id, account: wanted.account, now: 3 }))?.revokedAt).toBe(3);
      expect((await store.revoke({ id: record.id, now: 4 }))?.revokedAt).toBe(3);
      expect(await store.revoke({ id: 'unknown', now: 4 })).toBeUndefined();
    });

    test('the tokens of an account come page by page, the oldest first, all of them or those that are live', async () => {
      const store = await openTokenStore(await engine.make()());
      const made: string[] = [];
      // Of two that were made at the same time the id decides.
      for (const createdAt of [5, 5, 5, 7, 6]) made.push((await store.create({ ...wanted, createdAt })).record.id);
      await store.create({ ...wanted, account: 'b2'.repeat(16), createdAt: 5 });
      const expired = (await store.create({ ...wanted, createdAt: 4, expiresAt: 10 })).record.id;
      expect((await store.list(wanted.account)).map(({ id }) => id).sort()).toEqual([...made, expired].sort());
      const [first = '', second = '', third = '', fourth = '', fifth = ''] = made;
      const live = [...[first, second, third].sort(), fifth, fourth];
      const pages = async (limit: number, liveAt?: number): Promise<readonly (readonly string[])[]> => {
        const found: string[][] = [];
        for (let after: TokenQuery['after'] | null; after !== null; ) {
          const query = { limit, ...(after ? { after } : {}), ...(liveAt === undefined ? {} : { liveAt }) };
          const { tokens, next = null } = await store.page(wanted.account, query);
          found.push(tokens.map(({ id }) => id));
          after = next;
        }
        return found;
      };
      expect(await pages(2, 10)).toEqual([live.slice(0, 2), live.slice(2, 4), live.slice(4)]);
      expect(await pages(3)).toEqual([[expired, ...live.slice(0, 2)], live.slice(2)]);
      await store.revoke({ id: first, now: 11 });
      expect(await pages(9, 9)).toEqual([[expired, ...live.filter((id) => id !== first)]]);
    });

    test('what is done in one transaction is kept whole or not at all', async () => {
      const store = await openTokenStore(await engine.make()());
      const failing = store.transaction(async (tokens) => {
        await tokens.create(wanted);
        expect(await tokens.list(wanted.account)).toHaveLength(1);
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await store.list()).toEqual([]);
      // Of many that make one only where there is none, one makes it.
      const makeFirst = () =>
        store.transaction(async (tokens) => {
          if ((await tokens.list()).length > 0) return 0;
          await tokens.create(wanted);
          return 1;
        });
      const made = await Promise.all(Array.from({ length: 8 }, makeFirst));
      expect(made.reduce<number>((sum, one) => sum + one, 0)).toBe(1);
    });
  });
}
