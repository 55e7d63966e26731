// The contract of the suppression list (D51, D94): one suite, run on every engine.

import { describe, expect, test } from 'vitest';
import type { Database } from '../../src/base/database/database.ts';
import {
  type NewSuppression,
  openSuppressionStore,
  type SuppressionStore,
} from '../../src/delivery/feedback/suppression-store.ts';
import type { Engine } from '../support/engines.ts';
import fc from '../support/properties.ts';
import { manualClock } from '../support/smtp-peers.ts';

const dev = 'a1'.repeat(16);
const other = 'c1'.repeat(16);

function entry(address: string, more: Partial<NewSuppression> = {}): NewSuppression {
  return { account: dev, address, reason: 'manual', ...more };
}

/** A list of its own; `open` opens it by a connection of its own as another process does, where the engine has that. */
async function setUp(engine: Engine) {
  const clock = manualClock();
  const connect = engine.make();
  const database = await connect();
  const openOn = async (on: Database): Promise<SuppressionStore & { readonly close: () => Promise<void> }> => ({
    ...(await openSuppressionStore(on, clock, 3)),
    close: () => on.close(),
  });
  return { clock, connect, database, open: async () => await openOn(await connect()), store: await openOn(database) };
}

/** Defines the suite for one engine. */
export function suppressionsContract(engine: Engine): void {
  describe(engine.name, () => {
    describe('the list', () => {
      test('holds an address in every spelling, for its account alone', async () => {
        const { store, clock } = await setUp(engine);
        expect(await store.isSuppressed(dev, 'gone@example.net')).toBe(false);
        const added = await store.add(
          entry('Gone@Bücher.Example', { reason: 'hard_bounce', note: '550 no such user' }),
        );
        expect(added).toEqual({
          id: expect.stringMatching(/^[0-9a-f]{32}$/),
          account: dev,
          address: 'gone@xn--bcher-kva.example',
          reason: 'hard_bounce',
          note: '550 no such user',
          createdAt: clock.now(),
        });
        for (const spelling of ['gone@xn--bcher-kva.example', 'GONE@BÜCHER.EXAMPLE', '"gone"@bücher.example']) {
          expect(await store.isSuppressed(dev, spelling), spelling).toBe(true);
          expect(await store.find(dev, spelling), spelling).toEqual(added);
        }
        for (const another of [
          'gone@example.net',
          'gon@bücher.example',
          'gone@a.bücher.example',
          'gone',
          '',
          "' OR 1=1",
        ]) {
          expect(await store.isSuppressed(dev, another), another).toBe(false);
        }
        expect(await store.isSuppressed(other, 'gone@bücher.example')).toBe(false);
        expect(await store.find(other, 'gone@bücher.example')).toBeUndefined();
      });

      test('has an address once: adding it again changes it in place', async () => {
        const { store, clock } = await setUp(engine);
        const first = await store.add(entry('a@example.net', { note: 'first', expiresAt: clock.now() + 5000 }));
        clock.pass(1);
        const second = await store.add(entry('A@EXAMPLE.NET', { reason: 'complaint' }));
        expect(second).toEqual({
          id: first.id,
          account: dev,
          address: 'a@example.net',
          reason: 'complaint',
          createdAt: first.createdAt,
        });
        clock.pass(10);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(true);
      });

      test('adds many where they are not yet, and leaves those that are there as they are', async () => {
        const { store, clock } = await setUp(engine);
        const there = await store.add(entry('there@x.test', { reason: 'manual', note: 'asked by phone' }));
        await store.add(entry('expired@x.test', { expiresAt: clock.now() }));
        const wanted = ['New@x.test', 'there@x.test', 'new@x.test', 'expired@x.test'];
        const added = await store.addNew(wanted.map((address) => entry(address, { reason: 'complaint', note: 'n' })));
        expect(added).toEqual([true, false, false, true]);
        expect(await store.find(dev, 'there@x.test')).toEqual(there);
        expect(await store.find(dev, 'expired@x.test')).toMatchObject({ reason: 'complaint' });
        expect(await store.isSuppressed(dev, 'new@x.test')).toBe(true);
        expect(await store.addNew([])).toEqual([]);
      });

      test('lets go of what is removed, by its id and account', async () => {
        const { store } = await setUp(engine);
        const added = await store.add(entry('a@example.net'));
        expect(await store.remove(other, added.id)).toBeUndefined();
        expect(await store.remove(dev, '0'.repeat(32))).toBeUndefined();
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(true);
        expect(await store.remove(dev, added.id)).toEqual(added);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(false);
        expect(await store.remove(dev, added.id)).toBeUndefined();
      });

      test.runIf(engine.isShared)('outlives a restart', async () => {
        const { store, open, clock } = await setUp(engine);
        const added = await store.add(entry('a@example.net', { expiresAt: clock.now() + 5000 }));
        await store.close();
        const again = await open();
        expect(await again.isSuppressed(dev, 'a@example.net')).toBe(true);
        expect(await again.find(dev, 'a@example.net')).toEqual(added);
      });

      test('has room until it is full, and again once an entry is gone', async () => {
        const { store, clock } = await setUp(engine);
        await store.add({ ...entry('other@example.net'), account: 'other' });
        const added: string[] = [];
        for (let at = 0; await store.hasRoom(dev); at += 1)
          added.push((await store.add(entry(`gone${at}@example.net`))).id);
        expect(added).toHaveLength(3);
        expect(await store.hasRoom('other')).toBe(true);
        await store.remove(dev, added[0] ?? '');
        expect(await store.hasRoom(dev)).toBe(true);
        await store.add(entry('again@example.net', { expiresAt: clock.now() + 60_000 }));
        expect(await store.hasRoom(dev)).toBe(false);
        // What has expired is counted no more, some seconds later.
        clock.pass(61);
        expect(await store.hasRoom(dev)).toBe(true);
      });

      test('is not counted again for each entry that makes place for another', async () => {
        const { database, clock } = await setUp(engine);
        let counted = 0;
        const counting = new Proxy(database, {
          get(target, key) {
            const member: unknown = Reflect.get(target, key);
            if (typeof member !== 'function') return member;
            return (...args: unknown[]): unknown => {
              if (String(args[0]).includes('count(*)')) counted += 1;
              return Reflect.apply(member, target, args);
            };
          },
        });
        const store = await openSuppressionStore(counting, clock, 3);
        for (const one of ['a@example.net', 'b@example.net', 'c@example.net']) await store.add(entry(one));
        // One more than an account adds: returned mail.
        const { id } = await store.add(entry('d@example.net'));
        expect(await store.hasRoom(dev)).toBe(false);
        await store.remove(dev, id);
        expect(await store.hasRoom(dev)).toBe(false);
        for (let times = 0; times < 5; times += 1) {
          const [entryThere] = (await store.list(dev, { limit: 1 })).entries;
          await store.remove(dev, entryThere?.id ?? '');
          // No entry of this id is left: no place.
          await store.remove(dev, entryThere?.id ?? '');
          expect(await store.hasRoom(dev)).toBe(true);
          await store.add(entry('e@example.net'));
          expect(await store.hasRoom(dev)).toBe(false);
        }
        expect(counted).toBe(1);
      });
    });

    describe('expiry', () => {
      test('an entry counts up to its time and not at it', async () => {
        const { store, clock } = await setUp(engine);
        const expiresAt = clock.now() + 3000;
        const added = await store.add(entry('a@example.net', { expiresAt }));
        clock.pass(2.999);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(true);
        clock.pass(0.001);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(false);
        expect(await store.find(dev, 'a@example.net')).toBeUndefined();
        expect(await store.list(dev, { limit: 10 })).toEqual({ entries: [] });
        expect(await store.remove(dev, added.id)).toBeUndefined();
      });

      test('what is added behind an expired entry is a new one', async () => {
        const { store, clock } = await setUp(engine);
        const first = await store.add(entry('a@example.net', { note: 'old', expiresAt: clock.now() + 1000 }));
        clock.pass(1);
        const second = await store.add(entry('a@example.net'));
        expect(second.id).not.toBe(first.id);
        expect(second).toMatchObject({ createdAt: clock.now(), reason: 'manual' });
        expect(second.note).toBeUndefined();
      });

      test.runIf(engine.isShared)('expired rows are cleared away by the next add and the next start', async () => {
        const { store, open, connect, clock } = await setUp(engine);
        const rows = async () => {
          const database = await connect();
          const found = await database.query('SELECT address FROM suppressions ORDER BY address');
          await database.close();
          return found.map((row) => row['address']);
        };
        await store.add(entry('a@example.net', { expiresAt: clock.now() + 1000 }));
        await store.add(entry('b@example.net', { expiresAt: clock.now() + 2000, account: other }));
        expect(await rows()).toEqual(['a@example.net', 'b@example.net']);
        clock.pass(1);
        await store.add(entry('c@example.net'));
        expect(await rows()).toEqual(['b@example.net', 'c@example.net']);
        clock.pass(1);
        await open();
        expect(await rows()).toEqual(['c@example.net']);
      });
    });

    describe('beside another process', () => {
      test.runIf(engine.isShared)('what it adds counts within a second, what it removes at once', async () => {
        const { store, open, clock } = await setUp(engine);
        const beside = await open();
        // It has been seen that there is nothing.
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(false);
        const first = await beside.add(entry('a@example.net'));
        clock.pass(0.999);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(true);
        await beside.add(entry('b@example.net'));
        expect(await store.isSuppressed(dev, 'b@example.net')).toBe(true);
        await beside.remove(dev, first.id);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(false);
        expect(await store.isSuppressed(dev, 'b@example.net')).toBe(true);
      });

      test.runIf(engine.isShared)('a clock set back does not hold the change off', async () => {
        const { store, open, clock } = await setUp(engine);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(false);
        await (await open()).add(entry('a@example.net'));
        clock.jump(-3600);
        clock.pass(1);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(true);
      });

      test('what this one adds counts at once', async () => {
        const { store } = await setUp(engine);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(false);
        await store.add(entry('a@example.net'));
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(true);
      });

      test.runIf(engine.isShared)('makes room where it removes an entry, some seconds later', async () => {
        const { store, clock, open } = await setUp(engine);
        const beside = await open();
        const { id } = await beside.add(entry('a@example.net'));
        for (const one of ['b@example.net', 'c@example.net']) await store.add(entry(one));
        expect(await store.hasRoom(dev)).toBe(false);
        await beside.remove(dev, id);
        await beside.close();
        expect(await store.hasRoom(dev)).toBe(false);
        clock.pass(11);
        expect(await store.hasRoom(dev)).toBe(true);
      });

      test('so do the many that it adds together', async () => {
        const { store } = await setUp(engine);
        expect(await store.isSuppressed(dev, 'a@example.net')).toBe(false);
        await store.addNew([entry('a@example.net'), entry('b@example.net')]);
        expect(await store.isSuppressed(dev, 'b@example.net')).toBe(true);
      });
    });

    describe('pages', () => {
      async function walk(store: SuppressionStore, limit: number, search?: string): Promise<string[][]> {
        const pages: string[][] = [];
        for (let after: string | undefined; ; ) {
          const query = {
            limit,
            ...(after === undefined ? {} : { after }),
            ...(search === undefined ? {} : { search }),
          };
          const page = await store.list(dev, query);
          pages.push(page.entries.map(({ address }) => address));
          after = page.next;
          if (after === undefined) return pages;
        }
      }

      test('come newest first, each entry once, also while others come and go', async () => {
        const { store, clock } = await setUp(engine);
        for (let index = 0; index < 5; index += 1) {
          await store.add(entry(`${index}@example.net`));
          clock.pass(1);
        }
        await store.add(entry('x@example.net', { account: other }));
        expect(await walk(store, 2)).toEqual([
          ['4@example.net', '3@example.net'],
          ['2@example.net', '1@example.net'],
          ['0@example.net'],
        ]);
        const first = await store.list(dev, { limit: 2 });
        await store.add(entry('new@example.net'));
        await store.remove(dev, first.next ?? '');
        const second = await store.list(dev, { limit: 2, after: first.next ?? '' });
        expect(second.entries.map(({ address }) => address)).toEqual(['2@example.net', '1@example.net']);
      });

      test.each([
        [4, [4, 1]],
        [5, [5]],
        [6, [5]],
      ])('five entries in pages of %i are %j', async (limit, wanted) => {
        const { store } = await setUp(engine);
        for (let index = 0; index < 5; index += 1) await store.add(entry(`${index}@example.net`));
        const pages = await walk(store, limit);
        expect(pages.map(({ length }) => length)).toEqual(wanted);
        expect(new Set(pages.flat()).size).toBe(5);
      });

      test.each([
        ['gone', ['gone@example.net']],
        ['GONE@EXAMPLE', ['gone@example.net']],
        ['@example.net', ['b_b@example.net', 'gone@example.net']],
        ['BÜCHER', ['a@xn--bcher-kva.example']],
        ['büch', []],
        ['bücher.example', ['a@xn--bcher-kva.example']],
        ['A@Bücher.example', ['a@xn--bcher-kva.example']],
        ['TICKET 7', ['b_b@example.net']],
        ['b_b', ['b_b@example.net']],
        ['%', []],
        ['nothing', []],
        ['', ['a@xn--bcher-kva.example', 'b_b@example.net', 'gone@example.net']],
      ])('a search for %j', async (search, wanted) => {
        const { store, clock } = await setUp(engine);
        await store.add(entry('gone@example.net'));
        clock.pass(1);
        await store.add(entry('b_b@example.net', { note: 'ticket 7' }));
        clock.pass(1);
        await store.add(entry('a@bücher.example'));
        expect((await store.list(dev, { limit: 10, search })).entries.map(({ address }) => address)).toEqual(wanted);
      });

      test('a search goes through more rows than one slice', async () => {
        const { store, database } = await setUp(engine);
        await database.transaction(async (transaction) => {
          for (let index = 0; index < 2500; index += 1) {
            const values = [
              dev,
              index.toString(16).padStart(32, '0'),
              `${index % 1000 === 0 ? 'rare' : 'common'}${index}@example.net`,
            ];
            await transaction.run("INSERT INTO suppressions VALUES ($1, $2, $3, 'manual', NULL, 0, NULL)", values);
          }
        });
        expect(await walk(store, 2, 'rare')).toEqual([
          ['rare2000@example.net', 'rare1000@example.net'],
          ['rare0@example.net'],
        ]);
        expect((await walk(store, 1000, 'common')).flat()).toHaveLength(2497);
      });

      test('a search reads 20,000 rows for a page, and its cursor leads on from there', async () => {
        const { store, clock } = await setUp(engine);
        await store.add(entry('rare@example.net'));
        clock.pass(1);
        await store.addNew(Array.from({ length: 20_000 }, (_, index) => entry(`common${index}@example.net`)));
        expect(await walk(store, 2, 'rare')).toEqual([[], ['rare@example.net']]);
        expect((await walk(store, 1000, 'common')).flat()).toHaveLength(20_000);
      });
    });

    test('is a map from address to expiry, whatever is done in whatever order', async () => {
      const address = fc.constantFrom('a@x.example', 'A@X.example', 'b@x.example', '"b"@x.example', 'c@ü.example');
      const key = { 'A@X.example': 'a@x.example', '"b"@x.example': 'b@x.example', 'c@ü.example': 'c@xn--tda.example' };
      const operation = fc.oneof(
        fc.record({ kind: fc.constant('add'), address, seconds: fc.option(fc.integer({ min: 1, max: 5 })) }),
        fc.record({ kind: fc.constant('remove'), address, seconds: fc.constant(null) }),
        fc.record({ kind: fc.constant('pass'), address, seconds: fc.integer({ min: 0, max: 3 }) }),
      );
      const { store, clock } = await setUp(engine);
      let account = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(operation, { maxLength: 20 }), async (operations) => {
          account += 1;
          const of = `account ${account}`;
          const model = new Map<string, number>();
          for (const { kind, address, seconds } of operations) {
            const name = Object.hasOwn(key, address) ? key[address as keyof typeof key] : address;
            if (kind === 'pass') clock.pass(seconds ?? 0);
            else if (kind === 'remove') {
              const found = await store.find(of, address);
              if (found) await store.remove(of, found.id);
              model.delete(name);
            } else {
              const expiresAt = seconds === null ? undefined : clock.now() + seconds * 1000;
              await store.add({ ...entry(address, expiresAt === undefined ? {} : { expiresAt }), account: of });
              model.set(name, expiresAt ?? Number.POSITIVE_INFINITY);
            }
            const live = [...model].filter(([, until]) => until > clock.now()).map(([one]) => one);
            for (const one of ['a@x.example', 'b@x.example', 'c@ü.example']) {
              const wanted = live.includes(key[one as keyof typeof key] ?? one);
              expect(await store.isSuppressed(of, one)).toBe(wanted);
            }
            const { entries } = await store.list(of, { limit: 10 });
            expect(entries.map((one) => one.address).sort()).toEqual(live.sort());
          }
        }),
        { numRuns: 50 },
      );
    });
  });
}
