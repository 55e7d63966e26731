// The contract of the reports to senders that a spool notes: one suite, run on each store.

import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import { type ReportLimits, unlimitedReports } from '../../src/spool/reports/report.ts';
import type { Outcome, Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { countsOf } from '../support/spool-counts.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';

/** How the suite gets at a store. */
export interface ReportsUnderTest {
  /** A fresh store. */
  open(clock: Clock, limits: ReportLimits): Promise<Spool>;
  /** Called after each test, once every spool is closed. */
  clean(): Promise<void>;
}

const host = 'default (h.test:25)';
const no: Outcome = { kind: 'failed', reply: { code: 550, enhanced: '5.1.1', text: 'no such user' }, host };
const busy: Outcome = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host };
const ok: Outcome = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host };
const failures = { failure: true, delay: false, success: false };
const passedOn: Outcome = { kind: 'delivered', reply: ok.reply, host, handover: 'passed-on' };

/** Defines the suite for one store. */
export function reportsContract(name: string, store: ReportsUnderTest): void {
  describe(`${name}: reports`, () => {
    let now = someTime;
    let jumped = 0;
    const clock: Clock = { now: () => now, monotonic: () => now - jumped };
    let spool: Spool | undefined;

    async function open(limits: Partial<ReportLimits> = {}): Promise<Spool> {
      [now, jumped] = [someTime, 0];
      spool = await store.open(clock, { ...unlimitedReports, gatherSeconds: 30, ...limits });
      return spool;
    }

    afterEach(async () => {
      await spool?.close();
      spool = undefined;
      await store.clean();
    });

    async function added(changes: Partial<SpoolEntry> = {}): Promise<SpoolEntry> {
      const entry = spoolEntry({ reports: failures, ...changes });
      await spool?.add(entry, someTime);
      return entry;
    }

    const attempt = (entry: SpoolEntry, outcome: Outcome, recipient?: string): OutcomeEvent =>
      attemptOf(entry, outcome, { ...(recipient === undefined ? {} : { recipient }), nextAttemptAt: someTime });
    const due = async () => {
      const reports = (await spool?.reportsDue({ now, limit: 10 })) ?? [];
      return reports.map((report) => ({ ...report, head: Buffer.from(report.head) }));
    };

    test('notes a failure with all that a report tells, due at once where it was the last recipient', async () => {
      const { record } = { record: (await open()).record.bind(spool) };
      const recipients = new Map([['bob@example.org', { orcpt: 'rfc822;old@x.test', notify: 'FAILURE' }]]);
      const entry = await added({ clientMessageId: '<own@c.test>', dsn: { ret: 'FULL', envid: 'a+2Bb', recipients } });
      await record([attempt(entry, no)]);
      const { id: queueId, account, sessionId, messageId, clientMessageId, senderPath, expiresAt, acceptedAt } = entry;
      expect(await due()).toEqual([
        {
          key: { seq: 1, version: 1 },
          ...{ queueId, account, sessionId, messageId, clientMessageId, senderPath, expiresAt, acceptedAt },
          ...{ ret: 'FULL', envid: 'a+2Bb', smtputf8: false, requireTls: false, more: 0, head: entry.head },
          recipients: [
            {
              address: 'bob@example.org',
              orcpt: 'rfc822;old@x.test',
              action: 'failed',
              at: now,
              reply: no.reply,
              host,
            },
          ],
        },
      ]);
    });

    test('knows that the message came with REQUIRETLS, and returns such a one never whole', async () => {
      await open();
      for (const dsn of [{ ret: 'FULL' as const }, undefined]) {
        const entry = await added({ requireTls: true, ...(dsn ? { dsn } : {}) });
        await spool?.record([attempt(entry, no)]);
      }
      const reports = await due();
      expect(reports.map(({ requireTls, ret }) => [requireTls, ret])).toEqual([
        [true, undefined],
        [true, undefined],
      ]);
    });

    test('gathers the outcomes of one message until the last one, or for some seconds', async () => {
      await open();
      const entry = await added({ recipients: ['a@x.test', 'b@x.test', 'c@x.test'] });
      await spool?.record([attempt(entry, no, 'a@x.test')]);
      expect(await due()).toEqual([]);
      await spool?.record([attempt(entry, no, 'b@x.test')]);
      now += 29_000;
      expect(await due()).toEqual([]);
      await spool?.record([attempt(entry, ok, 'c@x.test')]);
      expect((await due()).map(({ recipients }) => recipients.map(({ address }) => address))).toEqual([
        ['a@x.test', 'b@x.test'],
      ]);
      const slow = await added({ recipients: ['a@x.test', 'b@x.test'] });
      await spool?.record([attempt(slow, no, 'a@x.test')]);
      expect(await due()).toHaveLength(1);
      now += 30_000;
      expect(await due()).toHaveLength(2);
    });

    test('keeps the header section of a message that is gone, and asks for success', async () => {
      await open();
      const recipients = new Map([['bob@example.org', { notify: 'SUCCESS' }]]);
      const entry = await added({ dsn: { recipients } });
      await spool?.record([attempt(entry, ok)]);
      expect(await spool?.show(entry.id)).toBeUndefined();
      expect(await due()).toMatchObject([{ head: entry.head, recipients: [{ action: 'relayed' }] }]);
    });

    test.each<[string, Partial<SpoolEntry>, Outcome]>([
      ['nobody asked', { reports: { failure: false, delay: false, success: false } }, no],
      ['NEVER', { dsn: { recipients: new Map([['bob@example.org', { notify: 'NEVER' }]]) } }, no],
      [
        'the null reverse-path',
        { senderPath: '', dsn: { recipients: new Map([['bob@example.org', { notify: 'FAILURE' }]]) } },
        no,
      ],
      ['a success that only failure was asked of', {}, ok],
      ['a deferral of fresh mail', { reports: { failure: false, delay: true, success: false } }, busy],
      [
        'a next hop that reports itself',
        { dsn: { recipients: new Map([['bob@example.org', { notify: 'SUCCESS' }]]) } },
        passedOn,
      ],
    ])('notes nothing of %s', async (_, changes, outcome) => {
      await open();
      const entry = await added(changes);
      await spool?.record([attempt(entry, outcome)]);
      now += 60_000;
      expect(await due()).toEqual([]);
    });

    test('reports a delay once, after the time', async () => {
      await open({ delaySeconds: 3600, gatherSeconds: 0 });
      const entry = await added({ reports: { failure: false, delay: true, success: false } });
      now += 3_599_000;
      await spool?.record([attempt(entry, busy)]);
      expect(await due()).toEqual([]);
      now += 1000;
      await spool?.record([attempt(entry, busy)]);
      const [first] = await due();
      expect(first?.recipients).toMatchObject([{ action: 'delayed' }]);
      if (first) await spool?.endReport(first.key);
      await spool?.record([attempt(entry, busy)]);
      expect(await due()).toEqual([]);
    });

    test('deletes a report with the message that was made of it, and only the report that was read', async () => {
      await open();
      const entry = await added({ recipients: ['a@x.test', 'b@x.test'] });
      await spool?.record([attempt(entry, no, 'a@x.test')]);
      now += 30_000;
      const [read] = await due();
      if (!read) throw new Error('nothing is due');
      await spool?.record([attempt(entry, no, 'b@x.test')]);
      const answer = (answers: typeof read.key) => spoolEntry({ senderPath: '', answers });
      await expect(spool?.add(answer(read.key), someTime)).rejects.toThrow('What this report tells has changed');
      const [again] = await due();
      expect(again?.recipients).toHaveLength(2);
      if (!again) throw new Error('nothing is due');
      await spool?.add(answer(again.key), someTime);
      await expect(spool?.add(answer(again.key), someTime)).rejects.toThrow('What this report tells has changed');
      expect(await due()).toEqual([]);
      expect(await (spool && countsOf(spool))).toEqual({ queued: 1, failed: 1 });
    });

    test('takes the message of a report whose last recipient was delivered while it was made: it tells the same', async () => {
      await open();
      const entry = await added({ recipients: ['a@x.test', 'b@x.test'] });
      await spool?.record([attempt(entry, no, 'a@x.test')]);
      now += 30_000;
      const [read] = await due();
      if (!read) throw new Error('nothing is due');
      await spool?.record([attempt(entry, ok, 'b@x.test')]);
      await spool?.add(spoolEntry({ senderPath: '', answers: read.key }), someTime);
      expect(await due()).toEqual([]);
    });

    test('puts a report off, and keeps its waiting time where the clock is set', async () => {
      await open();
      const entry = await added();
      await spool?.record([attempt(entry, no)]);
      const [read] = await due();
      if (read) await spool?.endReport(read.key, now + 60_000);
      now += 3_600_000;
      jumped = 3_600_000;
      // A write is where the spool notices.
      await added();
      expect(await due()).toEqual([]);
      now += 60_000;
      expect(await due()).toHaveLength(1);
    });

    test('begins no more reports than a message, an address and an account may have', async () => {
      await open({ perMessage: 1, perAddressPerDay: 2, perAccountPerDay: 3 });
      const twice = await added({ recipients: ['a@x.test', 'b@x.test'] });
      await spool?.record([attempt(twice, no, 'a@x.test')]);
      now += 30_000;
      const [first] = await due();
      if (first) await spool?.endReport(first.key);
      await spool?.record([attempt(twice, no, 'b@x.test')]);
      expect(spool?.unreported).toBe(1);
      for (const senderPath of ['alice@example.com', 'alice@example.com', 'bob@example.com', 'eve@example.com']) {
        const entry = await added({ senderPath });
        await spool?.record([attempt(entry, no)]);
      }
      expect((await due()).map(({ senderPath }) => senderPath)).toEqual(['alice@example.com', 'bob@example.com']);
      expect(spool?.unreported).toBe(3);
      now += 86_400_000;
      const next = await added();
      await spool?.record([attempt(next, no)]);
      expect(await due()).toHaveLength(3);
    });

    test('counts what is not reported of outcomes that are recorded side by side', async () => {
      await open({ perAccountPerDay: 1 });
      const entries = await Promise.all(Array.from({ length: 20 }, () => added()));
      await Promise.all(entries.map(async (entry) => await spool?.record([attempt(entry, no)])));
      expect(await due()).toHaveLength(1);
      expect(spool?.unreported).toBe(19);
    });

    test('lists 1,000 recipients and counts the others', async () => {
      await open();
      const recipients = Array.from({ length: 1100 }, (_, index) => `r${index}@x.test`);
      const entry = await added({ recipients });
      for (let at = 0; at < 1100; at += 100) {
        await spool?.record(recipients.slice(at, at + 100).map((recipient) => attempt(entry, no, recipient)));
      }
      const [report] = await due();
      expect([report?.recipients.length, report?.more]).toEqual([1000, 100]);
    });

    test('keeps of a long header section what ends with a field', async () => {
      await open();
      const field = `X-Long: ${'a'.repeat(500)}\r\n ${'b'.repeat(480)}\r\n`;
      const entry = await added({ head: Buffer.from(`${field.repeat(100)}\r\n`) });
      await spool?.record([attempt(entry, no)]);
      const [report] = await due();
      expect(report?.head.toString('latin1').replaceAll(field, '#')).toBe(
        '#'.repeat(Math.floor(65_536 / field.length)),
      );
    });
  });
}
