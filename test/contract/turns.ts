// The contract of every spool about whose turn it is: fairness between accounts, between new and deferred mail, and holds.

import { afterEach, describe, expect, test } from 'vitest';
import type { HoldKind } from '../../src/spool/hold.ts';
import type { ClaimTurn, DueMessage, Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { claimAny } from '../support/claim-any.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';
import type { SpoolUnderTest } from './spool.ts';

const busy = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host: 'out' } as const;
const lane = 'out#1';

/** Defines the suite for one store. */
export function turnsContract(name: string, store: SpoolUnderTest): void {
  describe(`turns of ${name}`, () => {
    let now = someTime;
    const opened: Spool[] = [];

    afterEach(async () => {
      for (const spool of opened.splice(0)) await spool.close();
      await store.clean();
    });

    async function open(): Promise<Spool> {
      now = someTime;
      const spool = await store.open({ now: () => now, monotonic: () => now });
      opened.push(spool);
      return spool;
    }

    async function add(spool: Spool, count: number, changes: Partial<SpoolEntry> = {}): Promise<SpoolEntry[]> {
      const entries = Array.from({ length: count }, () => spoolEntry({ transports: [lane], ...changes }));
      await Promise.all(entries.map((entry) => spool.add(entry, 0)));
      return entries;
    }

    function turns(spool: Spool, transport = lane): Promise<readonly ClaimTurn[]> {
      return spool.turns({ transport, now, limit: 10 });
    }

    function claim(spool: Spool, turn: Partial<ClaimTurn> & { limit?: number; expiredOnly?: boolean } = {}) {
      const query = { now, limit: 100, claimUntil: now + leaseMilliseconds, transport: lane };
      return claimAny(spool, { ...query, ...turn });
    }

    const ids = (claimed: readonly DueMessage[]): string[] => claimed.map(({ entry }) => entry.id);

    /** Claims one message for whose turn it is, again and again. @returns the accounts in order */
    async function accountsInOrder(spool: Spool, times: number): Promise<string[]> {
      const accounts: string[] = [];
      for (let time = 0; time < times; time += 1) {
        now += 1;
        const [turn] = await turns(spool);
        if (!turn) break;
        const [claimed] = await claim(spool, { ...turn, limit: 1 });
        accounts.push(claimed?.entry.account ?? '');
      }
      return accounts;
    }

    test.each(['added', 'given their transport'])(
      'messages of accounts that are %s at once wait for each account’s turn',
      async (how) => {
        const spool = await open();
        const transports = how === 'added' ? [lane] : ['gone#1'];
        const [many] = await Promise.all([
          add(spool, 20, { account: 'many', transports }),
          add(spool, 2, { account: 'few', transports }),
        ]);
        if (how !== 'added')
          await spool.giveTransports({ now, limit: 100, transports: [lane], transportOf: () => lane });
        expect(new Set((await turns(spool)).map(({ account }) => account))).toEqual(new Set(['many', 'few']));
        expect(new Set((await claim(spool, { account: 'few' })).map(({ entry }) => entry.account))).toEqual(
          new Set(['few']),
        );
        expect(new Set(ids(await claim(spool, { account: 'many' })))).toEqual(new Set(many.map(({ id }) => id)));
      },
    );

    test('accounts take turns, however many messages each has', async () => {
      const spool = await open();
      await add(spool, 50, { account: 'many' });
      await add(spool, 2, { account: 'few' });
      const order = await accountsInOrder(spool, 6);
      expect(order.filter((account) => account === 'few')).toHaveLength(2);
      expect(order.indexOf('few')).toBeLessThan(2);
      expect(order.lastIndexOf('few')).toBeLessThan(4);
    });

    test('one whose mail comes later has its turn before the next of those that were served already', async () => {
      const spool = await open();
      await add(spool, 50, { account: 'many' });
      await accountsInOrder(spool, 3);
      await add(spool, 1, { account: 'late', acceptedAt: now });
      expect(await accountsInOrder(spool, 2)).toContain('late');
    });

    test('each domain of a transport has its own turns, and another transport none', async () => {
      const spool = await open();
      await add(spool, 1, { transports: [`${lane}/a.test`] });
      await add(spool, 1, { transports: [`${lane}/b.test`] });
      await add(spool, 1, { transports: ['other#2'] });
      const waits = async () => (await turns(spool)).map(({ transport }) => transport).toSorted();
      expect(await waits()).toEqual([`${lane}/a.test`, `${lane}/b.test`]);
      await claim(spool, { transport: `${lane}/a.test`, account: 'dev' });
      expect(await waits()).toEqual([`${lane}/b.test`]);
      expect(await turns(spool, 'other#2')).toHaveLength(1);
    });

    test('an account with mail for very many domains leaves a turn to another whose mail came later', async () => {
      const spool = await open();
      for (let domain = 0; domain < 40; domain += 1) {
        await add(spool, 1, { account: 'many', transports: [`${lane}/many${domain}.test`], acceptedAt: now - 1000 });
      }
      await add(spool, 2, { account: 'late', transports: [`${lane}/late.test`] });
      expect(await turns(spool)).toContainEqual({ transport: `${lane}/late.test`, account: 'late' });
      // What the others leave is used.
      expect((await turns(spool)).length).toBeGreaterThanOrEqual(6);
    });

    test('of more accounts than are asked for each has its turn, though none is served meanwhile', async () => {
      const spool = await open();
      for (let domain = 0; domain < 30; domain += 1) {
        await add(spool, 1, { account: `many${domain % 3}`, transports: [`${lane}/many${domain}.test`] });
      }
      now += 1;
      await add(spool, 1, { account: 'late', acceptedAt: now });
      const seen = new Set<string>();
      for (let times = 0; times < 100 && !seen.has('late'); times += 1) {
        for (const { account } of await spool.turns({ transport: lane, now, limit: 2 })) seen.add(account);
      }
      expect(seen).toContain('late');
    });

    test('accounts that are left out have no turn', async () => {
      const spool = await open();
      await add(spool, 2, { account: 'full' });
      await add(spool, 2, { account: 'other' });
      const found = await spool.turns({ transport: lane, now, limit: 10, except: ['full', 'no one'] });
      expect(found.map(({ account }) => account)).toEqual(['other']);
      expect(await spool.turns({ transport: lane, now, limit: 10, except: ['full', 'other'] })).toEqual([]);
    });

    test('nothing has a turn before it is due, and what is released has one at once', async () => {
      const spool = await open();
      const [entry] = await add(spool, 1, { acceptedAt: someTime + 60_000 });
      if (!entry) throw new Error('no entry');
      expect(await turns(spool)).toEqual([]);
      now += 60_000;
      expect(await claim(spool, { account: 'dev' })).toHaveLength(1);
      expect(await turns(spool)).toEqual([]);
      await spool.release(entry.id, entry.recipients);
      expect(await turns(spool)).toEqual([{ transport: lane, account: 'dev' }]);
    });

    test('a turn that is put off comes then', async () => {
      const spool = await open();
      await add(spool, 1, { account: 'down' });
      await add(spool, 1, { account: 'up' });
      await spool.postpone({ transport: lane, account: 'down' }, now + 5000);
      expect((await turns(spool)).map(({ account }) => account)).toEqual(['up']);
      now += 5000;
      expect(await turns(spool)).toHaveLength(2);
    });

    test('neither new nor deferred mail keeps the other from its share', async () => {
      const spool = await open();
      const again = await add(spool, 20);
      await claim(spool, { account: 'dev' });
      await spool.record(again.map((entry) => attemptOf(entry, busy, { nextAttemptAt: someTime })));
      const fresh = await add(spool, 20);
      const first = ids(await claim(spool, { account: 'dev', limit: 8 }));
      expect(first.filter((id) => fresh.some((entry) => entry.id === id))).toHaveLength(6);
      expect(first.filter((id) => again.some((entry) => entry.id === id))).toHaveLength(2);
      // The other's share is used where there is nothing of the other.
      expect(await claim(spool, { account: 'dev', limit: 100 })).toHaveLength(32);
    });

    test('of messages that are claimed one by one, every fourth was deferred before', async () => {
      const spool = await open();
      const again = await add(spool, 8);
      await claim(spool, { account: 'dev' });
      await spool.record(again.map((entry) => attemptOf(entry, busy, { nextAttemptAt: someTime })));
      await add(spool, 6);
      const deferred = new Set(again.map(({ id }) => id));
      const claimed: boolean[] = [];
      for (let time = 0; time < 14; time += 1)
        for (const id of ids(await claim(spool, { account: 'dev', limit: 1 }))) claimed.push(deferred.has(id));
      // Six of eight were never tried, and two of them deferred; then these alone are left.
      expect(claimed.slice(0, 8).filter((wasDeferred) => wasDeferred)).toHaveLength(2);
      expect(claimed.slice(0, 4)).toContain(true);
      expect(claimed.slice(8)).toEqual(Array.from({ length: 6 }, () => true));
    });

    test('for a next hop that is down, only what has expired is handed out', async () => {
      const spool = await open();
      const [expired] = await add(spool, 1, { expiresAt: someTime + 10, acceptedAt: someTime - 1 });
      await add(spool, 3);
      now += 10;
      expect(ids(await claim(spool, { account: 'dev', expiredOnly: true }))).toEqual([expired?.id]);
      expect(await claim(spool, { account: 'dev', expiredOnly: true })).toEqual([]);
      expect(await claim(spool, { account: 'dev' })).toHaveLength(3);
    });

    test('an outcome without an attempt leaves the number of attempts', async () => {
      const spool = await open();
      const [entry] = await add(spool, 1);
      if (!entry) throw new Error('no entry');
      const untried = { attempts: 0, isUntried: true, nextAttemptAt: someTime + 1000 };
      await spool.record([attemptOf(entry, busy, untried)]);
      expect((await spool.show(entry.id))?.recipients).toMatchObject([
        { attempts: 0, nextAttemptAt: someTime + 1000, lastReply: busy.reply },
      ]);
      await spool.record([attemptOf(entry, busy, { nextAttemptAt: someTime + 1000 })]);
      expect((await spool.show(entry.id))?.recipients).toMatchObject([{ attempts: 1 }]);
    });

    describe('a hold', () => {
      const rule = (kind: HoldKind, value: string) => ({
        ...{ kind, value, at: someTime, by: 'operator', why: 'a complaint' },
      });

      test.each([
        ['account', 'held'],
        ['destination', 'held.test'],
        ['route', 'held'],
      ] as const)('on a whole %s keeps what is there and what comes, and nothing else', async (kind, value) => {
        const spool = await open();
        const changes: Record<string, Partial<SpoolEntry>> = {
          account: { account: 'held' },
          destination: { recipients: ['a@held.test'], transports: [`${lane}/held.test`] },
          route: { transports: ['held#3'] },
        };
        await add(spool, 5, changes[kind]);
        const others = await add(spool, 5);
        await spool.addHold(rule(kind, value));
        await add(spool, 5, changes[kind]);
        const claimed: string[] = [];
        for (const transport of [lane, 'held#3']) {
          for (const turn of await turns(spool, transport)) claimed.push(...ids(await claim(spool, turn)));
        }
        expect(claimed.toSorted()).toEqual(others.map(({ id }) => id).toSorted());
        expect(await spool.liftHold({ kind, value })).toBe(true);
        expect(await spool.liftHold({ kind, value })).toBe(false);
        let freed = 0;
        for (const transport of [lane, 'held#3']) {
          for (const turn of await turns(spool, transport)) freed += (await claim(spool, turn)).length;
        }
        expect(freed).toBe(10);
      });

      test('on a message keeps that one, through a deferral and a retry, until it is lifted', async () => {
        const spool = await open();
        const [held, other] = await add(spool, 2);
        if (!held || !other) throw new Error('no entries');
        await spool.addHold(rule('message', held.id));
        expect(ids(await claim(spool, { account: 'dev' }))).toEqual([other.id]);
        // An attempt that was under way ends as it ends.
        await spool.record([attemptOf(held, busy, { nextAttemptAt: someTime })]);
        await spool.retryMany([{ id: held.id }], { now, expiresAt: someTime + 1000 });
        await spool.giveTransports({ now, limit: 10, transports: [lane], transportOf: () => lane });
        expect(await turns(spool)).toEqual([]);
        expect((await spool.show(held.id))?.recipients[0]?.hold).toMatchObject({ by: 'operator', why: 'a complaint' });
        await spool.liftHold({ kind: 'message', value: held.id });
        await turns(spool);
        await spool.giveTransports({ now, limit: 10, transports: [lane], transportOf: () => lane });
        expect(ids(await claim(spool, { account: 'dev' }))).toEqual([held.id]);
        expect((await spool.show(held.id))?.recipients[0]).not.toHaveProperty('hold');
      });

      test('on a domain takes its recipients out of what waits together with others', async () => {
        const spool = await open();
        const recipients = ['a@held.test', 'b@free.test', 'c@held.test'];
        await add(spool, 3, { recipients, transports: [lane, lane, lane] });
        await spool.addHold(rule('destination', 'held.test'));
        const claimed = await claim(spool, { account: 'dev' });
        expect(claimed.map(({ due }) => due.map(({ address }) => address))).toEqual([
          ['b@free.test'],
          ['b@free.test'],
          ['b@free.test'],
        ]);
        await spool.liftHold({ kind: 'destination', value: 'held.test' });
        await turns(spool);
        await spool.giveTransports({ now, limit: 10, transports: [lane], transportOf: () => lane });
        expect((await claim(spool, { account: 'dev' })).flatMap(({ due }) => due)).toHaveLength(6);
      });

      test.each([
        [`${lane}/held.test`, `dev ${lane.split('#')[0]}/held.test`],
        ['smart#3', 'dev smart'],
      ])(
        'on one line (%s) keeps what one account has for one place, by any settings, and nothing else',
        async (transport, value) => {
          const spool = await open();
          const stem = transport.split('/')[0] ?? '';
          const place = { recipients: ['a@held.test'], transports: [transport] };
          const held = [
            ...(await add(spool, 3, place)),
            ...(await add(spool, 2, { ...place, transports: [transport.replace(/#\d+/, '#changed')] })),
          ];
          const others = [
            ...(await add(spool, 2, { ...place, account: 'other' })),
            ...(await add(spool, 2, { recipients: ['a@free.test'], transports: [`${stem}/free.test`] })),
            ...(await add(spool, 2, { recipients: ['a@held.test'], transports: ['else#1/held.test'] })),
          ];
          await spool.addHold(rule('line', value));
          held.push(...(await add(spool, 2, place)));
          const claimAllOf = async (): Promise<string[]> => {
            const claimed: string[] = [];
            for (const each of [stem, stem.replace(/#\d+/, '#changed'), 'else#1']) {
              for (const turn of await turns(spool, each)) claimed.push(...ids(await claim(spool, turn)));
            }
            return claimed.toSorted();
          };
          const idsOf = (entries: readonly { readonly id: string }[]) => entries.map(({ id }) => id).toSorted();
          expect(await claimAllOf()).toEqual(idsOf(others));
          for (const { id } of held)
            expect((await spool.show(id))?.recipients[0]?.hold).toMatchObject({ kind: 'line', value });
          expect(await spool.liftHold({ kind: 'line', value })).toBe(true);
          expect(await claimAllOf()).toEqual(idsOf(held));
        },
      );

      test('is told, and made anew where it is there already', async () => {
        const spool = await open();
        await spool.addHold(rule('account', "o'dd; DROP TABLE spool_holds --"));
        await spool.addHold({ ...rule('account', "o'dd; DROP TABLE spool_holds --"), why: 'still' });
        expect(await spool.holds()).toMatchObject([
          { kind: 'account', value: "o'dd; DROP TABLE spool_holds --", at: someTime, by: 'operator', why: 'still' },
        ]);
      });

      test('ends what it keeps only after it is lifted: the hold is longer than the message lives', async () => {
        const spool = await open();
        await add(spool, 1, { expiresAt: someTime + 10 });
        await spool.addHold(rule('account', 'dev'));
        now += 20;
        expect(await turns(spool)).toEqual([]);
        expect(await claim(spool, { account: 'dev', expiredOnly: true })).toEqual([]);
        await spool.liftHold({ kind: 'account', value: 'dev' });
        expect(await turns(spool)).toHaveLength(1);
        expect(await claim(spool, { account: 'dev', expiredOnly: true })).toHaveLength(1);
      });
    });

    test('what waits is told by transport, account and hold', async () => {
      const spool = await open();
      await add(spool, 3, { acceptedAt: someTime - 5 });
      await add(spool, 2, { account: 'other' });
      const told = await spool.waiting(10);
      expect(told).toEqual([
        { transport: lane, account: 'dev', recipients: 3, oldestAcceptedAt: someTime - 5 },
        { transport: lane, account: 'other', recipients: 2, oldestAcceptedAt: someTime },
      ]);
      expect(await spool.waiting(1)).toHaveLength(1);
    });
  });
}
