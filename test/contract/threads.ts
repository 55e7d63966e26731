// The contract of the replaced Message-IDs that a spool keeps (D23): one suite, run on each store.

import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import type { Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

/** How the suite gets at a store. */
export interface ThreadsUnderTest {
  /** A fresh store. */
  open(clock: Clock): Promise<Spool>;
  /** Called after each test, once every spool is closed. */
  clean(): Promise<void>;
}

const day = 86_400_000;

/** Defines the suite for one store. */
export function threadsContract(name: string, store: ThreadsUnderTest): void {
  describe(`${name}: threads`, () => {
    let now = someTime;
    let spool: Spool | undefined;

    async function open(): Promise<Spool> {
      now = someTime;
      spool = await store.open({ now: () => now, monotonic: () => now });
      return spool;
    }

    afterEach(async () => {
      await spool?.close();
      spool = undefined;
      await store.clean();
    });

    async function add(changes: Partial<SpoolEntry>): Promise<string> {
      const entry = spoolEntry({ acceptedAt: now, keepsClientId: true, ...changes });
      await spool?.add(entry, now);
      return entry.messageId;
    }

    test('finds what an account’s messages left with, the newest where an id was used again', async () => {
      await open();
      const one = await add({ clientMessageId: '<one@c.test>' });
      await add({ clientMessageId: '<two@c.test>' });
      const again = await add({ clientMessageId: ' <two@c.test>\t' });
      expect(await spool?.replacedIds('dev', ['<one@c.test>', '<two@c.test>', '<three@c.test>'])).toEqual(
        new Map([
          ['<one@c.test>', one],
          ['<two@c.test>', again],
        ]),
      );
    });

    test('never finds an id of another account, nor one that was not to be kept or is none', async () => {
      await open();
      await add({ clientMessageId: '<one@c.test>' });
      await add({ clientMessageId: '<off@c.test>', keepsClientId: false });
      await add({ clientMessageId: 'no id' });
      await add({});
      expect(await spool?.replacedIds('pay', ['<one@c.test>'])).toEqual(new Map());
      expect(await spool?.replacedIds('dev', ['<off@c.test>', 'no id', ''])).toEqual(new Map());
    });

    test('keeps an id for 180 days', async () => {
      await open();
      const one = await add({ clientMessageId: '<one@c.test>' });
      now += 180 * day - 1;
      expect(await spool?.replacedIds('dev', ['<one@c.test>'])).toEqual(new Map([['<one@c.test>', one]]));
      now += 1;
      expect(await spool?.replacedIds('dev', ['<one@c.test>'])).toEqual(new Map());
    });
  });
}
