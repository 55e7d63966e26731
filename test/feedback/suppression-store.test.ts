// The suppression list on a real database, from several handles and over restarts (D51, D94).

import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import {
  createSuppressionStore,
  type NewSuppression,
  type SuppressionStore,
} from '../../src/feedback/suppression-store.ts';
import { scratchFolder } from '../support/scratch.ts';
import { type ManualClock, manualClock } from '../support/smtp-peers.ts';

const dev = 'a1'.repeat(16);
const other = 'c1'.repeat(16);

/** Opens the lists on a file by a connection of their own, as another process does. */
function open(file: string, clock: ManualClock): SuppressionStore & { readonly close: () => void } {
  const database = openSqliteFile(file);
  onTestFinished(() => {
    if (database.isOpen) database.close();
  });
  return { ...createSuppressionStore(database, clock), close: () => database.close() };
}

function setUp() {
  const clock = manualClock();
  const file = join(scratchFolder(), 'postern.db');
  return { clock, file, store: open(file, clock) };
}

function entry(address: string, more: Partial<NewSuppression> = {}): NewSuppression {
  return { account: dev, address, reason: 'manual', ...more };
}

describe('the list', () => {
  test('holds an address in every spelling, for its account alone', () => {
    const { store, clock } = setUp();
    expect(store.isSuppressed(dev, 'gone@example.net')).toBe(false);
    const added = store.add(entry('Gone@Bücher.Example', { reason: 'hard_bounce', note: '550 no such user' }));
    expect(added).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      account: dev,
      address: 'gone@xn--bcher-kva.example',
      reason: 'hard_bounce',
      note: '550 no such user',
      createdAt: clock.now(),
    });
    for (const spelling of ['gone@xn--bcher-kva.example', 'GONE@BÜCHER.EXAMPLE', '"gone"@bücher.example']) {
      expect(store.isSuppressed(dev, spelling), spelling).toBe(true);
      expect(store.find(dev, spelling), spelling).toEqual(added);
    }
    for (const another of ['gone@example.net', 'gon@bücher.example', 'gone@a.bücher.example', 'gone', '', "' OR 1=1"]) {
      expect(store.isSuppressed(dev, another), another).toBe(false);
    }
    expect(store.isSuppressed(other, 'gone@bücher.example')).toBe(false);
    expect(store.find(other, 'gone@bücher.example')).toBeUndefined();
  });

  test('has an address once: adding it again changes it in place', () => {
    const { store, clock } = setUp();
    const first = store.add(entry('a@example.net', { note: 'first', expiresAt: clock.now() + 5000 }));
    clock.pass(1);
    const second = store.add(entry('A@EXAMPLE.NET', { reason: 'complaint' }));
    expect(second).toEqual({
      id: first.id,
      account: dev,
      address: 'a@example.net',
      reason: 'complaint',
      createdAt: first.createdAt,
    });
    clock.pass(10);
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(true);
  });

  test('lets go of what is removed, by its id and account', () => {
    const { store } = setUp();
    const added = store.add(entry('a@example.net'));
    expect(store.remove(other, added.id)).toBeUndefined();
    expect(store.remove(dev, '0'.repeat(32))).toBeUndefined();
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(true);
    expect(store.remove(dev, added.id)).toEqual(added);
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(false);
    expect(store.remove(dev, added.id)).toBeUndefined();
  });

  test('outlives a restart', () => {
    const { store, file, clock } = setUp();
    const added = store.add(entry('a@example.net', { expiresAt: clock.now() + 5000 }));
    store.close();
    const again = open(file, clock);
    expect(again.isSuppressed(dev, 'a@example.net')).toBe(true);
    expect(again.find(dev, 'a@example.net')).toEqual(added);
  });
});

describe('expiry', () => {
  test('an entry counts up to its time and not at it', async () => {
    const { store, clock } = setUp();
    const expiresAt = clock.now() + 3000;
    const added = store.add(entry('a@example.net', { expiresAt }));
    clock.pass(2.999);
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(true);
    clock.pass(0.001);
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(false);
    expect(store.find(dev, 'a@example.net')).toBeUndefined();
    expect(await store.list(dev, { limit: 10 })).toEqual({ entries: [] });
    expect(store.remove(dev, added.id)).toBeUndefined();
  });

  test('what is added behind an expired entry is a new one', () => {
    const { store, clock } = setUp();
    const first = store.add(entry('a@example.net', { note: 'old', expiresAt: clock.now() + 1000 }));
    clock.pass(1);
    const second = store.add(entry('a@example.net'));
    expect(second.id).not.toBe(first.id);
    expect(second).toMatchObject({ createdAt: clock.now(), reason: 'manual' });
    expect(second.note).toBeUndefined();
  });

  test('expired rows are cleared away by the next add and the next start', () => {
    const { store, file, clock } = setUp();
    const rows = () => {
      const database = openSqliteFile(file);
      const found = database.prepare('SELECT address FROM suppressions ORDER BY address').all();
      database.close();
      return found.map((row) => row['address']);
    };
    store.add(entry('a@example.net', { expiresAt: clock.now() + 1000 }));
    store.add(entry('b@example.net', { expiresAt: clock.now() + 2000, account: other }));
    expect(rows()).toEqual(['a@example.net', 'b@example.net']);
    clock.pass(1);
    store.add(entry('c@example.net'));
    expect(rows()).toEqual(['b@example.net', 'c@example.net']);
    clock.pass(1);
    open(file, clock);
    expect(rows()).toEqual(['c@example.net']);
  });
});

describe('beside another process', () => {
  test('what it adds counts within a second, what it removes at once', () => {
    const { store, file, clock } = setUp();
    const beside = open(file, clock);
    // It has been seen that there is nothing.
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(false);
    const first = beside.add(entry('a@example.net'));
    clock.pass(0.999);
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(true);
    beside.add(entry('b@example.net'));
    expect(store.isSuppressed(dev, 'b@example.net')).toBe(true);
    beside.remove(dev, first.id);
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(false);
    expect(store.isSuppressed(dev, 'b@example.net')).toBe(true);
  });

  test('a clock set back does not hold the change off', () => {
    const { store, file, clock } = setUp();
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(false);
    open(file, clock).add(entry('a@example.net'));
    clock.jump(-3600);
    clock.pass(1);
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(true);
  });

  test('what this one adds counts at once', () => {
    const { store } = setUp();
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(false);
    store.add(entry('a@example.net'));
    expect(store.isSuppressed(dev, 'a@example.net')).toBe(true);
  });
});

describe('pages', () => {
  async function walk(store: SuppressionStore, limit: number, search?: string): Promise<string[][]> {
    const pages: string[][] = [];
    for (let after: string | undefined; ; ) {
      const query = { limit, ...(after === undefined ? {} : { after }), ...(search === undefined ? {} : { search }) };
      const page = await store.list(dev, query);
      pages.push(page.entries.map(({ address }) => address));
      after = page.next;
      if (after === undefined) return pages;
    }
  }

  test('come newest first, each entry once, also while others come and go', async () => {
    const { store, clock } = setUp();
    for (let index = 0; index < 5; index += 1) {
      store.add(entry(`${index}@example.net`));
      clock.pass(1);
    }
    store.add(entry('x@example.net', { account: other }));
    expect(await walk(store, 2)).toEqual([
      ['4@example.net', '3@example.net'],
      ['2@example.net', '1@example.net'],
      ['0@example.net'],
    ]);
    const first = await store.list(dev, { limit: 2 });
    store.add(entry('new@example.net'));
    store.remove(dev, first.next ?? '');
    const second = await store.list(dev, { limit: 2, after: first.next ?? '' });
    expect(second.entries.map(({ address }) => address)).toEqual(['2@example.net', '1@example.net']);
  });

  test.each([
    [4, [4, 1]],
    [5, [5]],
    [6, [5]],
  ])('five entries in pages of %i are %j', async (limit, wanted) => {
    const { store } = setUp();
    for (let index = 0; index < 5; index += 1) store.add(entry(`${index}@example.net`));
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
    const { store, clock } = setUp();
    store.add(entry('gone@example.net'));
    clock.pass(1);
    store.add(entry('b_b@example.net', { note: 'ticket 7' }));
    clock.pass(1);
    store.add(entry('a@bücher.example'));
    expect((await store.list(dev, { limit: 10, search })).entries.map(({ address }) => address)).toEqual(wanted);
  });

  test('a search goes through more rows than one slice', async () => {
    const { store, file } = setUp();
    const database = openSqliteFile(file);
    const insert = database.prepare("INSERT INTO suppressions VALUES (?, ?, ?, 'manual', NULL, 0, NULL)");
    database.exec('BEGIN');
    for (let index = 0; index < 2500; index += 1) {
      const kind = index % 1000 === 0 ? 'rare' : 'common';
      insert.run(dev, index.toString(16).padStart(32, '0'), `${kind}${index}@example.net`);
    }
    database.exec('COMMIT');
    database.close();
    expect(await walk(store, 2, 'rare')).toEqual([
      ['rare2000@example.net', 'rare1000@example.net'],
      ['rare0@example.net'],
    ]);
    expect((await walk(store, 1000, 'common')).flat()).toHaveLength(2497);
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
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { maxLength: 20 }), async (operations) => {
      const clock = manualClock();
      const database = openSqliteFile(':memory:');
      const store = createSuppressionStore(database, clock);
      const model = new Map<string, number>();
      for (const { kind, address, seconds } of operations) {
        const name = Object.hasOwn(key, address) ? key[address as keyof typeof key] : address;
        if (kind === 'pass') clock.pass(seconds ?? 0);
        else if (kind === 'remove') {
          const found = store.find(dev, address);
          if (found) store.remove(dev, found.id);
          model.delete(name);
        } else {
          const expiresAt = seconds === null ? undefined : clock.now() + seconds * 1000;
          store.add(entry(address, expiresAt === undefined ? {} : { expiresAt }));
          model.set(name, expiresAt ?? Number.POSITIVE_INFINITY);
        }
        const live = [...model].filter(([, until]) => until > clock.now()).map(([one]) => one);
        for (const one of ['a@x.example', 'b@x.example', 'c@ü.example']) {
          const wanted = live.includes(key[one as keyof typeof key] ?? one);
          expect(store.isSuppressed(dev, one)).toBe(wanted);
        }
        const { entries } = await store.list(dev, { limit: 10 });
        expect(entries.map((one) => one.address).sort()).toEqual(live.sort());
      }
      database.close();
    }),
    { numRuns: 50 },
  );
});
