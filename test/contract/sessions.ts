// The contract of the console's sessions: one suite, run on every engine.

import { describe, expect, test } from 'vitest';
import { openSessionStore } from '../../src/web/console/session-store.ts';
import type { Engine } from '../support/engines.ts';

const token = 'ab'.repeat(32);
const dev = { account: 'a1'.repeat(16), credential: 'default', token } as const;
const other = { account: 'b2'.repeat(16), credential: 'reader' } as const;
const at = { now: 1000, expiresAt: 2000 } as const;

/** Defines the suite for one engine. */
export function sessionsContract(engine: Engine): void {
  describe(engine.name, () => {
    test('a session is found by its secret until it expires or is ended', async () => {
      const store = await openSessionStore(await engine.make()());
      const secret = await store.open({ ...dev, ...at });
      const beside = await store.open({ ...other, ...at });
      expect(secret).toMatch(/^[\w-]{43}$/);
      expect(await store.find(secret, 1999)).toEqual({ ...dev, expiresAt: 2000 });
      expect(await store.find(secret, 2000)).toBeUndefined();
      expect(await store.find('x'.repeat(43), 1000)).toBeUndefined();
      await store.end(secret);
      await store.end(secret);
      expect(await store.find(secret, 1999)).toBeUndefined();
      expect(await store.find(beside, 1999)).toEqual({ ...other, expiresAt: 2000 });
    });

    test('one without a token tells none', async () => {
      const store = await openSessionStore(await engine.make()());
      const secret = await store.open({ ...other, ...at });
      expect(await store.find(secret, 1999)).toEqual({ ...other, expiresAt: 2000 });
    });

    test('neither secrets nor tokens nor their hashes stand in the tables', async () => {
      const database = await engine.make()();
      const store = await openSessionStore(database);
      const secret = await store.open({ ...dev, ...at });
      const code = await store.offerLink({ ...other, ...at });
      const rows = JSON.stringify([
        await database.query('SELECT * FROM console_sessions'),
        await database.query('SELECT * FROM console_links'),
      ]);
      expect(rows).toContain(dev.account);
      for (const told of [secret, token, code]) expect(rows).not.toContain(told);
    });

    test('what has expired goes, and of an account the oldest beyond its number', async () => {
      const database = await engine.make()();
      const store = await openSessionStore(database, { perAccount: 3, all: 5 });
      const count = async () => (await database.query('SELECT * FROM console_sessions')).length;
      const secrets: string[] = [];
      for (let turn = 0; turn < 5; turn += 1) {
        secrets.push(await store.open({ ...dev, now: 1000 + turn, expiresAt: 5000 }));
      }
      expect(await count()).toBe(3);
      expect(await store.find(secrets[1] ?? '', 1500)).toBeUndefined();
      expect(await store.find(secrets[2] ?? '', 1500)).toBeDefined();
      for (const name of ['b', 'c', 'd']) await store.open({ ...dev, account: name, now: 1010, expiresAt: 1020 });
      expect(await count()).toBe(5);
      // The oldest of all had to go.
      expect(await store.find(secrets[2] ?? '', 1500)).toBeUndefined();
      expect(await store.find(secrets[3] ?? '', 1500)).toBeDefined();
      await store.open({ ...other, now: 1020, expiresAt: 5000 });
      expect(await count()).toBe(3);
    });

    test('a link is used once, before it expires', async () => {
      const store = await openSessionStore(await engine.make()());
      const code = await store.offerLink({ ...other, ...at });
      const late = await store.offerLink({ ...other, ...at });
      expect(await store.useLink('x'.repeat(43), 1001)).toBeUndefined();
      // Of two that come at the same time, one is let in.
      const used = await Promise.all([store.useLink(code, 1001), store.useLink(code, 1001)]);
      expect(used.filter((each) => each !== undefined)).toEqual([other]);
      expect(await store.useLink(code, 1001)).toBeUndefined();
      expect(await store.useLink(late, 2000)).toBeUndefined();
    });
  });
}
