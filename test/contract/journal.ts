// The contract of the journal of every durable spool: one suite, run on each store.

import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { ContentGauge } from '../../src/spool/journal/content-gauge.ts';
import type { Journal, JournalLimits, JournalQuery } from '../../src/spool/journal/journal.ts';
import type { JournalDetails } from '../../src/spool/journal/journal-row.ts';
import type { Outcome, Spool } from '../../src/spool/spool.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';

/** How the suite gets at a store. */
export interface JournalUnderTest {
  /** A fresh store with its journal. */
  open(
    clock: Clock,
    limits: JournalLimits,
    options: { readonly hasJournal?: boolean; readonly contentGauge?: ContentGauge },
  ): Promise<{ readonly spool: Spool; readonly journal: Journal }>;
  /** Called after each test, once everything is closed. */
  clean(): Promise<void>;
}

const head = Buffer.from('From: alice@example.com\r\nSubject: Hi\r\n\r\n');
const body = Buffer.from('Hello.\r\n');
const day = 86_400_000;
const reply = { reply: { code: 250, text: 'ok' }, host: 'default (h:25)' };
const delivered: Outcome = { kind: 'delivered', ...reply };
const deferred: Outcome = { kind: 'deferred', ...reply };
const failed: Outcome = { kind: 'failed', ...reply };
/** Refusals are written some at a time, soon after they are told. */
const waiting = { timeout: 10_000, interval: 20 };

function details(changes: Partial<JournalDetails> = {}): JournalDetails {
  return {
    content: 'full',
    maxBodyOctets: 262_144,
    fields: [{ name: 'From', rawBytes: Buffer.from(' alice@example.com') }],
    verdicts: 'l',
    octets: Buffer.concat([head, body]),
    body,
    subject: 'Hi',
    timings: { check: 1 },
    ...changes,
  };
}

/** The id of a refusal at `someTime`. @param digits its last two */
function idOf(digits: string): string {
  return `${uuidv7(someTime).slice(0, 14)}7000-8000-0000000000${digits}`;
}

/** Defines the suite for one store. */
export function journalContract(name: string, store: JournalUnderTest): void {
  describe(`journal of ${name}`, () => {
    let now = someTime;
    const clock: Clock = { now: () => now, monotonic: () => now };
    let opened: { readonly spool: Spool; readonly journal: Journal } | undefined;

    async function open(
      limits: Partial<JournalLimits> = {},
      options: { readonly hasJournal?: boolean; readonly contentGauge?: ContentGauge } = {},
    ) {
      now = someTime;
      opened = await store.open(
        clock,
        { keepDays: 30, maxOctets: 1e9, refusals: 1000, copies: 1000, ...limits },
        options,
      );
      return opened;
    }

    async function ids(journal: Journal, query: Partial<JournalQuery> = {}): Promise<readonly string[]> {
      const found: string[] = [];
      for (let cursor: number | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
        const page = await journal.list({ limit: 2, ...query, cursor });
        found.push(...page.items.map(({ id }) => id));
        cursor = page.next;
      }
      return found;
    }

    async function refuse(spool: Spool, journal: Journal, journalId: string, changes = {}): Promise<void> {
      spool.events.refuse({
        ...{ stage: 'message', account: 'dev', credential: 'default', sessionId: 'c0ffee', via: 'smtp', journalId },
        recipients: ['bob@example.org'],
        violations: [{ code: 'E_HEADER_NOT_ALLOWED', message: 'no', name: 'User-Agent' }],
        ...changes,
      });
      await vi.waitFor(async () => expect(await journal.find(journalId)).toBeDefined(), waiting);
    }

    afterEach(async () => {
      await opened?.spool.close();
      await opened?.journal.close();
      await store.clean();
    });

    test('has an accepted message with its content, for its own account alone', async () => {
      const { spool, journal } = await open();
      const entry = spoolEntry({ journal: details(), body });
      await spool.add(entry, someTime);
      const [item] = (await journal.list({ limit: 10 })).items;
      expect(item).toMatchObject({ id: entry.id, at: someTime, account: 'dev', outcome: 'accepted' });
      expect(item?.facts).toMatchObject({
        subject: 'Hi',
        sender: 'alice@example.com',
        recipients: ['bob@example.org'],
        count: 1,
      });
      expect(await journal.content(item?.seq ?? 0)).toEqual({
        receivedHead: head,
        receivedBody: body,
        sentHead: entry.head,
        sentBody: entry.body,
      });
      expect(await journal.find(entry.id, 'dev')).toMatchObject({ more: { verdicts: 'l', timings: { check: 1 } } });
      expect(await journal.find(entry.id, 'other')).toBeUndefined();
      expect(await journal.rows([entry.id, 'x'])).toEqual([item]);
      expect(await ids(journal, { account: 'other' })).toEqual([]);
    });

    test('keeps of the content no more than it is told to', async () => {
      const { spool, journal } = await open();
      const received = Buffer.from('Hello, otherwise.\r\n');
      const octets = Buffer.concat([head, received]);
      const levels = ['none', 'headers', 'full'] as const;
      for (const [at, content] of levels.entries())
        await spool.add(
          spoolEntry({ acceptedAt: someTime + at, journal: details({ content, octets, body: received }) }),
          someTime,
        );
      const items = (await journal.list({ limit: 10 })).items.toReversed();
      const [none, headers, full] = await Promise.all(items.map(({ seq }) => journal.content(seq)));
      expect(none).toBeUndefined();
      expect([headers?.receivedHead, headers?.receivedBody, headers?.sentBody]).toEqual([head, undefined, undefined]);
      expect([full?.receivedHead, full?.receivedBody]).toEqual([head, received]);
      expect(items.map(({ facts }) => facts.subject)).toEqual([undefined, 'Hi', 'Hi']);
    });

    test('keeps a body up to the limit that is set, also one that the spool has as a file, and says what is over it', async () => {
      const { spool, journal } = await open();
      const maxBodyOctets = 400_000;
      const bodyOf = (octets: number, letter: string): Buffer => Buffer.from(`${letter.repeat(octets - 2)}\r\n`);
      const add = async (at: number, received: Buffer, sent: Buffer): Promise<void> => {
        const octets = Buffer.concat([head, received]);
        const kept = details({ maxBodyOctets, octets, body: received });
        await spool.add(spoolEntry({ acceptedAt: someTime + at, body: sent, journal: kept }), someTime);
      };
      const [most, over, other] = [bodyOf(maxBodyOctets, 'a'), bodyOf(maxBodyOctets + 1, 'a'), bodyOf(300_000, 'b')];
      await add(0, most, most);
      await add(1, other, most);
      await add(2, over, over);
      await add(3, other, over);
      await add(4, body, body);
      await add(5, over, body);
      const items = (await journal.list({ limit: 10 })).items.toReversed();
      const kept = await Promise.all(items.map(({ seq }) => journal.content(seq)));
      expect(kept.map((content) => [content?.receivedBody?.length, content?.sentBody?.length])).toEqual([
        [400_000, 400_000],
        [300_000, 400_000],
        [undefined, undefined],
        [300_000, undefined],
        [body.length, body.length],
        [undefined, body.length],
      ]);
      expect(kept[1]?.receivedBody?.equals(other)).toBe(true);
      expect(kept[1]?.sentBody?.equals(most)).toBe(true);
      expect(kept.every((content) => content?.receivedHead?.equals(head))).toBe(true);
      const notes = await Promise.all(items.map(async ({ id }) => (await journal.find(id))?.more.lacking));
      const tooLarge = 'the body has 400001 octets, and bodies over 400000 (journal.maxBodyOctets) are not kept';
      expect(notes).toEqual([undefined, undefined, tooLarge, tooLarge, undefined, tooLarge]);
    });

    test('is told nothing where it is off', async () => {
      const { spool, journal } = await open({}, { hasJournal: false });
      const entry = spoolEntry({ journal: details() });
      await spool.add(entry, someTime);
      await spool.record([attemptOf(entry, delivered)]);
      spool.events.refuse({
        ...{
          stage: 'message',
          account: 'dev',
          credential: 'default',
          sessionId: 'c0ffee',
          via: 'smtp',
          journalId: 'r',
        },
        recipients: ['bob@example.org'],
        violations: [],
        journal: details(),
      });
      await vi.waitFor(async () => {
        const { events } = await spool.events.read({ after: 0, limit: 10, kinds: ['refused'] });
        expect(events).toMatchObject([{ kind: 'refused', account: 'dev' }]);
        expect(events[0]).not.toHaveProperty('journalId');
      }, waiting);
      expect((await journal.list({ limit: 10 })).items).toEqual([]);
    });

    test('keeps a body without an octet as one that was kept', async () => {
      const { spool, journal } = await open();
      const empty = Buffer.alloc(0);
      const entry = spoolEntry({ body: empty, journal: details({ octets: head, body: empty }) });
      await spool.add(entry, someTime);
      const item = await journal.find(entry.id);
      expect(await journal.content(item?.seq ?? 0)).toEqual({
        ...{ receivedHead: head, receivedBody: empty, sentHead: entry.head, sentBody: empty },
      });
    });

    test('tells of each message of one commit by itself, and to its own account alone', async () => {
      const { spool, journal } = await open();
      const make = (account: string) => spoolEntry({ account, journal: details() });
      const [one, two, three] = [make('dev'), make('other'), make('dev')];
      for (const entry of [one, two, three]) await spool.add(entry, someTime);
      await spool.record([attemptOf(one, delivered), attemptOf(two, failed), attemptOf(three, deferred)]);
      const told = await Promise.all([one, two, three].map(async ({ id }) => (await journal.find(id))?.outcome));
      expect(told).toEqual(['delivered', 'failed', 'deferred']);
      expect(await ids(journal, { account: 'other' })).toEqual([two.id]);
      expect((await ids(journal, { account: 'dev' })).toSorted()).toEqual([one.id, three.id].toSorted());
    });

    test('tells what has become of the recipients together', async () => {
      const { spool, journal } = await open();
      const entry = spoolEntry({ journal: details(), recipients: ['a@x.example', 'b@x.example'] });
      await spool.add(entry, someTime);
      const outcome = async () => (await journal.find(entry.id))?.outcome;
      const record = (recipient: string, what: Outcome) => spool.record([attemptOf(entry, what, { recipient })]);
      await record('a@x.example', delivered);
      expect(await outcome()).toBe('accepted');
      await record('b@x.example', deferred);
      expect(await outcome()).toBe('deferred');
      await record('b@x.example', failed);
      expect(await outcome()).toBe('failed');
      expect(await ids(journal, { outcome: 'failed', account: 'dev' })).toEqual([entry.id]);
      await spool.retryMany([{ id: entry.id }], { now: someTime, expiresAt: someTime + day });
      expect(await outcome()).toBe('accepted');
      await record('b@x.example', delivered);
      expect(await outcome()).toBe('delivered');
      const dropped = spoolEntry({ acceptedAt: someTime + 1, journal: details() });
      await spool.add(dropped, someTime);
      await spool.drop(dropped.id);
      expect((await journal.find(dropped.id))?.outcome).toBe('dropped');
    });

    test('finds the same rows before and after they are in the index', async () => {
      const { spool, journal } = await open();
      const origin = { via: 'smtp', clientAddress: '192.0.2.1' } as const;
      const one = spoolEntry({ journal: details({ subject: 'Grüße aus Köln', mailer: 'X-Mailer: Kontor 1' }), origin });
      await spool.add(one, someTime);
      // A subject that spells out another account's key, marks that turn text around, a NUL, and half a character.
      const evil = 'ka646576 keys:"ka646576" \u202Egnp.exe \0 \ud800 " OR 1';
      const two = spoolEntry({ account: 'other', acceptedAt: someTime + 1, journal: details({ subject: evil }) });
      await spool.add(two, someTime);
      const violations = ['User-Agent', 'X\0Y'].map((name) => ({ code: 'E_HEADER_NOT_ALLOWED', message: 'no', name }));
      const refused = { clientAddress: '192.0.2.2', violations, journal: details() };
      const three = idOf('03');
      await refuse(spool, journal, three, refused);
      for (let round = 0; round < 2; round += 1) {
        expect(await ids(journal)).toEqual([three, two.id, one.id]);
        expect(await ids(journal, { account: 'dev' })).toEqual([three, one.id]);
        expect(await ids(journal, { account: 'other' })).toEqual([two.id]);
        expect(await ids(journal, { text: 'koln GRUßE' })).toEqual([one.id]);
        expect(await ids(journal, { text: 'kont' })).toEqual([one.id]);
        expect(await ids(journal, { text: 'ko' })).toEqual([]);
        expect(await ids(journal, { text: 'bob@example.org' })).toEqual([three, two.id, one.id]);
        expect(await ids(journal, { text: '!?' })).toEqual([]);
        expect(await ids(journal, { text: '"; DROP' })).toEqual([]);
        expect(await ids(journal, { client: '192.0.2.1' })).toEqual([one.id]);
        expect(await ids(journal, { code: 'E_HEADER_NOT_ALLOWED', field: 'user-AGENT' })).toEqual([three]);
        expect([await ids(journal, { field: 'x\0y' }), await ids(journal, { field: 'x' })]).toEqual([[three], []]);
        expect(await ids(journal, { outcome: 'refused' })).toEqual([three]);
        expect(await ids(journal, { credential: "x' OR 1" })).toEqual([]);
        expect(await ids(journal, { until: someTime + 1 })).toEqual([three, one.id]);
        expect(await ids(journal, { since: someTime + 1 })).toEqual([two.id]);
        while (await journal.tend(now));
      }
    });

    test('finds rows by their time although the clock was years wrong for a while', async () => {
      const { spool, journal } = await open();
      const year = 365 * day;
      const added: string[] = [];
      for (const at of [0, 10 * year, -10 * year, 3_600_000]) {
        const entry = spoolEntry({ acceptedAt: someTime + at, journal: details() });
        await spool.add(entry, someTime);
        added.push(entry.id);
      }
      const [first, , past, last] = added;
      expect(await ids(journal, { since: someTime - day, until: someTime + day })).toEqual([last, first]);
      expect(await ids(journal, { since: someTime + 60_001, until: someTime + day })).toEqual([last]);
      expect(await ids(journal, { until: someTime + 1 })).toEqual([past, first]);
    });

    test('keeps no content beyond the limit and a little, however fast it comes, and says so', async () => {
      const contentGauge = new ContentGauge(1_000_000);
      const { spool, journal } = await open({ maxOctets: 1_000_000 }, { contentGauge });
      const large = Buffer.alloc(200_000, 'large\r\n');
      const octets = Buffer.concat([head, large]);
      const own = details({ octets, body: large });
      for (let at = 0; at < 15; at += 1)
        await spool.add(spoolEntry({ acceptedAt: someTime + at, body: large, journal: own }), someTime);
      await refuse(spool, journal, idOf('01'), { journal: own });
      const kept = await journal.state();
      expect(kept.octets).toBeGreaterThan(1_000_000);
      expect(kept.octets).toBeLessThan(2_100_000);
      expect(contentGauge.counts).toMatchObject({ accepted: 15, refused: 1, skipped: 6 });
      const { items } = await journal.list({ limit: 1 });
      expect(items[0]?.facts.subject).toBe('Hi');
      expect(await journal.content(items[0]?.seq ?? 0)).toBeUndefined();
      const entry = await journal.find(items[0]?.id ?? '');
      expect(entry?.more).toMatchObject({ lacking: expect.stringMatching('journal.maxOctets'), names: 'From' });
      const { written } = contentGauge;
      while (await journal.tend(now, true));
      contentGauge.learn((await journal.state()).octets, written);
      expect(contentGauge.octets).toBeLessThanOrEqual(1_000_000);
      await spool.add(spoolEntry({ acceptedAt: someTime + 20, journal: details() }), someTime);
      const [last] = (await journal.list({ limit: 1 })).items;
      expect((await journal.content(last?.seq ?? 0))?.receivedHead).toEqual(head);
    });

    test('removes what is too old, too much, or refused too often', async () => {
      const { spool, journal } = await open({ keepDays: 10, maxOctets: 250, refusals: 2 });
      for (let at = 0; at < 4; at += 1)
        await spool.add(spoolEntry({ acceptedAt: someTime + at, journal: details() }), someTime);
      for (let at = 0; at < 4; at += 1) await refuse(spool, journal, idOf(`0${at}`));
      while (await journal.tend(now));
      expect((await ids(journal, { outcome: 'refused' })).map((id) => id.at(-1))).toEqual(['3', '2']);
      const { items } = await journal.list({ limit: 100 });
      const kept = await Promise.all(items.map(({ seq }) => journal.content(seq)));
      const octets = kept
        .flatMap((one) => Object.values(one ?? {}))
        .reduce((sum, part) => sum + (part?.length ?? 0), 0);
      expect(octets).toBeGreaterThan(0);
      expect(octets).toBeLessThanOrEqual(250 * 2);
      expect(items).toHaveLength(6);
      now = someTime + 11 * day;
      const last = spoolEntry({ acceptedAt: now, journal: details() });
      await spool.add(last, now);
      while (await journal.tend(now));
      expect(await ids(journal)).toEqual([last.id]);
      expect(await ids(journal, { text: 'hi' })).toEqual([last.id]);
    });

    test('of too many copies the account’s own go, whatever their verdict, and no refusals for them', async () => {
      const { spool, journal } = await open({ refusals: 2, copies: 3 });
      const left = async (query: Partial<JournalQuery>) => (await ids(journal, query)).map((id) => id.slice(-2));
      await refuse(spool, journal, idOf('a0'), { account: 'other', shadow: true });
      for (const digits of ['b0', 'b1']) await refuse(spool, journal, idOf(digits));
      for (const [at, violations] of [[], undefined, [], undefined, [], undefined].entries())
        await refuse(spool, journal, idOf(`c${at}`), { shadow: true, ...(violations ? { violations } : {}) });
      // A store may tend once a minute, and one account at a time.
      for (let time = 0; time < 4; time += 1) {
        now += 61_000;
        while (await journal.tend(now));
      }
      expect([await left({ account: 'dev', shadow: true }), await left({ account: 'dev', shadow: false })]).toEqual([
        ['c5', 'c4', 'c3'],
        ['b1', 'b0'],
      ]);
      expect([await left({ account: 'other' }), await left({ account: 'dev', outcome: 'refused' })]).toEqual([
        ['a0'],
        ['c5', 'c3', 'b1', 'b0'],
      ]);
      await refuse(spool, journal, idOf('b2'));
      for (let time = 0; time < 4; time += 1) {
        now += 61_000;
        while (await journal.tend(now));
      }
      expect(await left({ account: 'dev' })).toEqual(['b2', 'c5', 'c4', 'c3', 'b1']);
    });

    test('of too many refusals the account’s own go, though another has older ones', async () => {
      const { spool, journal } = await open({ refusals: 2 });
      const left = async (account: string) => (await ids(journal, { account })).map((id) => id.slice(-2));
      // A store may tend once a minute, and one account at a time.
      const tend = async (): Promise<void> => {
        for (let time = 0; time < 3; time += 1) {
          now += 61_000;
          while (await journal.tend(now));
        }
      };
      for (const digits of ['a0', 'a1']) await refuse(spool, journal, idOf(digits), { account: 'other' });
      for (const digits of ['b0', 'b1', 'b2', 'b3']) await refuse(spool, journal, idOf(digits));
      await tend();
      expect([await left('dev'), await left('other')]).toEqual([
        ['b3', 'b2'],
        ['a1', 'a0'],
      ]);
      // What went of one was not counted as the other's.
      await refuse(spool, journal, idOf('a2'), { account: 'other' });
      await refuse(spool, journal, idOf('b4'));
      await tend();
      expect([await left('dev'), await left('other')]).toEqual([
        ['b4', 'b3'],
        ['a2', 'a1'],
      ]);
    });
  });
}
