// The contract of the webhooks and their progress (D54, D91): one suite, run on every engine.

import { describe, expect, test } from 'vitest';
import { LeaseStore, leaseMs, type PendingEvent, type RoundProgress } from '../../src/delivery/webhooks/lease-store.ts';
import { longestStepMs } from '../../src/delivery/webhooks/webhook.ts';
import { openWebhookStore } from '../../src/delivery/webhooks/webhook-store.ts';
import type { Engine } from '../support/engines.ts';
import { manualClock } from '../support/smtp-peers.ts';

const dev = 'a1'.repeat(16);
const wanted = {
  account: dev,
  url: 'https://hooks.example/',
  kinds: undefined,
  note: '',
  secret: 'whsec_one',
} as const;

function pending(event: number, more: Partial<PendingEvent> = {}): PendingEvent {
  return { event, message: 'm', attempts: 1, readyAt: undefined, ...more };
}

function progress(more: Partial<RoundProgress> = {}): RoundProgress {
  return {
    ...{ cursor: 0, replay: undefined, failures: 0, failingMs: 0, lastFailureAt: undefined, retryAll: false },
    ...{ done: [], again: [], pending: [], log: [] },
    ...more,
  };
}

async function setUp(engine: Engine) {
  const clock = manualClock();
  const timed = await engine.timed?.();
  const database = timed?.database ?? (await engine.make()());
  const pass = async (seconds: number): Promise<void> => {
    clock.pass(seconds);
    await timed?.setTime(clock.now());
  };
  await pass(0);
  const store = await openWebhookStore(database, clock);
  const made = await store.create(wanted, 7);
  if (!made) throw new Error('not made');
  return {
    clock,
    pass,
    database,
    store,
    id: made.id,
    one: new LeaseStore({ database, holder: 'one' }),
    two: new LeaseStore({ database, holder: 'two' }),
  };
}

/** Defines the suite for one engine. */
export function webhooksContract(engine: Engine): void {
  describe(`webhooks on ${engine.name}`, () => {
    test('one process holds the lease until it ends or is given back; who lost it writes nothing', async () => {
      const { one, two, id, clock, pass, store } = await setUp(engine);
      expect(await one.lease(id, clock.now())).toMatchObject({ webhook: { cursor: 7 }, secrets: ['whsec_one'] });
      expect(await two.lease(id, clock.now())).toBeUndefined();
      expect(await two.held(id, clock.now())).toBeUndefined();
      expect(await two.commit(id, progress({ cursor: 99 }), clock.now())).toBe(false);
      expect(await one.commit(id, progress({ cursor: 8 }), clock.now())).toBe(true);
      await pass(leaseMs / 1000);
      expect(await one.held(id, clock.now())).toBeUndefined();
      expect(await two.lease(id, clock.now())).toMatchObject({ webhook: { cursor: 8 } });
      const log = { ...{ event: 9, kind: 'accepted', attempt: 1, at: 1, durationMs: 1 }, result: 'delivered' } as const;
      const late = progress({ cursor: 9, pending: [pending(9)], log: [{ ...log, status: 200, error: undefined }] });
      expect(await one.commit(id, late, clock.now())).toBe(false);
      expect(await one.disable(id, 'late')).toBe(false);
      expect([await two.waiting(id, 9), (await store.deliveries(id, { limit: 9 })).deliveries]).toEqual([0, []]);
      await two.release();
      expect(await one.lease(id, clock.now())).toBeDefined();
      await store.change(dev, id, { isEnabled: false });
      expect([await one.held(id, clock.now()), await one.lease(id, clock.now())]).toEqual([undefined, undefined]);
    });

    test('a round that stood still gets no lease back that another process had meanwhile, and writes nothing over its work', async () => {
      const { one, two, id, clock, pass } = await setUp(engine);
      await one.lease(id, clock.now());
      await pass((2 * leaseMs) / 1000);
      expect(await one.renew(id, clock.now())).toBe(true);
      expect(await two.lease(id, clock.now())).toBeUndefined();
      await pass(leaseMs / 1000);
      await two.lease(id, clock.now());
      expect(await two.commit(id, progress({ cursor: 99 }), clock.now())).toBe(true);
      await pass(leaseMs / 1000);
      expect(await one.renew(id, clock.now())).toBe(false);
      expect(await one.commit(id, progress({ cursor: 8 }), clock.now())).toBe(false);
      await two.release();
      expect(await one.renew(id, clock.now())).toBe(false);
      expect(await one.lease(id, clock.now())).toMatchObject({ webhook: { cursor: 99 } });
    });

    test('a lease is not taken by a process whose clock is behind, or whose statement had to wait', async () => {
      const { one, two, id, clock } = await setUp(engine);
      const now = clock.now();
      for (const ahead of [1, 50, 9_999]) {
        expect(await one.lease(id, now + ahead)).toBeDefined();
        expect([ahead, await two.lease(id, now)]).toEqual([ahead, undefined]);
        expect((await two.active(now)).map(({ isElsewhere }) => isElsewhere)).toEqual([true]);
      }
    });

    test('a lease from before the clock was set back does not last until then', async () => {
      const { one, two, id, clock, pass } = await setUp(engine);
      await pass(365 * 86_400);
      await one.lease(id, clock.now());
      await pass(-365 * 86_400);
      expect(await two.lease(id, clock.now())).toBeDefined();
    });

    test('an event waits until those before it of its message are done, and no other does', async () => {
      const { one, id, clock } = await setUp(engine);
      const now = clock.now();
      await one.lease(id, now);
      const first = pending(10, { readyAt: now + 5000 });
      const other = pending(12, { message: 'other', readyAt: now });
      await one.commit(id, progress({ pending: [first, pending(11), other, pending(14)] }), now);
      expect(await one.due(id, now, 9)).toEqual([other]);
      expect(await one.nextReady(id)).toBe(now);
      expect(await one.blocked(id, ['m', 'other', 'none'])).toEqual(new Set(['m', 'other']));
      expect([await one.waiting(id, 9), await one.waiting(id, 2)]).toEqual([4, 2]);
      await one.commit(id, progress({ done: [first, other] }), now + 1);
      expect((await one.due(id, now + 1, 9)).map(({ event }) => event)).toEqual([11]);
      await one.commit(id, progress({ again: [pending(11, { attempts: 2, readyAt: now + 9000 })] }), now + 1);
      expect(await one.due(id, now + 1, 9)).toEqual([]);
      // Sent once more on demand, one that waits keeps its time.
      await one.commit(id, progress({ pending: [pending(11, { attempts: 0 })] }), now + 1);
      expect(await one.due(id, now + 9000, 9)).toMatchObject([{ event: 11, attempts: 2 }]);
      await one.commit(id, progress({ retryAll: true }), now + 2);
      expect(await one.due(id, now + 2, 9)).toMatchObject([{ event: 11 }]);
    });

    test('what waits for a time from before the clock was set back is due', async () => {
      const { one, id, clock } = await setUp(engine);
      const now = clock.now();
      await one.lease(id, now);
      const ahead = pending(10, { readyAt: now + longestStepMs + 1 });
      await one.commit(id, progress({ pending: [ahead, pending(20, { message: 'n', readyAt: now + 5000 })] }), now);
      expect((await one.due(id, now, 9)).map(({ event }) => event)).toEqual([10]);
    });

    test('the log keeps the last thousand of a month, page by page', async () => {
      const { one, id, clock, store } = await setUp(engine);
      const beside = (await store.create(wanted, 7))?.id ?? '';
      for (const each of [id, beside]) await one.lease(each, clock.now());
      const failed = {
        ...{ kind: 'accepted', attempt: 1, at: clock.now(), durationMs: 5 },
        ...({ result: 'failed', status: undefined, error: 'refused' } as const),
      };
      for (let round = 0; round < 35; round += 1) {
        const log = Array.from({ length: 32 }, (_, at) => ({ ...failed, event: round * 32 + at }));
        // What another webhook logs, before and in between, is neither removed with it nor counted.
        if (round % 20 === 0) await one.commit(beside, progress({ log: [{ ...failed, event: round }] }), clock.now());
        await one.commit(id, progress({ log }), clock.now());
      }
      expect((await store.deliveries(beside, { limit: 9 })).deliveries.map(({ event }) => event)).toEqual([20, 0]);
      const events: number[] = [];
      for (let before: number | undefined, isFirst = true; isFirst || before !== undefined; isFirst = false) {
        const page = await store.deliveries(id, { limit: 300, before });
        events.push(...page.deliveries.map(({ event }) => event));
        before = page.next;
      }
      expect(events).toEqual(Array.from({ length: 1000 }, (_, at) => 1119 - at));
      clock.pass(31 * 86_400);
      const last = {
        ...{ event: 1, kind: '', attempt: 1, at: clock.now(), durationMs: 5 },
        result: 'delivered',
      } as const;
      await one.commit(id, progress({ log: [{ ...last, status: 200, error: undefined }] }), clock.now());
      expect((await store.deliveries(id, { limit: 9 })).deliveries).toMatchObject([{ event: 1, status: 200 }]);
    });

    test('for a day after a rotation both secrets sign', async () => {
      const { one, id, clock, store } = await setUp(engine);
      await store.rotate(dev, id, 'whsec_two');
      expect((await one.lease(id, clock.now()))?.secrets).toEqual(['whsec_two', 'whsec_one']);
      clock.pass(86_400);
      expect((await one.lease(id, clock.now()))?.secrets).toEqual(['whsec_two']);
      expect(await store.rotate('c1'.repeat(16), id, 'whsec_other')).toBeUndefined();
    });

    test('a replay is widened, and what is removed leaves nothing', async () => {
      const { one, id, clock, store, database } = await setUp(engine);
      await store.replay(dev, id, { after: 5, until: 8 });
      expect((await store.replay(dev, id, { after: 3, until: 6 }))?.replay).toEqual({ after: 3, until: 8 });
      await one.lease(id, clock.now());
      const replay = { before: { after: 3, until: 8 }, left: { after: 4, until: 8 } };
      await one.commit(id, progress({ replay, pending: [pending(9)] }), clock.now());
      expect((await store.find(dev, id))?.replay).toEqual({ after: 4, until: 8 });
      // What is asked for during a round is not ended with what the round began with.
      await store.replay(dev, id, { after: 2, until: 8 });
      await one.commit(id, progress({ replay: { before: replay.left, left: undefined } }), clock.now());
      expect((await store.find(dev, id))?.replay).toEqual({ after: 2, until: 8 });
      await one.commit(id, progress({ replay: { before: { after: 2, until: 8 }, left: undefined } }), clock.now());
      expect((await store.find(dev, id))?.replay).toBeUndefined();
      await store.replay(dev, id, { after: 6, until: 8 });
      await one.commit(id, progress(), clock.now());
      expect((await store.find(dev, id))?.replay).toEqual({ after: 6, until: 8 });
      expect(await store.remove('c1'.repeat(16), id)).toBeUndefined();
      expect(await store.remove(dev, id)).toMatchObject({ id });
      expect(await one.commit(id, progress({ cursor: 9, pending: [pending(10)] }), clock.now())).toBe(false);
      for (const table of ['webhooks', 'webhook_pending', 'webhook_deliveries'])
        expect(await database.query(`SELECT * FROM ${table}`), table).toEqual([]);
    });

    test('the webhooks of the file follow the file, keep their place, and are enabled again', async () => {
      const { one, clock, store, id } = await setUp(engine);
      const file = { id: 'f1'.repeat(16), account: dev, url: 'https://a.example/', kinds: undefined, note: 'shop' };
      const configured = { ...file, secrets: () => ['whsec_file'] };
      await store.configure([configured], 40);
      expect(await one.lease(file.id, clock.now())).toMatchObject({
        webhook: { cursor: 40, source: 'file' },
        secrets: [],
      });
      await one.commit(file.id, progress({ cursor: 44, failures: 3 }), clock.now());
      await one.disable(file.id, 'it failed');
      await store.configure([{ ...configured, url: 'https://b.example/', kinds: ['failed'] }], 50);
      expect(await store.find(dev, file.id)).toMatchObject({
        ...{ cursor: 44, isEnabled: true, failures: 0, url: 'https://b.example/', kinds: ['failed'] },
        disabledReason: undefined,
      });
      expect(await store.change(dev, file.id, { note: 'mine' })).toBeUndefined();
      expect(await store.remove(dev, file.id)).toBeUndefined();
      await store.configure([], 60);
      expect((await store.list(dev)).map((webhook) => webhook.id)).toEqual([id]);
    });

    test('what is done for a webhook changes no other, of its account or of another', async () => {
      const { one, two, id, clock, pass, store } = await setUp(engine);
      const other = 'c1'.repeat(16);
      const beside = (await store.create({ ...wanted, url: 'https://beside.example/' }, 7))?.id ?? '';
      const theirs = (await store.create({ ...wanted, account: other, url: 'https://theirs.example/' }, 7))?.id ?? '';
      const now = clock.now();
      // A message of one id waits in each, with its first event due and its next one behind it.
      const delivery = { kind: 'accepted', attempt: 1, at: now, durationMs: 5, status: 500, error: undefined } as const;
      for (const [at, each] of [id, beside, theirs].entries()) {
        await one.lease(each, now);
        const waiting = [pending(1, { readyAt: now + at }), pending(2), pending(3, { readyAt: now + 50_000 + at })];
        const log = [{ ...delivery, event: 100 + at, result: 'failed' } as const];
        expect(await one.commit(each, progress({ pending: waiting, log }), now)).toBe(true);
      }
      const state = async (each: string) => ({
        log: (await store.deliveries(each, { limit: 10 })).deliveries.map(({ event }) => event),
        due: (await one.due(each, now + 60_000, 10)).map(({ event, attempts, readyAt }) => [event, attempts, readyAt]),
        next: await one.nextReady(each),
        waiting: await one.waiting(each, 10),
        blocked: [...(await one.blocked(each, ['m']))],
        lease: (await one.held(each, now))?.webhook,
      });
      const [besideBefore, theirsBefore] = [await state(beside), await state(theirs)];
      expect([besideBefore, theirsBefore]).toMatchObject([
        { log: [101], next: now + 1, waiting: 3, blocked: ['m'], lease: { id: beside } },
        { log: [102], next: now + 2, waiting: 3, blocked: ['m'], lease: { id: theirs } },
      ]);
      expect(besideBefore.due).toEqual([
        [1, 1, now + 1],
        [3, 1, now + 50_001],
      ]);
      const unchanged = async (): Promise<void> =>
        expect([await state(beside), await state(theirs)]).toEqual([besideBefore, theirsBefore]);
      // Who names it by another account changes nothing.
      expect([await store.find(dev, theirs), await store.change(dev, theirs, { note: 'x' })]).toEqual([
        undefined,
        undefined,
      ]);
      expect(await store.replay(dev, theirs, { after: 1, until: 2 })).toBeUndefined();
      expect(await store.rotate(dev, theirs, 'whsec_x')).toBeUndefined();
      expect(await store.remove(dev, theirs)).toBeUndefined();
      await unchanged();
      const idsOf = async (account: string) => (await store.list(account)).map((webhook) => webhook.id).sort();
      expect([await idsOf(dev), await idsOf(other)]).toEqual([[id, beside].sort(), [theirs]]);
      // Its own rounds.
      await one.commit(id, progress({ again: [pending(1, { attempts: 2, readyAt: now + 9 })] }), now);
      await unchanged();
      await one.commit(id, progress({ done: [pending(1)] }), now);
      await unchanged();
      await one.commit(id, progress({ retryAll: true }), now);
      expect((await one.due(id, now, 10)).map(({ event }) => event)).toEqual([2, 3]);
      await unchanged();
      // The next event of a message is the next one of the same webhook.
      await one.commit(beside, progress({ done: [pending(1), pending(2), pending(3)] }), now);
      const next = { message: 'n' };
      const coming = [pending(7, { ...next, readyAt: now }), pending(8, next)];
      await one.commit(beside, progress({ pending: coming }), now);
      await one.commit(beside, progress({ done: [pending(7, next)] }), now);
      expect((await one.due(beside, now, 10)).map(({ event }) => event)).toEqual([8]);
      expect(await one.blocked(beside, ['m', 'n'])).toEqual(new Set(['n']));
      expect(await one.blocked(id, ['n'])).toEqual(new Set());
      // Another URL tries at once what waits for the webhook, and for no other.
      await one.commit(id, progress({ pending: [pending(5, { readyAt: now + 70_000 })] }), now);
      await store.change(dev, id, { url: 'https://moved.example/' });
      expect(await one.nextReady(id)).toBe(now);
      expect(await state(theirs)).toEqual(theirsBefore);
      // A replay of the same events ends alone.
      const replay = { after: 1, until: 2 };
      for (const each of [id, beside]) await store.replay(dev, each, replay);
      await one.commit(id, progress({ replay: { before: replay, left: undefined } }), now);
      expect([(await store.find(dev, id))?.replay, (await store.find(dev, beside))?.replay]).toEqual([
        undefined,
        replay,
      ]);
      // A log that is old goes alone.
      const late = now + 31 * 86_400_000;
      await one.commit(id, progress({ log: [{ ...delivery, at: late, event: 200, result: 'failed' }] }), late);
      expect((await store.deliveries(id, { limit: 10 })).deliveries.map(({ event }) => event)).toEqual([200]);
      expect((await state(theirs)).log).toEqual([102]);
      // What is silent is told of the webhook itself.
      await one.commit(beside, progress({ done: [pending(8)] }), now);
      await pass((2 * leaseMs) / 1000 + 3600);
      const left = (await two.active(clock.now())).filter(({ isLeft }) => isLeft);
      expect(left.map((webhook) => webhook.id).sort()).toEqual([id, theirs].sort());
      for (const each of [beside, theirs]) await one.lease(each, clock.now());
      // Who holds no lease disables nothing, and gives back none of another's.
      expect(await two.disable(theirs, 'x')).toBe(false);
      await two.release();
      expect((await one.held(theirs, now))?.webhook.isEnabled).toBe(true);
      // As many as one may have are no more than one may have.
      while (await store.create(wanted, 7));
      expect(await store.create({ ...wanted, account: other }, 7)).toBeDefined();
      await store.remove(dev, id);
      expect(await state(theirs)).toEqual(theirsBefore);
      expect((await state(beside)).log).toEqual([101]);
    });

    test('of two webhooks of the file one is changed and removed without the other, and no secret of theirs is kept', async () => {
      const { store } = await setUp(engine);
      const made = ['f1', 'f2'].map((digits) => {
        const url = `https://${digits}.example/`;
        return {
          id: digits.repeat(16),
          account: dev,
          url,
          kinds: undefined,
          note: digits,
          secrets: () => ['whsec_file'],
        };
      });
      await store.configure(made, 40);
      const [first, second] = made.map((webhook) => webhook.id);
      expect(await store.rotate(dev, first ?? '', 'whsec_x')).toBeUndefined();
      const shown = async (webhook = '') => (await store.find(dev, webhook))?.url;
      expect([await shown(first), await shown(second)]).toEqual(['https://f1.example/', 'https://f2.example/']);
      await store.configure(
        made.map((webhook, at) => (at === 0 ? { ...webhook, url: 'https://moved.example/' } : webhook)),
        45,
      );
      expect([await shown(first), await shown(second)]).toEqual(['https://moved.example/', 'https://f2.example/']);
      await store.configure(made.slice(1), 50);
      expect([await shown(first), await shown(second)]).toEqual([undefined, 'https://f2.example/']);
    });
  });
}
