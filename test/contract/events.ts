// The contract of the events of every spool: one suite, run on each store.

import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { defaultEventLimits, type EventLimits, type EventSearch } from '../../src/spool/events/event-store.ts';
import type { EventFacts, MailEvent } from '../../src/spool/events/mail-event.ts';
import type { RefusalFacts } from '../../src/spool/events/refusal.ts';
import type { Outcome, Spool } from '../../src/spool/spool.ts';
import { claimAny } from '../support/claim-any.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';

/** How the suite gets at a store. */
export interface EventsUnderTest {
  /** A fresh store. */
  open(clock: Clock, limits: EventLimits): Promise<Spool>;
  /** The same store's data as another process sees it, where the store has such a thing. */
  another?(clock: Clock): Promise<Spool>;
  /** Called after each test, once every spool is closed. */
  clean(): Promise<void>;
}

const delivered: Outcome = {
  kind: 'delivered',
  reply: { code: 250, enhanced: '2.0.0', text: 'ok' },
  host: 'default (h:25)',
};
const deferred: Outcome = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host: 'default (h:25)' };
const failed: Outcome = { kind: 'failed', reply: { code: 550, text: 'no such user' }, host: 'default (h:25)' };
const waiting = { timeout: 10_000, interval: 10 };
const origin = { via: 'smtp', clientAddress: '192.0.2.1', helo: 'client.example' } as const;

function refusal(account: string, changes: Partial<RefusalFacts> = {}): RefusalFacts {
  return {
    stage: 'message',
    account,
    credential: 'default',
    sessionId: 'c0ffee',
    via: 'smtp',
    recipients: ['bob@example.org'],
    violations: [{ code: 'E_HEADER_NOT_ALLOWED', message: 'User-Agent is not on the allowlist', name: 'User-Agent' }],
    ...changes,
  };
}

/** Defines the suite for one store. */
export function eventsContract(name: string, store: EventsUnderTest): void {
  describe(`events of ${name}`, () => {
    let now = someTime;
    const clock: Clock = { now: () => now, monotonic: () => now };
    const opened: Spool[] = [];

    async function open(limits: Partial<EventLimits> = {}): Promise<Spool> {
      now = someTime;
      const spool = await store.open(clock, { ...defaultEventLimits, ...limits });
      opened.push(spool);
      return spool;
    }

    async function all(spool: Spool, query: { readonly account?: string } = {}): Promise<readonly MailEvent[]> {
      const found: MailEvent[] = [];
      for (let after = 0, hasMore = true; hasMore; ) {
        const page = await spool.events.read({ after, limit: 7, ...query });
        found.push(...page.events);
        ({ next: after, hasMore } = page);
      }
      return found;
    }

    afterEach(async () => {
      for (const spool of opened.splice(0)) await spool.close();
      await store.clean();
    });

    test('an accepted message has its event, with the facts of where it came from', async () => {
      const spool = await open();
      const entry = spoolEntry({ origin, received: { size: 321, stripped: ['User-Agent'] } });
      await spool.add(entry, someTime);
      expect(await all(spool)).toEqual([
        {
          id: 1,
          kind: 'accepted',
          at: someTime,
          account: 'dev',
          credential: 'default',
          sessionId: 'c0ffee',
          ...origin,
          senderPath: 'alice@example.com',
          queueId: entry.id,
          messageId: entry.messageId,
          recipients: ['bob@example.org'],
          recipientCount: 1,
          size: 321,
          sizeAsSent: entry.head.length + entry.body.length,
          stripped: ['User-Agent'],
        },
      ]);
      expect(await spool.events.newest()).toBe(1);
    });

    test('it is told who has events behind a cursor, and of which kinds', async () => {
      const spool = await open();
      expect(await spool.events.news(0)).toEqual({ newest: 0, told: [] });
      const entry = spoolEntry();
      await spool.add(entry, someTime);
      await spool.record([attemptOf(entry, deferred)]);
      await spool.record([attemptOf(entry, deferred)]);
      await spool.add(spoolEntry({ account: 'other' }), someTime);
      const { newest, told } = await spool.events.news(1);
      expect(newest).toBe(4);
      expect(told).toHaveLength(2);
      expect(told).toEqual(
        expect.arrayContaining([
          { account: 'dev', kind: 'deferred' },
          { account: 'other', kind: 'accepted' },
        ]),
      );
      expect(await spool.events.news(4)).toEqual({ newest: 4, told: [] });
    });

    test('headers removed while the policy is observed stand in the event with their codes, cut to its bounds', async () => {
      const spool = await open();
      const observed = Array.from({ length: 60 }, (_, index) => ({
        name: `X-${index}${'a'.repeat(120)}`,
        index,
        code: 'E_HEADER_NAME_INVALID',
        message: 'It is wrong',
      }));
      const mailer = 'X-Mailer: old/1';
      await spool.add(spoolEntry({ received: { size: 1, stripped: [], observed } }), someTime);
      const received = { size: 1, stripped: [], observed: observed.slice(0, 1), mailer };
      await spool.add(spoolEntry({ received }), someTime);
      const [many, one] = await all(spool);
      expect(many).toMatchObject({ kind: 'accepted', observedCount: 60 });
      expect(many?.kind === 'accepted' && many.observed?.length).toBe(50);
      expect(one).toMatchObject({
        observed: [{ field: `X-0${'a'.repeat(97)}`, code: 'E_HEADER_NAME_INVALID', message: 'It is wrong' }],
        observedCount: 1,
        mailer,
      });
    });

    test('what is not kept has no event', async () => {
      const spool = await open();
      const entry = spoolEntry();
      await spool.add(entry, someTime);
      const tries = await Promise.allSettled([spool.add(entry, someTime), spool.add(spoolEntry(), someTime)]);
      expect(tries.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
      expect((await all(spool)).map(({ kind }) => kind)).toEqual(['accepted', 'accepted']);
    });

    test('every outcome has its event, with what the message’s acceptance told; also of a message that was dropped', async () => {
      const spool = await open();
      const entry = spoolEntry({ origin, recipients: ['a@x.test', 'b@x.test'] });
      await spool.add(entry, someTime);
      const [claimed] = await claimAny(spool, { now: someTime, limit: 1, claimUntil: someTime + 1 });
      expect(claimed?.entry.origin).toEqual(origin);
      await spool.record([
        attemptOf(entry, deferred, { recipient: 'a@x.test', nextAttemptAt: someTime + 60_000 }),
        attemptOf(entry, failed, { recipient: 'b@x.test' }),
      ]);
      await spool.record([attemptOf(entry, delivered, { recipient: 'a@x.test', attempts: 2, route: 'mx' })]);
      await spool.drop(entry.id);
      await spool.record([attemptOf(entry, delivered, { recipient: 'b@x.test' })]);
      const events = await all(spool);
      const facts = { queueId: entry.id, messageId: entry.messageId, ...origin, acceptedAt: someTime };
      expect(events.slice(1)).toMatchObject([
        { ...facts, kind: 'deferred', recipient: 'a@x.test', nextAttemptAt: someTime + 60_000, reply: { code: 451 } },
        { ...facts, kind: 'failed', recipient: 'b@x.test', reply: { code: 550, text: 'no such user' } },
        { ...facts, kind: 'delivered', recipient: 'a@x.test', attempts: 2, route: 'mx', reply: delivered.reply },
        { kind: 'dropped', queueId: entry.id },
        { ...facts, kind: 'delivered', recipient: 'b@x.test', host: 'default (h:25)' },
      ]);
      expect(events.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6]);
    });

    test('what is tried again by hand or dropped has its event, with the recipients that it was about', async () => {
      const spool = await open();
      const entry = spoolEntry({ origin, recipients: ['a@x.test', 'b@x.test', 'c@x.test'] });
      await spool.add(entry, someTime);
      await spool.record([
        attemptOf(entry, delivered, { recipient: 'a@x.test' }),
        attemptOf(entry, failed, { recipient: 'b@x.test' }),
      ]);
      now += 1000;
      const times = { now, expiresAt: now + 5000 };
      expect(await spool.retryMany([{ id: entry.id }], times)).toMatchObject({ messages: 1 });
      expect(await spool.retryMany([{ id: entry.id, recipients: ['c@x.test'] }, { id: 'none' }], times)).toMatchObject({
        messages: 1,
      });
      // Nothing is made due by these, so nothing has happened.
      expect(await spool.retryMany([{ id: entry.id, recipients: ['a@x.test', 'z@x.test'] }], times)).toMatchObject({
        messages: 0,
      });
      expect(await spool.retryMany([{ id: 'none' }], times)).toMatchObject({ messages: 0 });
      expect(await spool.drop('none')).toBe(false);
      now += 1000;
      expect(await spool.drop(entry.id)).toBe(true);
      const { account, credential, sessionId, id: queueId, messageId } = entry;
      const facts = { account, credential, sessionId, ...origin, senderPath: 'alice@example.com', queueId, messageId };
      expect((await all(spool)).slice(3)).toEqual([
        {
          ...{ id: 4, kind: 'requeued', at: someTime + 1000, ...facts },
          ...{ recipients: ['b@x.test', 'c@x.test'], recipientCount: 2, failedCount: 1 },
        },
        {
          ...{ id: 5, kind: 'requeued', at: someTime + 1000, ...facts },
          ...{ recipients: ['c@x.test'], recipientCount: 1, failedCount: 0 },
        },
        {
          ...{ id: 6, kind: 'dropped', at: someTime + 2000, ...facts },
          ...{ recipients: ['b@x.test', 'c@x.test'], recipientCount: 2 },
        },
      ]);
    });

    test('many that are tried again have an event each, which names the first of its recipients within a bound', async () => {
      const spool = await open();
      const recipients = Array.from({ length: 2000 }, (_, at) => `someone-${at}@example.org`);
      const entries = Array.from({ length: 50 }, (_, at) => spoolEntry(at === 0 ? { recipients } : {}));
      for (const entry of entries) await spool.add(entry, someTime);
      const picks = entries.map(({ id }) => ({ id }));
      expect(await spool.retryMany(picks, { now, expiresAt: now })).toMatchObject({ messages: 50, recipients: 2049 });
      const events = (await all(spool)).filter((event) => event.kind === 'requeued');
      expect(events.map(({ queueId }) => queueId)).toEqual(entries.map(({ id }) => id));
      expect(events[0]?.recipientCount).toBe(2000);
      expect(events[0]?.recipients.join('').length).toBeLessThanOrEqual(16_384);
    });

    test('a follower hears of what another process does to the queue', async () => {
      const spool = await open();
      const second = (await store.another?.(clock)) ?? spool;
      if (second !== spool) opened.push(second);
      const entry = spoolEntry();
      await spool.add(entry, someTime);
      const ending = new AbortController();
      const seen: string[] = [];
      const following = (async () => {
        const query = { after: 0, kinds: ['requeued', 'dropped'] as const, signal: ending.signal };
        for await (const { kind } of spool.events.follow(query)) seen.push(kind);
      })();
      await second.retryMany([{ id: entry.id }], { now, expiresAt: now });
      await second.drop(entry.id);
      await expect.poll(() => seen, waiting).toEqual(['requeued', 'dropped']);
      ending.abort();
      await following;
    });

    test('a follower of some kinds hears of each of them, however many others come before and between', async () => {
      const spool = await open();
      const ending = new AbortController();
      const seen: string[] = [];
      const following = (async () => {
        const query = { after: 0, kinds: ['failed'] as const, signal: ending.signal };
        for await (const event of spool.events.follow(query))
          seen.push(event.kind === 'failed' ? event.queueId : event.kind);
      })();
      const wanted: string[] = [];
      for (let round = 0; round < 3; round += 1) {
        const entries = Array.from({ length: 60 }, () => spoolEntry());
        await Promise.all(entries.map((entry) => spool.add(entry, someTime)));
        const last = entries.at(-1) ?? spoolEntry();
        await spool.record([attemptOf(last, failed)]);
        wanted.push(last.id);
        await expect.poll(() => seen, waiting).toEqual(wanted);
      }
      ending.abort();
      await following;
    });

    test('pages by cursor, kind and account miss nothing and tell nothing twice', async () => {
      const spool = await open();
      const entries = Array.from({ length: 40 }, (_, at) => spoolEntry({ account: at % 4 === 0 ? 'other' : 'dev' }));
      for (const entry of entries) {
        await spool.add(entry, someTime);
        await spool.record([attemptOf(entry, failed)]);
      }
      const whole = await all(spool);
      expect(whole.map(({ id }) => id)).toEqual(Array.from({ length: 80 }, (_, at) => at + 1));
      const others = await all(spool, { account: 'other' });
      expect(others).toEqual(whole.filter(({ account }) => account === 'other'));
      const kinds = ['failed', 'refused'] as const;
      const page = await spool.events.read({ after: 10, limit: 5, kinds, account: 'dev' });
      expect(page).toMatchObject({ hasMore: true, next: page.events.at(-1)?.id });
      expect(page.events.map(({ id, kind }) => `${id} ${kind}`)).toEqual([
        ...['12 failed', '14 failed', '16 failed', '20 failed', '22 failed'],
      ]);
      const last = await spool.events.read({ after: 79, limit: 5, kinds: ['accepted'] });
      expect(last).toEqual({ events: [], next: 80, hasMore: false });
      expect(await spool.events.read({ after: 500, limit: 5 })).toEqual({ events: [], next: 500, hasMore: false });
    });

    test('what came back is written at once, told to listeners, and found with all else of its message', async () => {
      const spool = await open();
      const [entry, other] = [spoolEntry(), spoolEntry()];
      const heard: EventFacts[] = [];
      await spool.add(entry, someTime);
      await spool.add(other, someTime);
      await spool.record([attemptOf(other, delivered), attemptOf(entry, delivered)]);
      spool.events.listen((event) => heard.push(event));
      const facts = {
        at: someTime,
        account: 'dev',
        sessionId: 'c0ffee',
        queueId: entry.id,
        messageId: entry.messageId,
      };
      const back = { ...facts, acceptedAt: someTime, reportedBy: '192.0.2.9', recipient: 'bob@example.org' };
      const bounced: EventFacts = { ...back, kind: 'bounced', bounceClass: 'hard', rule: '5.1.1', status: '5.1.1' };
      const complained: EventFacts = { ...back, kind: 'complained', feedbackType: 'abuse' };
      await spool.events.write([bounced, complained]);
      expect(heard).toEqual([bounced, complained]);
      const suppressed: EventFacts = {
        ...facts,
        ...{ kind: 'suppressed', recipient: 'bob@example.org', reason: 'hard_bounce', source: 'bounced', cause: 5 },
      };
      await spool.events.write([suppressed]);
      await spool.events.write([]);
      const found = await spool.events.read({ after: 0, limit: 100, message: entry.id });
      expect(found.events.map(({ id, kind }) => `${id} ${kind}`)).toEqual([
        ...['1 accepted', '4 delivered', '5 bounced', '6 complained', '7 suppressed'],
      ]);
      expect(found.events[2]).toEqual({ ...bounced, id: 5 });
      expect(found).toMatchObject({ next: 7, hasMore: false });
      const [first, second] = [
        await spool.events.read({ after: 0, limit: 2, message: entry.id }),
        await spool.events.read({ after: 4, limit: 9, message: entry.id, kinds: ['complained'], account: 'dev' }),
      ];
      expect(first).toMatchObject({ events: [{ id: 1 }, { id: 4 }], next: 4, hasMore: true });
      expect(second.events).toMatchObject([{ id: 6 }]);
      const query = { after: 0, limit: 9, message: entry.id, account: 'other' };
      expect((await spool.events.read(query)).events).toEqual([]);
      expect((await spool.events.read({ after: 0, limit: 9, message: other.id })).events).toHaveLength(2);
    });

    test('the events of one message are found by its id, whatever else there is', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@x.test', 'b@x.test'] });
      await spool.add(spoolEntry(), someTime);
      await spool.add(entry, someTime);
      await spool.record([
        attemptOf(entry, deferred, { recipient: 'a@x.test' }),
        attemptOf(entry, failed, { recipient: 'b@x.test' }),
      ]);
      await spool.add(spoolEntry(), someTime);
      spool.events.refuse(refusal('dev'));
      await expect.poll(() => spool.events.newest(), waiting).toBe(6);
      const page = await spool.events.read({ after: 0, limit: 10, message: entry.id });
      expect(page.events.map(({ id, kind }) => `${id} ${kind}`)).toEqual(['2 accepted', '3 deferred', '4 failed']);
      expect(page.hasMore).toBe(false);
      expect((await spool.events.read({ after: 2, limit: 1, message: entry.id })).events).toHaveLength(1);
      expect((await spool.events.read({ after: 0, limit: 9, message: entry.id, account: 'other' })).events).toEqual([]);
      expect((await spool.events.read({ after: 0, limit: 9, message: '%' })).events).toEqual([]);
    });

    test('an event without a change of the spool is written in a commit of its own, and listeners hear of it', async () => {
      const spool = await open();
      const heard: EventFacts[] = [];
      spool.events.listen((event) => heard.push(event));
      const event = {
        kind: 'webhook_disabled',
        at: someTime,
        account: 'dev',
        sessionId: 'c0ffee',
        webhook: 'c0ffee',
        url: 'https://hooks.example/in',
        reason: 'it failed for a day',
      } as const;
      await spool.events.write([event]);
      expect(heard).toEqual([event]);
      expect(await all(spool)).toEqual([{ id: 1, ...event }]);
    });

    describe('a search', () => {
      async function ids(spool: Spool, query: Partial<EventSearch> = {}): Promise<readonly number[]> {
        const found: number[] = [];
        let cursor: number | undefined;
        for (let pages = 0; ; pages += 1) {
          const asked = { account: 'dev', order: 'newest', limit: 3, cursor, ...query } as const;
          const page = await spool.events.search(asked);
          expect(page.events.length).toBeLessThanOrEqual(asked.limit);
          found.push(...page.events.map(({ id }) => id));
          if (!page.hasMore) return found;
          expect(pages).toBeLessThan(50);
          cursor = page.next;
        }
      }

      async function filled() {
        const spool = await open();
        const entries = Array.from({ length: 6 }, (_, at) =>
          spoolEntry({
            account: at === 5 ? 'other' : 'dev',
            senderPath: at % 2 === 0 ? 'Even@Example.com' : 'odd@example.com',
            recipients: [`User-${at}@Bücher.example`, 'all@example.org'],
            clientMessageId: `<own-${at}@client.example>`,
            acceptedAt: someTime + at * 3_600_000,
          }),
        );
        for (const entry of entries) {
          now = entry.acceptedAt;
          await spool.add(entry, someTime);
          await spool.record([attemptOf(entry, failed, { recipient: entry.recipients[0] ?? '', at: now + 1 })]);
        }
        return { spool, entries };
      }

      test('goes through an account’s events in both orders, page by page, and never into another’s', async () => {
        const { spool, entries } = await filled();
        const own = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        expect(await ids(spool, { order: 'oldest' })).toEqual(own);
        expect(await ids(spool)).toEqual(own.toReversed());
        expect(await ids(spool, { account: 'other' })).toEqual([12, 11]);
        expect(await ids(spool, { account: 'nobody' })).toEqual([]);
        expect(await ids(spool, { message: entries[5]?.id })).toEqual([]);
        expect(await ids(spool, { message: entries[1]?.id })).toEqual([4, 3]);
      });

      test('finds by kind, by addresses in any spelling and by the client’s Message-ID, and by several at once', async () => {
        const { spool } = await filled();
        expect(await ids(spool, { kinds: ['failed'] })).toEqual([10, 8, 6, 4, 2]);
        expect(await ids(spool, { kinds: ['failed', 'accepted', 'failed'], order: 'oldest', limit: 4 })).toHaveLength(
          10,
        );
        expect(await ids(spool, { kinds: ['refused'] })).toEqual([]);
        expect(await ids(spool, { recipient: 'USER-3@xn--bcher-kva.example' })).toEqual([8, 7]);
        expect(await ids(spool, { recipient: 'user-5@bücher.example' })).toEqual([]);
        expect(await ids(spool, { recipient: 'all@example.org' })).toEqual([9, 7, 5, 3, 1]);
        expect(await ids(spool, { sender: 'even@example.com' })).toEqual([9, 5, 1]);
        expect(await ids(spool, { sender: 'even@example.com', recipient: 'user-2@bücher.example' })).toEqual([5]);
        expect(await ids(spool, { recipient: 'all@example.org', kinds: ['failed'] })).toEqual([]);
        for (const clientMessageId of ['<own-3@client.example>', 'own-3@client.example'])
          expect(await ids(spool, { clientMessageId })).toEqual([7]);
        for (const text of ['%', 'user-_@bücher.example', 'all@example.or', "' OR 1=1 --", 'User-3%'])
          expect(await ids(spool, { recipient: text }), text).toEqual([]);
      });

      test('finds by time, the end left out', async () => {
        const { spool } = await filled();
        const hour = 3_600_000;
        expect(await ids(spool, { since: someTime + hour, until: someTime + 3 * hour })).toEqual([6, 5, 4, 3]);
        expect(await ids(spool, { since: someTime + 4 * hour + 1 })).toEqual([10]);
        expect(await ids(spool, { until: someTime + 1, order: 'oldest' })).toEqual([1]);
        expect(await ids(spool, { since: someTime + 100 * hour })).toEqual([]);
        expect(await ids(spool, { until: someTime })).toEqual([]);
        expect(await ids(spool, { since: 5, until: 4 })).toEqual([]);
      });

      test('reads on from the oldest as events come, and nothing is told twice', async () => {
        const { spool } = await filled();
        const page = await spool.events.search({ account: 'dev', order: 'oldest', limit: 100 });
        expect([page.hasMore, page.events.length]).toEqual([false, 10]);
        await spool.add(spoolEntry(), someTime);
        const later = await spool.events.search({ account: 'dev', order: 'oldest', limit: 100, cursor: page.next });
        expect(later.events.map(({ id }) => id)).toEqual([13]);
        const none = await spool.events.search({ account: 'dev', order: 'oldest', limit: 9, cursor: later.next });
        expect(none).toEqual({ events: [], next: 13, hasMore: false });
      });

      test('forgets what was removed', async () => {
        const spool = await open({ mail: 4 });
        for (let count = 0; count < 20; count += 1) await spool.add(spoolEntry({ acceptedAt: now }), someTime);
        await spool.recover();
        await expect.poll(() => ids(spool, { recipient: 'bob@example.org' }), waiting).toEqual([20, 19, 18, 17]);
        expect(await ids(spool, { sender: 'alice@example.com', order: 'oldest' })).toEqual([17, 18, 19, 20]);
      });
    });

    test('a listener hears of each right after the commit and before the caller does, in order; refusals at once', async () => {
      const spool = await open();
      const heard: EventFacts[] = [];
      const end = spool.events.listen((event) => heard.push(event));
      spool.events.listen(() => {
        throw new Error('a listener of another’s');
      });
      const entry = spoolEntry({ recipients: ['a@x.test', 'b@x.test'] });
      let heardBefore: string[] = [];
      await spool.add(entry, someTime).then(() => (heardBefore = heard.map(({ kind }) => kind)));
      expect(heardBefore).toEqual(['accepted']);
      await spool.record([
        attemptOf(entry, delivered, { recipient: 'a@x.test' }),
        attemptOf(entry, failed, { recipient: 'b@x.test' }),
      ]);
      spool.events.refuse(refusal('dev'));
      expect(heard.map(({ kind }) => kind)).toEqual(['accepted', 'delivered', 'failed', 'refused']);
      end();
      await expect(spool.add(entry, someTime)).rejects.toThrow();
      await spool.add(spoolEntry(), someTime);
      expect(heard).toHaveLength(4);
    });

    test('refusals are written soon, cut to their bounds, and at the latest when the spool is closed', async () => {
      const spool = await open();
      const violations = Array.from({ length: 60 }, () => ({
        code: 'E_HEADER_NOT_ALLOWED',
        message: 'x'.repeat(5000),
        name: 'y'.repeat(500),
      }));
      const recipients = Array.from({ length: 1000 }, (_, at) => `someone-${at}@example.org`);
      spool.events.refuse(refusal('dev', { violations, recipients, size: 9, reply: { code: 554, enhanced: '5.7.1' } }));
      await expect.poll(() => spool.events.newest(), waiting).toBe(1);
      const [event] = await all(spool);
      expect(event).toMatchObject({
        ...{ kind: 'refused', stage: 'message', account: 'dev', at: someTime, size: 9 },
        ...{ recipientCount: 1000, violationCount: 60, reply: { code: 554, enhanced: '5.7.1' } },
      });
      expect(JSON.stringify(event).length).toBeLessThan(32_000);
      if (event?.kind !== 'refused') throw new Error('no refusal');
      expect(event.violations).toHaveLength(50);
      expect(event.violations[0]).toMatchObject({ message: 'x'.repeat(300), field: 'y'.repeat(100) });
      expect(event.recipients.join('').length).toBeLessThanOrEqual(2048);
      expect([spool.events.waitingRefusals, spool.events.droppedRefusals]).toEqual([0, 0]);
    });

    test('refusals of any number of accounts are bounded in memory', async () => {
      const spool = await open();
      for (let count = 0; count < 5000; count += 1) spool.events.refuse(refusal(`account-${count}`));
      expect(spool.events.waitingRefusals).toBeLessThanOrEqual(1025);
      expect(spool.events.droppedRefusals).toBeGreaterThanOrEqual(3975);
    });

    test('a flood of refusals is bounded in memory and store, is counted, and leaves others their room', async () => {
      const spool = await open({ refusals: 50 });
      const honest = spoolEntry();
      await spool.add(honest, someTime);
      for (const account of ['flood', 'deluge'])
        for (let count = 0; count < 3000; count += 1) spool.events.refuse(refusal(account));
      spool.events.refuse(refusal('dev'));
      expect(spool.events.waitingRefusals).toBeLessThanOrEqual(600);
      expect(spool.events.droppedRefusals).toBeGreaterThanOrEqual(5400);
      await expect.poll(() => spool.events.waitingRefusals, waiting).toBe(0);
      await expect.poll(async () => (await all(spool, { account: 'dev' })).length, waiting).toBe(2);
      for (let rest = 0; rest < 10; rest += 1) await spool.add(spoolEntry(), someTime);
      await spool.recover();
      await expect.poll(async () => (await all(spool, { account: 'flood' })).length, waiting).toBe(50);
      expect((await all(spool)).filter(({ kind }) => kind === 'accepted')).toHaveLength(11);
    });

    test('a flood of copies takes no room of the same account’s mail and refusals', async () => {
      const spool = await open({ mail: 10, refusals: 10, copies: 50 });
      await spool.add(spoolEntry(), someTime);
      for (let count = 0; count < 3000; count += 1) spool.events.refuse({ ...refusal('dev'), shadow: true });
      spool.events.refuse(refusal('dev'));
      await expect.poll(() => spool.events.waitingRefusals, waiting).toBe(0);
      const kinds = async () => Object.groupBy(await all(spool, { account: 'dev' }), ({ kind }) => kind);
      await spool.recover();
      await expect.poll(async () => (await kinds()).shadowed?.length, waiting).toBe(50);
      const { accepted, refused } = await kinds();
      expect([accepted?.length, refused?.length]).toEqual([1, 1]);
    });

    test('events go by number and by age, the oldest first, and no id is given twice', async () => {
      const spool = await open({ mail: 10, ageMilliseconds: 60_000 });
      for (let count = 0; count < 40; count += 1) await spool.add(spoolEntry(), someTime);
      await spool.recover();
      await expect
        .poll(async () => (await all(spool)).map(({ id }) => id), waiting)
        .toEqual(Array.from({ length: 10 }, (_, at) => at + 31));
      now += 120_000;
      await spool.recover();
      await spool.add(spoolEntry({ acceptedAt: now }), now);
      await spool.recover();
      await expect.poll(async () => (await all(spool)).map(({ id }) => id), waiting).toEqual([41]);
      now += 120_000;
      await spool.recover();
      await expect.poll(async () => (await all(spool)).length, waiting).toBe(0);
      expect(await spool.events.newest()).toBe(41);
      await spool.add(spoolEntry({ acceptedAt: now }), now);
      expect((await all(spool)).map(({ id }) => id)).toEqual([42]);
    });

    test('a follower gets what is there, then what comes, of its account alone, until it is ended', async () => {
      const spool = await open();
      await spool.add(spoolEntry(), someTime);
      const ending = new AbortController();
      const seen: number[] = [];
      const following = (async () => {
        for await (const { id } of spool.events.follow({ after: 0, account: 'dev', signal: ending.signal }))
          seen.push(id);
      })();
      await expect.poll(() => seen, waiting).toEqual([1]);
      await spool.add(spoolEntry({ account: 'other' }), someTime);
      const entry = spoolEntry();
      await spool.add(entry, someTime);
      await spool.record([attemptOf(entry, delivered)]);
      await expect.poll(() => seen, waiting).toEqual([1, 3, 4]);
      ending.abort();
      await following;
      const fresh = spool.events.follow({ signal: new AbortController().signal });
      let first = 0;
      const begun = fresh.next().then(({ value }) => (first = value?.id ?? 0));
      // Where it begins it finds out by a question: what comes before the answer is not told of either, and all that comes later.
      const addOne = async (): Promise<number> => {
        if (first === 0) await spool.add(spoolEntry(), someTime);
        return first;
      };
      await expect.poll(addOne, waiting).toBeGreaterThan(4);
      await begun;
      await spool.add(spoolEntry(), someTime);
      expect((await fresh.next()).value).toMatchObject({ id: first + 1 });
      await fresh.return();
    });

    test('a follower beside many that write at once gets every event once, in order', async () => {
      const spool = await open();
      const second = (await store.another?.(clock)) ?? spool;
      if (second !== spool) opened.push(second);
      const ending = new AbortController();
      const seen: number[] = [];
      const following = (async () => {
        for await (const { id } of spool.events.follow({ after: 0, signal: ending.signal })) {
          seen.push(id);
          if (seen.length === 400) ending.abort();
        }
      })();
      const writers = [spool, second].flatMap((one) => Array.from({ length: 10 }, () => one));
      await Promise.all(
        writers.map(async (one) => {
          for (let count = 0; count < 10; count += 1) {
            const entry = spoolEntry();
            await one.add(entry, someTime);
            await one.record([attemptOf(entry, delivered)]);
          }
        }),
      );
      await following;
      expect(seen).toEqual(Array.from({ length: 400 }, (_, at) => at + 1));
    });
  });
}
