// The contract of every spool about what is an account's own: of two accounts whose mail, keys, ids and outcomes are alike,
// neither gets, changes or uses up anything of the other's. One suite, run on each store.

import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { defaultEventLimits, type EventLimits } from '../../src/spool/events/event-store.ts';
import { type ReportLimits, unlimitedReports } from '../../src/spool/reports/report.ts';
import type { ClaimQuery, Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { claimAny } from '../support/claim-any.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';

/** How the suite gets at a store. */
export interface AccountsUnderTest {
  /** A fresh store. */
  open(clock: Clock, eventLimits: EventLimits, reportLimits: ReportLimits): Promise<Spool>;
  /** Called after each test, once the spool is closed. */
  clean(): Promise<void>;
}

const lane = 'out#1';
const host = 'out (h.test:25)';
const busy = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host } as const;
const failed = { kind: 'failed', reply: { code: 550, text: 'no such user' }, host } as const;
const day = 86_400_000;

/** Defines the suite for one store. */
export function accountsContract(name: string, store: AccountsUnderTest): void {
  describe(`accounts of ${name}`, () => {
    let now = someTime;
    let spool: Spool | undefined;

    async function open(
      limits: { readonly events?: Partial<EventLimits>; readonly reports?: Partial<ReportLimits> } = {},
    ): Promise<Spool> {
      now = someTime;
      const clock = { now: () => now, monotonic: () => now };
      const reports = { ...unlimitedReports, gatherSeconds: 30, ...limits.reports };
      spool = await store.open(clock, { ...defaultEventLimits, ...limits.events }, reports);
      return spool;
    }

    afterEach(async () => {
      await spool?.close();
      spool = undefined;
      await store.clean();
    });

    /** Adds a message that nobody holds. */
    async function add(account: string, changes: Partial<SpoolEntry> = {}): Promise<SpoolEntry> {
      const entry = spoolEntry({ account, transports: [lane], acceptedAt: now, ...changes });
      await spool?.add(entry, 0);
      return entry;
    }

    const turns = async (except: readonly string[] = []): Promise<readonly string[]> =>
      ((await spool?.turns({ transport: lane, now, limit: 10, except })) ?? []).map(({ account }) => account).sort();

    async function claim(query: Partial<ClaimQuery> = {}): Promise<readonly string[]> {
      const all = { now, limit: 100, claimUntil: now + leaseMilliseconds, transport: lane };
      return (spool ? await claimAny(spool, { ...all, ...query }) : []).map(({ entry }) => entry.id).sort();
    }

    const idsOf = (entries: readonly SpoolEntry[]): readonly string[] => entries.map(({ id }) => id).sort();

    test('messages are listed, have their turn and are claimed by account', async () => {
      await open();
      const [one, two] = [[await add('one')], [await add('two')]];
      one.push(await add('one'));
      two.push(await add('two'));
      for (const [account, own] of [
        ['one', one],
        ['two', two],
      ] as const) {
        const listed = await spool?.list({ account, limit: 10 });
        expect(listed?.items.map(({ entry }) => entry.id).sort()).toEqual(idsOf(own));
        expect((await spool?.list({ account, limit: 10, search: 'bob@' }))?.items).toHaveLength(2);
      }
      expect((await spool?.list({ account: 'one', limit: 10, search: two[0]?.id ?? '' }))?.items).toEqual([]);
      expect([await turns(), await turns(['one']), await turns(['one', 'two'])]).toEqual([['one', 'two'], ['two'], []]);
      // Nothing of the one is claimed with the other's, nor does its mail give the other a turn.
      expect(await claim({ account: 'two' })).toEqual(idsOf(two));
      expect(await claim({ account: 'two' })).toEqual([]);
      expect(await turns()).toEqual(['one']);
      await spool?.release(two[0]?.id ?? '', ['bob@example.org']);
      expect(await turns()).toEqual(['one', 'two']);
      await spool?.postpone({ transport: lane, account: 'one' }, now + 5000);
      expect(await turns()).toEqual(['two']);
      // One whose turn has not come takes no place of one whose turn it is.
      for (let time = 0; time < 3; time += 1)
        expect(await spool?.turns({ transport: lane, now, limit: 1 })).toEqual([{ transport: lane, account: 'two' }]);
      expect(await claim({ account: 'one' })).toEqual(idsOf(one));
    });

    test('what was deferred is claimed by account, too', async () => {
      await open();
      const entries = [await add('one'), await add('two')];
      expect(await claim()).toEqual(idsOf(entries));
      await spool?.record(entries.map((entry) => attemptOf(entry, busy, { nextAttemptAt: now })));
      expect(await claim({ account: 'one' })).toEqual(idsOf(entries.slice(0, 1)));
      expect(await turns()).toEqual(['two']);
      expect(await claim({ account: 'two' })).toEqual(idsOf(entries.slice(1)));
    });

    test('those that wait for a transport that is gone are counted once, and stay their accounts’', async () => {
      await open();
      for (const account of ['one', 'two']) await add(account, { transports: ['gone#1'] });
      const query = { now, limit: 100, transports: [lane] };
      const transportOf = ({ account }: { readonly account: string }): string => (account === 'one' ? lane : '');
      expect(await spool?.giveTransports({ ...query, transportOf })).toBe(2);
      expect(await turns()).toEqual(['one']);
    });

    test('a hold on an account, or on a message, keeps nothing else waiting', async () => {
      await open();
      const entries = [await add('one'), await add('two')];
      const rule = { at: now, by: 'operator', why: '' };
      await spool?.addHold({ ...rule, kind: 'account', value: 'one' });
      expect([await turns(), await claim({ account: 'one' }), await claim()]).toEqual([
        ['two'],
        [],
        idsOf(entries.slice(1)),
      ]);
      await spool?.liftHold({ kind: 'account', value: 'one' });
      const [held, free] = [await add('three'), await add('three')];
      await spool?.addHold({ ...rule, kind: 'message', value: held.id });
      expect(await claim()).toEqual(idsOf([...entries.slice(0, 1), free]));
    });

    test('an Idempotency-Key is the account’s: what it was used for, its answer, and its end', async () => {
      await open();
      const keyed = { idempotency: { key: 'order-1', digest: 'ab12' } };
      const one = await add('one', keyed);
      now += day / 2;
      const two = await add('two', keyed);
      const usedBy = async (account: string) => {
        const use = await spool?.usedKey(account, 'order-1');
        return use && [use.messageId, use.answer];
      };
      const used = () => Promise.all(['one', 'two', 'three'].map(usedBy));
      expect(await used()).toEqual([[one.messageId, undefined], [two.messageId, undefined], undefined]);
      await spool?.answered('two', 'order-1', '{"two":1}');
      await spool?.answered('three', 'order-1', '{}');
      expect(await used()).toEqual([[one.messageId, undefined], [two.messageId, '{"two":1}'], undefined]);
      // The one's is a day old and goes; the other's stays.
      now += day / 2;
      await spool?.recover();
      expect(await used()).toEqual([undefined, [two.messageId, '{"two":1}'], undefined]);
    });

    test('events are read, followed and searched by account', async () => {
      await open();
      const common = { clientMessageId: '<same@client.test>' };
      const [one, two] = [await add('one', common), await add('two', common)];
      for (const entry of [one, two]) await spool?.record([attemptOf(entry, busy, { nextAttemptAt: now })]);
      const { events } = spool ?? {};
      const kinds = ['deferred', 'accepted'] as const;
      for (const [account, own, other] of [
        ['one', one, two],
        ['two', two, one],
      ] as const) {
        const wanted = { account, limit: 100 };
        const expected = ['accepted', 'deferred'].map((kind) => [kind, own.id]);
        const told = (page: { readonly events: readonly object[] } | undefined) =>
          page?.events.map((event) => ['kind', 'queueId'].map((key) => Reflect.get(event, key))).sort();
        for (const query of [{}, { kinds }, { message: own.id }])
          expect([account, query, told(await events?.read({ after: 0, ...wanted, ...query }))]).toEqual([
            account,
            query,
            expected,
          ]);
        expect(told(await events?.read({ after: 0, ...wanted, message: other.id }))).toEqual([]);
        for (const order of ['oldest', 'newest'] as const) {
          const search = { ...wanted, order };
          for (const query of [{}, { kinds }, { message: own.id }, { recipient: 'bob@example.org' }])
            expect([query, told(await events?.search({ ...search, ...query }))]).toEqual([query, expected]);
          const byClient = await events?.search({ ...search, clientMessageId: '<same@client.test>' });
          expect(told(byClient)).toEqual(expected.slice(0, 1));
          expect(told(await events?.search({ ...search, message: other.id }))).toEqual([]);
        }
        const ended = new AbortController();
        const followed: unknown[] = [];
        for await (const event of events?.follow({ after: 0, account, signal: ended.signal }) ?? []) {
          followed.push(event.account);
          if (followed.length === 2) ended.abort();
        }
        expect(followed).toEqual([account, account]);
      }
    });

    test('of too many events the account’s own go, though another has older ones', async () => {
      await open({ events: { mail: 3 } });
      const older = await add('two');
      for (const [account, times] of [
        ['one', 4],
        ['three', 8],
      ] as const)
        for (let count = 0; count < times; count += 1) await add(account);
      await spool?.recover();
      const left = async (account: string) => (await spool?.events.read({ after: 0, limit: 100, account }))?.events;
      for (const account of ['one', 'three'])
        await expect.poll(async () => (await left(account))?.length, { timeout: 10_000 }).toBe(3);
      expect(await left('two')).toMatchObject([{ queueId: older.id }]);
    });

    test('a Message-ID stands for the id that the account’s own client gave', async () => {
      await open();
      const cited = { clientMessageId: '<cited@client.test>', keepsClientId: true };
      const [one, two] = [await add('one', cited), await add('two', cited)];
      const found = (account: string) => spool?.replacedIds(account, ['<cited@client.test>']);
      expect(await found('one')).toEqual(new Map([['<cited@client.test>', one.messageId]]));
      expect(await found('two')).toEqual(new Map([['<cited@client.test>', two.messageId]]));
      expect(await found('three')).toEqual(new Map());
    });

    test('reports of one account use up nothing of another’s', async () => {
      await open({ reports: { perAccountPerDay: 1, perAddressPerDay: 1 } });
      const reports = { failure: true, delay: false, success: false };
      for (const account of ['one', 'one', 'two'])
        await spool?.record([attemptOf(await add(account, { reports }), failed)]);
      const due = await spool?.reportsDue({ now, limit: 10 });
      expect(due?.map(({ account }) => account).sort()).toEqual(['one', 'two']);
      expect(spool?.unreported).toBe(1);
    });
  });
}
