// The contract of every spool (D90, D91): one suite, run on each store.

import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import { isKeyUsed } from '../../src/spool/idempotency-keys.ts';
import type { DueMessage, Outcome, Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { failedRetentionMilliseconds, leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { countStates, tallyOf, totalOf } from '../../src/spool/tally.ts';
import { claimAny } from '../support/claim-any.ts';
import fc from '../support/properties.ts';
import { countsOf } from '../support/spool-counts.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';

/** How the suite gets at a store. */
export interface SpoolUnderTest {
  /** A fresh store that goes by this clock. */
  open(clock: Clock): Promise<Spool>;
  /** The same store's data seen by another claimer, where the store has such a thing. */
  another?(clock: Clock): Promise<Spool>;
  /** Called after each test, once every spool is closed. */
  clean(): Promise<void>;
}

const ok = { code: 250, enhanced: '2.0.0', text: 'queued as 1' };
const busy = { code: 451, enhanced: '4.3.0', text: 'busy\nvery busy' };
const no = { code: 550, text: 'no such user' };
const host = 'default (127.0.0.1:25)';
const lease = someTime + leaseMilliseconds;

function outcome(kind: Outcome['kind']): Outcome {
  return { kind, reply: { delivered: ok, deferred: busy, failed: no }[kind], host };
}

function attempt(entry: SpoolEntry, kind: Outcome['kind'], recipient?: string): OutcomeEvent {
  return attemptOf(entry, outcome(kind), {
    ...(recipient === undefined ? {} : { recipient }),
    ...(kind === 'deferred' ? { nextAttemptAt: someTime + 60_000 } : {}),
  });
}

function claimAll(spool: Spool, at = someTime): Promise<readonly DueMessage[]> {
  return claimAny(spool, { now: at, limit: 100, claimUntil: at + leaseMilliseconds });
}

/** Defines the suite for one store. */
export function spoolContract(name: string, store: SpoolUnderTest): void {
  describe(name, () => {
    let now = someTime;
    const opened: Spool[] = [];
    // Milliseconds that the wall clock was set forward.
    let jumped = 0;
    const clock: Clock = { now: () => now, monotonic: () => now - jumped };

    async function open(): Promise<Spool> {
      now = someTime;
      jumped = 0;
      const spool = await store.open(clock);
      opened.push(spool);
      return spool;
    }

    afterEach(async () => {
      for (const spool of opened.splice(0)) await spool.close();
      await store.clean();
    });

    test('brings back what was put in, octet for octet', async () => {
      const spool = await open();
      const entry = spoolEntry({
        clientMessageId: '<client@example.com>',
        smtputf8: true,
        requireTls: true,
        reversePath: '',
        recipients: ['jörg@example.org', '"a b"@example.net'],
        platformSignature: { start: 3, end: 9 },
        head: Buffer.from('Subject: ä\r\n\r\n'),
        body: Buffer.from([0, 255, 13, 10, 46, 128]),
      });
      await spool.add(entry, someTime);
      const [claimed, ...others] = await claimAll(spool);
      const { head, body, ...meta } = entry;
      expect(others).toEqual([]);
      expect(claimed?.entry).toEqual(meta);
      expect(claimed?.size).toBe(head.length + body.length);
      expect(claimed?.due).toEqual(entry.recipients.map((address) => ({ address, attempts: 0 })));
      const loaded = await spool.load(entry.id);
      expect(loaded?.head.equals(head)).toBe(true);
      expect(loaded?.body.equals(body)).toBe(true);
    });

    test('tells a message with TLS-Required: No from others', async () => {
      const spool = await open();
      await spool.add(spoolEntry({ tlsOptional: true }), someTime);
      const [claimed] = await claimAll(spool);
      expect(claimed?.entry).toMatchObject({ requireTls: false, tlsOptional: true });
    });

    test.each([0, 1, 262_143, 262_144, 262_145, 300 * 1024, 6 * 1024 * 1024])(
      'keeps a body of %i octets',
      async (size) => {
        const spool = await open();
        const entry = spoolEntry({ body: Buffer.alloc(size, 'Postern\r\n') });
        await spool.add(entry, lease);
        const loaded = await spool.load(entry.id);
        expect(loaded?.body.length).toBe(size);
        expect(loaded?.body.equals(entry.body)).toBe(true);
        await spool.record([attempt(entry, 'delivered')]);
        expect(await spool.load(entry.id)).toBeUndefined();
      },
    );

    test('holds a message that was just added for its adder', async () => {
      const spool = await open();
      await spool.add(spoolEntry(), lease);
      expect(await claimAll(spool)).toEqual([]);
      expect(await claimAll(spool, lease - 1)).toEqual([]);
      expect(await claimAll(spool, lease)).toHaveLength(1);
    });

    test('gives each due message to one claimer only', async () => {
      const spool = await open();
      const other = (await store.another?.(clock)) ?? spool;
      if (other !== spool) opened.push(other);
      const entries = Array.from({ length: 60 }, () => spoolEntry());
      await Promise.all(entries.map((entry) => spool.add(entry, 0)));
      const claims = await Promise.all(
        Array.from({ length: 12 }, (_, index) =>
          claimAny(index % 2 ? spool : other, { now: someTime, limit: 7, claimUntil: lease }),
        ),
      );
      const ids = claims.flat().map((claim) => claim.entry.id);
      expect(claims.every((claim) => claim.length <= 7)).toBe(true);
      expect(ids.length).toBe(60);
      expect(new Set(ids).size).toBe(60);
    });

    test('gives the earliest due first', async () => {
      const spool = await open();
      const late = spoolEntry({ acceptedAt: someTime - 1 });
      const early = spoolEntry({ acceptedAt: someTime - 2 });
      await spool.add(late, 0);
      await spool.add(early, 0);
      const [first] = await claimAny(spool, { now: someTime, limit: 1, claimUntil: lease });
      expect(first?.entry.id).toBe(early.id);
    });

    test('claims only the recipients that are due', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.org', 'b@example.org', 'c@example.org'] });
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'delivered', 'a@example.org'), attempt(entry, 'deferred', 'b@example.org')]);
      await spool.release(entry.id, ['c@example.org']);
      const [first] = await claimAll(spool);
      expect(first?.due).toEqual([{ address: 'c@example.org', attempts: 0 }]);
      expect(first?.entry.recipients).toEqual(entry.recipients);
      expect(await claimAll(spool, someTime + 59_999)).toEqual([]);
      const [second] = await claimAll(spool, someTime + 60_000);
      expect(second?.due).toEqual([{ address: 'b@example.org', attempts: 1 }]);
    });

    test('claims from one transport alone, however much waits in another', async () => {
      const spool = await open();
      const before = Array.from({ length: 20 }, () => spoolEntry({ acceptedAt: someTime - 9, transports: ['dead'] }));
      const both = spoolEntry({
        recipients: ['a@example.org', 'b@example.org', 'c@example.org'],
        transports: ['live', 'dead', 'live'],
      });
      for (const entry of [...before, both]) await spool.add(entry, 0);
      const query = { now: someTime, limit: 5, claimUntil: lease };
      expect(await claimAny(spool, { ...query, transport: 'nobody' })).toEqual([]);
      const [live, ...others] = await claimAny(spool, { ...query, transport: 'live' });
      expect(others).toEqual([]);
      expect(live?.due.map(({ address }) => address)).toEqual(['a@example.org', 'c@example.org']);
      expect(live?.entry.recipients).toEqual(both.recipients);
      expect(live?.entry).not.toHaveProperty('transports');
      // What is claimed in one transport is not held in the other.
      const dead = await claimAny(spool, { ...query, limit: 100, transport: 'dead' });
      expect(dead).toHaveLength(21);
      expect(dead.at(-1)?.due).toEqual([{ address: 'b@example.org', attempts: 0 }]);
    });

    test('keeps a recipient in its transport when its attempt is deferred or its claim released', async () => {
      const spool = await open();
      const [deferred, released] = [spoolEntry({ transports: ['one'] }), spoolEntry({ transports: ['one'] })];
      for (const entry of [deferred, released]) await spool.add(entry, lease);
      await spool.record([attempt(deferred, 'deferred')]);
      await spool.release(released.id, released.recipients);
      const query = { now: someTime + 60_000, limit: 5, claimUntil: lease };
      expect(await claimAny(spool, { ...query, transport: 'one' })).toHaveLength(2);
    });

    test('gives transports to those that wait for none of these, as many at a time as asked', async () => {
      const spool = await open();
      const entries = [
        ...Array.from({ length: 3 }, () => spoolEntry()),
        ...Array.from({ length: 3 }, () => spoolEntry({ transports: ['gone'], account: 'other' })),
        ...Array.from({ length: 3 }, () => spoolEntry({ transports: ['here'] })),
        spoolEntry({ acceptedAt: someTime + 1 }),
      ];
      for (const entry of entries) await spool.add(entry, 0);
      const asked: string[] = [];
      const query = {
        now: someTime,
        limit: 4,
        transports: ['here', 'there'],
        transportOf: ({ account, address }: { account: string; address: string }) => {
          asked.push(`${account} ${address}`);
          return account === 'other' ? 'there' : 'here';
        },
      };
      expect([
        await spool.giveTransports(query),
        await spool.giveTransports(query),
        await spool.giveTransports(query),
      ]).toEqual([4, 2, 0]);
      expect(new Set(asked)).toEqual(new Set(['dev bob@example.org', 'other bob@example.org']));
      const claim = { now: someTime, limit: 100, claimUntil: lease };
      expect(await claimAny(spool, { ...claim, transport: 'there' })).toHaveLength(3);
      expect(await claimAny(spool, { ...claim, transport: 'here' })).toHaveLength(6);
    });

    test('knows the recipients of each message apart from those of the others', async () => {
      const spool = await open();
      const [claimed, stray, other] = [
        spoolEntry({ recipients: ['one@a.test'], transports: ['here'] }),
        spoolEntry({ recipients: ['two@b.test'], transports: ['gone'] }),
        spoolEntry({ recipients: ['three@c.test'], transports: ['there'], account: 'other' }),
      ];
      for (const entry of [claimed, stray, other]) await spool.add(entry, 0);
      expect(await claimAny(spool, { now: someTime, limit: 9, claimUntil: lease, transport: 'here' })).toHaveLength(1);
      const query = { limit: 9, transports: ['here', 'there'], transportOf: () => 'here' };
      expect(await spool.giveTransports({ ...query, now: someTime })).toBe(1);
      // It is due now, however long the other one is in somebody's hands.
      expect(await spool.turns({ transport: 'here', now: someTime, limit: 9 })).toHaveLength(1);
      for (const { id, recipients } of [claimed, stray, other]) {
        expect((await spool.show(id))?.recipients.map(({ address }) => address)).toEqual(recipients);
        const found = await spool.list({ search: recipients[0], limit: 9 });
        expect(found.items.map(({ entry }) => entry.id)).toEqual([id]);
      }
    });

    test('gives a recipient in somebody’s hands no other transport before its claim is over', async () => {
      const spool = await open();
      await spool.add(spoolEntry({ transports: ['gone'] }), lease);
      const query = { limit: 4, transports: ['here'], transportOf: () => 'here' };
      expect(await spool.giveTransports({ ...query, now: lease - 1 })).toBe(0);
      expect(await spool.giveTransports({ ...query, now: lease })).toBe(1);
    });

    test('keeps a recipient that was named twice once', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.org', 'a@example.org'] });
      await spool.add(entry, 0);
      const [claimed] = await claimAll(spool);
      expect(claimed?.due).toEqual([{ address: 'a@example.org', attempts: 0 }]);
      await spool.record([attempt(entry, 'delivered')]);
      expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
    });

    test('forgets a message once all have it, not before', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.org', 'b@example.org'] });
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'delivered', 'a@example.org')]);
      const shown = await spool.show(entry.id);
      expect(shown?.recipients.map((recipient) => recipient.state)).toEqual(['delivered', 'queued']);
      await spool.record([attempt(entry, 'delivered', 'b@example.org')]);
      expect(await spool.show(entry.id)).toBeUndefined();
      expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
    });

    test('never makes a delivered recipient anything else', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.org', 'b@example.org'] });
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'delivered', 'a@example.org')]);
      await spool.record([attempt(entry, 'failed', 'a@example.org')]);
      expect((await spool.show(entry.id))?.recipients[0]).toMatchObject({ state: 'delivered', attempts: 1 });
    });

    test('keeps a deferral with the next hop’s words', async () => {
      const spool = await open();
      const entry = spoolEntry();
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'deferred')]);
      expect((await spool.show(entry.id))?.recipients).toEqual([
        {
          address: 'bob@example.org',
          state: 'queued',
          attempts: 1,
          nextAttemptAt: someTime + 60_000,
          lastReply: busy,
          lastHost: host,
        },
      ]);
      expect(await countsOf(spool)).toEqual({ queued: 1, failed: 0 });
    });

    test('keeps a failure with its reason until 30 days after the end', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.org', 'b@example.org'] });
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'failed', 'a@example.org')]);
      expect(await countsOf(spool)).toEqual({ queued: 1, failed: 0 });
      now = someTime + 1000;
      await spool.record([attempt(entry, 'delivered', 'b@example.org')]);
      expect(await countsOf(spool)).toEqual({ queued: 0, failed: 1 });
      expect((await spool.show(entry.id))?.recipients[0]).toMatchObject({
        state: 'failed',
        lastReply: no,
        lastHost: host,
      });
      now = someTime + 1000 + failedRetentionMilliseconds;
      await spool.recover();
      expect(await countsOf(spool)).toEqual({ queued: 0, failed: 1 });
      now += 1;
      await spool.recover();
      expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
      expect(await spool.load(entry.id)).toBeUndefined();
    });

    test('does not prune a failure whose message is still queued for another', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.org', 'b@example.org'] });
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'failed', 'a@example.org')]);
      now = someTime + 2 * failedRetentionMilliseconds;
      await spool.recover();
      expect((await spool.show(entry.id))?.recipients).toHaveLength(2);
    });

    test('ignores what became of a message that was dropped meanwhile', async () => {
      const spool = await open();
      const [gone, kept] = [spoolEntry(), spoolEntry()];
      await spool.add(gone, lease);
      await spool.add(kept, lease);
      expect(await spool.drop(gone.id)).toBe(true);
      await spool.record([attempt(gone, 'deferred'), attempt(kept, 'deferred')]);
      await spool.release(gone.id, gone.recipients);
      expect(await spool.show(gone.id)).toBeUndefined();
      expect((await spool.show(kept.id))?.recipients[0]?.attempts).toBe(1);
      expect(await spool.drop(gone.id)).toBe(false);
    });

    test('makes queued recipients due and failed ones queued again', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.org', 'b@example.org', 'c@example.org'] });
      await spool.add(entry, lease);
      await spool.record([
        attempt(entry, 'deferred', 'a@example.org'),
        attempt(entry, 'failed', 'b@example.org'),
        attempt(entry, 'delivered', 'c@example.org'),
      ]);
      const expiresAt = someTime + 999_999;
      expect(await spool.retryMany([{ id: entry.id }], { now: someTime + 5, expiresAt })).toMatchObject({
        messages: 1,
      });
      const [claimed] = await claimAll(spool, someTime + 5);
      expect(claimed?.entry.expiresAt).toBe(expiresAt);
      expect(claimed?.due).toEqual([
        { address: 'a@example.org', attempts: 1 },
        { address: 'b@example.org', attempts: 1 },
      ]);
      expect(await spool.retryMany([{ id: 'no-such-id' }], { now: someTime, expiresAt })).toMatchObject({
        messages: 0,
      });
    });

    test('makes many messages due at once, or only some recipients of theirs', async () => {
      const spool = await open();
      const [mixed, failed, other] = [
        spoolEntry({ recipients: ['a@example.org', 'b@example.net', 'c@example.net'] }),
        spoolEntry(),
        spoolEntry(),
      ];
      for (const entry of [mixed, failed, other]) await spool.add(entry, lease);
      await spool.record([
        attempt(mixed, 'deferred', 'a@example.org'),
        attempt(mixed, 'failed', 'b@example.net'),
        attempt(mixed, 'delivered', 'c@example.net'),
        attempt(failed, 'failed'),
        attempt(other, 'deferred'),
      ]);
      const times = { now: someTime + 5, expiresAt: someTime + 999_999 };
      const picks = [
        { id: mixed.id, recipients: ['b@example.net', 'c@example.net'] },
        { id: failed.id },
        { id: 'no-such-id' },
      ];
      expect(await spool.retryMany(picks, times)).toEqual({ messages: 2, recipients: 2, failed: 2 });
      const claimed = await claimAll(spool, someTime + 5);
      expect(claimed.map(({ entry, due }) => [entry.id, entry.expiresAt, due.map(({ address }) => address)])).toEqual(
        expect.arrayContaining([
          [mixed.id, times.expiresAt, ['b@example.net']],
          [failed.id, times.expiresAt, ['bob@example.org']],
        ]),
      );
      expect(claimed).toHaveLength(2);
      expect(await countsOf(spool)).toEqual({ queued: 3, failed: 0 });
      expect(await spool.retryMany([{ id: mixed.id, recipients: ['c@example.net'] }], times)).toMatchObject({
        messages: 0,
      });
    });

    test('tries only what is in the named state again, whatever it was when it was chosen', async () => {
      const spool = await open();
      const entry = spoolEntry({ recipients: ['a@example.net', 'b@example.net', 'c@example.net'] });
      await spool.add(entry, 0);
      await spool.record([
        attemptOf(
          entry,
          { kind: 'failed', reply: { code: 550, text: 'no' }, host: 'h' },
          { recipient: 'b@example.net' },
        ),
      ]);
      const times = { now: someTime, expiresAt: someTime + 1e6 };
      const states = async () => (await spool.show(entry.id))?.recipients.map(({ state }) => state);
      const named = ['a@example.net', 'b@example.net'];
      const queued = await spool.retryMany([{ id: entry.id, recipients: named, state: 'queued' }], times);
      expect(queued).toEqual({ messages: 1, recipients: 1, failed: 0 });
      expect(await states()).toEqual(['queued', 'failed', 'queued']);
      const failed = await spool.retryMany([{ id: entry.id, state: 'failed' }], times);
      expect(failed).toEqual({ messages: 1, recipients: 1, failed: 1 });
      expect(await states()).toEqual(['queued', 'queued', 'queued']);
      expect(await spool.retryMany([{ id: entry.id, state: 'failed' }], times)).toMatchObject({ messages: 0 });
    });

    test('does not take a recipient out of its holder’s hands on retry', async () => {
      const spool = await open();
      const entry = spoolEntry();
      await spool.add(entry, lease);
      expect(await spool.retryMany([{ id: entry.id }], { now: someTime, expiresAt: someTime + 1 })).toMatchObject({
        messages: 1,
      });
      expect(await claimAll(spool)).toEqual([]);
      expect(await claimAll(spool, lease)).toHaveLength(1);
    });

    /** Somebody sets the wall clock; no time passes. */
    function setClock(milliseconds: number): void {
      now += milliseconds;
      jumped += milliseconds;
    }
    const hour = 3_600_000;

    test('a clock set back leaves no retry waiting for longer', async () => {
      const spool = await open();
      const entry = spoolEntry({ expiresAt: someTime + hour });
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'deferred')]);
      setClock(-24 * hour);
      expect(await claimAll(spool, now)).toEqual([]);
      const shown = await spool.show(entry.id);
      expect(shown?.recipients[0]?.nextAttemptAt).toBe(now + 60_000);
      expect(shown?.entry).toMatchObject({ acceptedAt: someTime, expiresAt: now + hour });
      now += 59_999;
      expect(await claimAll(spool, now)).toEqual([]);
      now += 1;
      const [claimed] = await claimAll(spool, now);
      expect(claimed?.due).toEqual([{ address: 'bob@example.org', attempts: 1 }]);
      expect(claimed?.entry.expiresAt).toBe(now - 60_000 + hour);
    });

    test('a clock set forward ends no claim and brings no retry early', async () => {
      const spool = await open();
      const [held, waiting, added] = [spoolEntry(), spoolEntry(), spoolEntry({ acceptedAt: someTime + 2 * hour })];
      await spool.add(held, lease);
      await spool.add(waiting, lease);
      await spool.record([attempt(waiting, 'deferred')]);
      setClock(2 * hour);
      await spool.add(added, now + leaseMilliseconds);
      expect(await claimAll(spool, now)).toEqual([]);
      now += 60_000;
      expect((await claimAll(spool, now)).map(({ entry }) => entry.id)).toEqual([waiting.id]);
      now = someTime + 2 * hour + leaseMilliseconds - 1;
      expect(await claimAll(spool, now)).toEqual([]);
      now += 1;
      expect(await claimAll(spool, now)).toHaveLength(2);
    });

    test('a clock set is noticed once, by however many processes', async () => {
      const spool = await open();
      const other = (await store.another?.(clock)) ?? spool;
      if (other !== spool) opened.push(other);
      const entry = spoolEntry();
      await spool.add(entry, lease);
      await spool.record([attempt(entry, 'deferred')]);
      expect(await claimAll(other)).toEqual([]);
      for (const step of [2 * hour, -5 * hour, hour]) {
        setClock(step);
        expect([await claimAll(other, now), await claimAll(spool, now), await claimAll(other, now)]).toEqual([
          [],
          [],
          [],
        ]);
        expect((await spool.show(entry.id))?.recipients[0]?.nextAttemptAt).toBe(now + 60_000);
        expect((await other.show(entry.id))?.recipients[0]?.nextAttemptAt).toBe(now + 60_000);
      }
      now += 60_000;
      expect(await claimAll(other, now)).toHaveLength(1);
    });

    test('clocks that drift apart by a little at a time were not set', async () => {
      // PostgreSQL's own time, which is looked at each second, tells of drift as well: what took so long shows nothing, and is done again.
      for (let isShown = false; !isShown; ) {
        const spool = await open();
        const since = performance.now();
        const entry = spoolEntry();
        await spool.add(entry, lease);
        await spool.record([attempt(entry, 'deferred')]);
        const claimed: DueMessage[] = [];
        for (let count = 0; count < 5; count += 1) {
          setClock(-900);
          claimed.push(...(await claimAll(spool, now)));
        }
        const nextAttemptAt = (await spool.show(entry.id))?.recipients[0]?.nextAttemptAt;
        isShown = performance.now() - since < 900;
        if (isShown) expect([claimed, nextAttemptAt]).toEqual([[], someTime + 60_000]);
        else await opened.pop()?.close();
      }
    });

    test('recovers what an earlier process held', async () => {
      const spool = await open();
      await spool.add(spoolEntry(), lease);
      await spool.add(spoolEntry(), 0);
      expect(await spool.recover()).toBe(2);
      expect(await claimAll(spool)).toHaveLength(2);
    });

    test('lists oldest first, in pages', async () => {
      const spool = await open();
      const entries = Array.from({ length: 5 }, (_, index) => spoolEntry({ acceptedAt: someTime + index }));
      for (const entry of entries.toReversed()) await spool.add(entry, lease);
      const first = await spool.list({ limit: 3 });
      const second = await spool.list({ limit: 3, after: first.next ?? '' });
      expect(first.items).toHaveLength(3);
      const listed = [...first.items, ...second.items].map((item) => item.entry.id);
      expect(listed).toEqual(entries.map((entry) => entry.id));
      expect(second.next).toBeUndefined();
    });

    test('lists by account, in pages', async () => {
      const spool = await open();
      const entries = Array.from({ length: 6 }, (_, index) =>
        spoolEntry({ acceptedAt: someTime + index, account: index % 2 === 0 ? 'dev' : 'other' }),
      );
      for (const entry of entries) await spool.add(entry, lease);
      const first = await spool.list({ account: 'other', limit: 2 });
      const second = await spool.list({ account: 'other', limit: 2, after: first.next ?? '' });
      const listed = [...first.items, ...second.items].map(({ entry }) => entry.id);
      expect(listed).toEqual(entries.filter(({ account }) => account === 'other').map(({ id }) => id));
      expect((await spool.list({ account: 'nobody', limit: 2 })).items).toEqual([]);
    });

    test('lists by state', async () => {
      const spool = await open();
      const [queued, failed, mixed] = [
        spoolEntry(),
        spoolEntry(),
        spoolEntry({ recipients: ['a@example.org', 'b@example.org'] }),
      ];
      for (const entry of [queued, failed, mixed]) await spool.add(entry, lease);
      await spool.record([attempt(failed, 'failed'), attempt(mixed, 'failed')]);
      const ids = async (state: 'queued' | 'failed') =>
        (await spool.list({ state, limit: 10 })).items.map((item) => item.entry.id).sort();
      expect(await ids('queued')).toEqual([queued.id, mixed.id].sort());
      expect(await ids('failed')).toEqual([failed.id, mixed.id].sort());
      expect((await spool.list({ limit: 10 })).items).toHaveLength(3);
      expect(await countsOf(spool)).toEqual({ queued: 2, failed: 1 });
    });

    test.each([
      ['the id', (entry: SpoolEntry) => entry.id],
      ['part of the message id', (entry: SpoolEntry) => entry.messageId.slice(1, -5)],
      ['the client’s message id', () => '<100%_CLIENT@example.com>'],
      ['the sender', () => 'Carol@'],
      ['a recipient', () => 'dave@example'],
    ])('finds a message by %s', async (_, searchFor) => {
      const spool = await open();
      const wanted = spoolEntry({
        acceptedAt: someTime + 1,
        clientMessageId: '<100%_client@example.com>',
        senderPath: 'carol@example.com',
        recipients: ['erin@example.org', 'dave@example.net'],
      });
      await spool.add(spoolEntry({ clientMessageId: '<1000-client@example.com>' }), lease);
      await spool.add(wanted, lease);
      const found = await spool.list({ search: searchFor(wanted), limit: 10 });
      expect(found.items.map((item) => item.entry.id)).toEqual([wanted.id]);
    });

    test('counts messages, octets and recipients by state, each account by itself', async () => {
      const spool = await open();
      const mixed = spoolEntry({ recipients: ['a@example.org', 'b@example.org', 'c@example.org'] });
      const [failed, other] = [spoolEntry(), spoolEntry({ account: 'other' })];
      const size = ({ head, body }: SpoolEntry): number => head.length + body.length;
      for (const entry of [mixed, failed, other]) await spool.add(entry, lease);
      await spool.record([
        attempt(mixed, 'failed', 'a@example.org'),
        attempt(mixed, 'delivered', 'b@example.org'),
        attempt(failed, 'failed'),
      ]);
      const othersTally = {
        account: 'other',
        messages: { queued: 1, failed: 0 },
        octets: { queued: size(other), failed: 0 },
        recipients: { queued: 1, delivered: 0, failed: 0 },
      };
      expect(await spool.tallies()).toEqual([
        {
          account: 'dev',
          messages: { queued: 1, failed: 1 },
          octets: { queued: size(mixed), failed: size(failed) },
          // The recipient that failed shows, though its message waits for another.
          recipients: { queued: 1, delivered: 1, failed: 2 },
        },
        othersTally,
      ]);
      await spool.drop(failed.id);
      await spool.drop(mixed.id);
      expect(await spool.tallies()).toEqual([othersTally]);
    });

    test('has the same numbers as a count of everything, whatever happens to the messages', async () => {
      const kinds = ['delivered', 'deferred', 'failed'] as const;
      const step = fc.record({ message: fc.nat(7), recipient: fc.nat(2), act: fc.nat(5) });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
          const spool = await open();
          const entries: SpoolEntry[] = [];
          for (const { message, recipient, act } of steps) {
            const entry = entries[message % Math.max(1, entries.length)];
            if (!entry || act === 5) {
              const recipients = ['a@example.org', 'b@example.org', 'c@example.org'].slice(0, recipient + 1);
              const added = spoolEntry({ account: message % 2 ? 'dev' : 'other', recipients });
              entries.push(added);
              await spool.add(added, lease);
            } else if (act === 3) await spool.retryMany([{ id: entry.id }], { now: someTime, expiresAt: lease });
            else if (act === 4 && message === 0) await spool.drop(entry.id);
            else await spool.record([attempt(entry, kinds[act] ?? 'failed', entry.recipients[recipient])]);
          }
          const { items } = await spool.list({ limit: 1000 });
          const counted = totalOf(
            items.map(({ size, recipients }) => tallyOf(size, countStates(recipients.map(({ state }) => state)))),
          );
          expect(totalOf(await spool.tallies())).toEqual(counted);
          await spool.close();
          await store.clean();
        }),
        { numRuns: 8 },
      );
    });

    test('shows a message as the queue commands print it', async () => {
      const spool = await open();
      const entry = spoolEntry();
      await spool.add(entry, lease);
      const { head, body, recipients: _, ...meta } = entry;
      expect(await spool.show(entry.id)).toEqual({
        entry: meta,
        size: head.length + body.length,
        recipients: [{ address: 'bob@example.org', state: 'queued', attempts: 0, nextAttemptAt: someTime }],
      });
      expect(await spool.show('no-such-id')).toBeUndefined();
      expect(await spool.load('no-such-id')).toBeUndefined();
    });

    test('takes 200 messages at once, and one that fails alone fails alone', async () => {
      const spool = await open();
      const entries = Array.from({ length: 200 }, () => spoolEntry({ body: Buffer.alloc(4096, 'x') }));
      const twice = entries[100] ?? spoolEntry();
      const results = await Promise.allSettled([...entries, twice].map((entry) => spool.add(entry, 0)));
      expect(results.filter((result) => result.status === 'rejected')).toHaveLength(1);
      expect(await countsOf(spool)).toEqual({ queued: 200, failed: 0 });
      expect(await claimAny(spool, { now: someTime, limit: 500, claimUntil: lease })).toHaveLength(200);
    });

    test('tells for 24 hours what a key was used for, and what was answered', async () => {
      const spool = await open();
      const idempotency = { key: 'order-1', digest: 'ab12' };
      const entry = spoolEntry({ idempotency, recipients: ['a@x.test', 'b@x.test'] });
      expect(await spool.usedKey('dev', 'order-1')).toBeUndefined();
      await spool.add(entry, lease);
      const used = { digest: 'ab12', messageId: entry.messageId, recipients: ['a@x.test', 'b@x.test'] };
      expect(await spool.usedKey('dev', 'order-1')).toEqual(used);
      expect(await spool.usedKey('other', 'order-1')).toBeUndefined();
      await spool.answered('dev', 'order-1', '{"delivered":[]}');
      await spool.answered('dev', 'order-2', '{}');
      expect(await spool.usedKey('dev', 'order-1')).toEqual({ ...used, answer: '{"delivered":[]}' });
      expect(await spool.usedKey('dev', 'order-2')).toBeUndefined();
      // It outlives the message.
      await spool.drop(entry.id);
      now = someTime + 86_399_999;
      expect(await spool.usedKey('dev', 'order-1')).toMatchObject({ digest: 'ab12' });
      now += 1;
      expect(await spool.usedKey('dev', 'order-1')).toBeUndefined();
      await spool.recover();
      const later = spoolEntry({ idempotency: { key: 'order-1', digest: 'cd34' }, acceptedAt: now });
      await spool.add(later, now);
      expect(await spool.usedKey('dev', 'order-1')).toMatchObject({ digest: 'cd34', messageId: later.messageId });
    });

    test('takes one message under an Idempotency-Key of an account in 24 hours, also of two at once', async () => {
      const spool = await open();
      const keyed = (account: string, acceptedAt = someTime) =>
        spoolEntry({ account, acceptedAt, idempotency: { key: 'k', digest: '00' } });
      const results = await Promise.allSettled([keyed('dev'), keyed('dev')].map((entry) => spool.add(entry, lease)));
      expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
      expect(results.find((one) => one.status === 'rejected')?.reason).toSatisfy(isKeyUsed);
      await spool.add(keyed('other'), lease);
      await expect(spool.add(keyed('dev', someTime + 86_399_999), lease)).rejects.toThrow(/Idempotency-Key/);
      await spool.add(keyed('dev', someTime + 86_400_000), lease);
      expect(await countsOf(spool)).toEqual({ queued: 3, failed: 0 });
    });

    test('does not mind what becomes of the caller’s buffers afterwards', async () => {
      const spool = await open();
      const shared = Buffer.from('HHHHHBBBBB');
      const entry = spoolEntry({ head: shared.subarray(0, 5), body: shared.subarray(5) });
      await spool.add(entry, lease);
      shared.fill('z');
      const loaded = await spool.load(entry.id);
      expect(loaded?.head.toString()).toBe('HHHHH');
      expect(loaded?.body.toString()).toBe('BBBBB');
    });

    test('finishes what it was asked before it closes, and refuses everything after', async () => {
      const spool = await open();
      const adding = Promise.all([
        spool.add(spoolEntry(), lease),
        spool.add(spoolEntry({ body: Buffer.alloc(400_000, 'x') }), lease),
      ]);
      await spool.close();
      await adding;
      await expect(spool.add(spoolEntry(), lease)).rejects.toThrow('closed');
      await expect(countsOf(spool)).rejects.toThrow('closed');
      await expect(spool.add(spoolEntry({ body: Buffer.alloc(400_000, 'x') }), lease)).rejects.toThrow('closed');
      await spool.close();
    });
  });
}
