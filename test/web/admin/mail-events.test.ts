// The endpoints of events and messages by real HTTP on a real spool (D53).

import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { defaultEventLimits, type EventStore } from '../../../src/spool/events/event-store.ts';
import type { Outcome } from '../../../src/spool/spool.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { eventEndpoints } from '../../../src/web/admin/events/event-endpoints.ts';
import { messageEndpoints } from '../../../src/web/admin/events/message-endpoints.ts';
import { ask, type HttpAnswer, startHttpApp } from '../../support/http-app.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

const host = 'default (mx.example:25)';
const delivered: Outcome = { kind: 'delivered', reply: { code: 250, enhanced: '2.0.0', text: 'ok' }, host };
const deferred: Outcome = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host };
const failed: Outcome = { kind: 'failed', reply: { code: 550, text: 'no such user' }, host };
const hour = 3_600_000;

interface Answer {
  readonly result: readonly Record<string, unknown>[];
  readonly result_info: { readonly count: number; readonly per_page: number; readonly cursor: string | null };
}

function success(answer: HttpAnswer): Answer {
  expect(answer.text).toMatch(/^\{"success":true/);
  return JSON.parse(answer.text) as Answer;
}

async function start() {
  // What happens here happens at `someTime`, long ago.
  const eventLimits = { ...defaultEventLimits, ageMilliseconds: 1e15 };
  const spool = await SqliteSpool.open({ file: join(scratchFolder(), 'postern.db'), eventLimits });
  onTestFinished(() => spool.close());
  const asked = { now: 0, most: 0 };
  const counted = async <T>(work: Promise<T>): Promise<T> => {
    asked.now += 1;
    asked.most = Math.max(asked.most, asked.now);
    return await work.finally(() => (asked.now -= 1));
  };
  const events: Pick<EventStore, 'read' | 'search'> = {
    read: (query) => counted(spool.events.read(query)),
    search: (query) => counted(spool.events.search(query)),
  };
  const { base } = await startHttpApp([eventEndpoints({ events }), messageEndpoints({ events })]);
  const get = (path: string, { as = 'dev-watcher', account = 'dev' } = {}) =>
    ask(`${base}/client/v4/accounts/${account}/email/sending${path}`, { headers: { Authorization: `Bearer ${as}` } });
  /** Three messages of dev, one of other: delivered; deferred and failed; waiting. */
  const entries = [
    spoolEntry({ clientMessageId: '<one@client.example>' }),
    spoolEntry({
      recipients: ['a@x.example', 'b@x.example'],
      senderPath: 'Ann@Example.com',
      acceptedAt: someTime + hour,
    }),
    spoolEntry({ acceptedAt: someTime + 2 * hour }),
    spoolEntry({ account: 'other', acceptedAt: someTime + 3 * hour }),
  ] as const;
  const [one, two, three, four] = entries;
  await spool.add(one, someTime);
  await spool.record([attemptOf(one, delivered, { at: someTime + 5 })]);
  await spool.add(two, someTime);
  await spool.record([
    attemptOf(two, deferred, { recipient: 'a@x.example', at: someTime + hour + 9, nextAttemptAt: someTime + 2 * hour }),
    attemptOf(two, failed, { recipient: 'b@x.example', at: someTime + hour + 9 }),
  ]);
  await spool.add(three, someTime);
  await spool.add(four, someTime);
  return { spool, get, entries, asked };
}

test('many requests of an account at once ask the spool one after another, those of each endpoint', async () => {
  const { get, entries, asked } = await start();
  const paths = ['/events', '/messages', `/messages/${entries[0].id}`, '/messages?recipient=a@x.example'];
  const answers = await Promise.all(Array.from({ length: 40 }, (_, at) => get(paths[at % paths.length] ?? '')));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(asked).toEqual({ now: 0, most: 2 });
});

describe('events', () => {
  test('are listed with what happened, the newest first, of the own account alone', async () => {
    const { get, entries } = await start();
    const { result, result_info: info } = success(await get('/events'));
    expect(info).toEqual({ count: 6, per_page: 100, cursor: null });
    expect(result.map(({ id, kind }) => [id, kind].join(' '))).toEqual([
      ...['6 accepted', '5 failed', '4 deferred', '3 accepted', '2 delivered', '1 accepted'],
    ]);
    expect(result[2]).toEqual({
      id: '4',
      kind: 'deferred',
      at: '2026-01-01T01:00:00.009Z',
      account: 'dev',
      credential: 'default',
      session_id: 'c0ffee',
      sender_path: 'Ann@Example.com',
      queue_id: entries[1].id,
      message_id: `${entries[1].id}@platform.example`,
      recipient: 'a@x.example',
      route: 'default',
      host,
      reply: { code: 451, text: 'busy' },
      attempts: 1,
      accepted_at: '2026-01-01T01:00:00.000Z',
      size_as_sent: expect.any(Number),
      next_attempt_at: '2026-01-01T02:00:00.000Z',
    });
    expect(result.at(-1)).toMatchObject({ client_message_id: 'one@client.example', recipients: ['bob@example.org'] });
    expect(success(await get('/events', { as: 'other-boss' })).result).toHaveLength(6);
    expect(success(await get('/events', { as: 'other-watcher', account: 'other' })).result).toHaveLength(1);
    expect((await get('/events', { as: 'other-watcher' })).status).toBe(404);
    expect((await get('/events', { as: 'dev-default' })).status).toBe(403);
  });

  test('are narrowed by kind, recipient, message and time', async () => {
    const { get, entries } = await start();
    const ids = async (query: string) => success(await get(`/events?${query}`)).result.map(({ id }) => id);
    expect(await ids('kind=failed,delivered')).toEqual(['5', '2']);
    expect(await ids('recipient=B@X.example')).toEqual(['5', '3']);
    for (const name of [entries[1].id, entries[1].messageId, `${entries[1].id}@platform.example`])
      expect(await ids(`message_id=${encodeURIComponent(name)}`)).toEqual(['5', '4', '3']);
    expect(await ids(`message_id=${entries[3].id}`)).toEqual([]);
    expect(await ids('since=2026-01-01T01:00:00Z&until=2026-01-01T02:00:00Z')).toEqual(['5', '4', '3']);
    expect(await ids('recipient=%25&order=oldest')).toEqual([]);
    for (const query of [
      'kind=opened',
      'since=yesterday',
      'until=2026-02-31T00:00:00Z',
      'cursor=-1',
      'per_page=1001',
      'x=1',
    ])
      expect((await get(`/events?${query}`)).json.errors, query).toMatchObject([{ code: 10001 }]);
  });

  test('are followed from the oldest: the cursor goes on when more come', async () => {
    const { get, spool } = await start();
    const seen: unknown[] = [];
    let cursor = '0';
    const page = async (): Promise<number> => {
      const { result, result_info: info } = success(await get(`/events?order=oldest&per_page=4&cursor=${cursor}`));
      seen.push(...result.map(({ id }) => id));
      cursor = info.cursor ?? 'none';
      return result.length;
    };
    while ((await page()) > 0);
    await spool.add(spoolEntry(), someTime);
    expect(await page()).toBe(1);
    expect(seen).toEqual(['1', '2', '3', '4', '5', '6', '8']);
  });
});

describe('messages', () => {
  test('are found by every field, with the states of their recipients', async () => {
    const { get, entries } = await start();
    const [one, two, three] = entries;
    const ids = async (query: string) => success(await get(`/messages?${query}`)).result.map(({ id }) => id);
    expect(await ids('')).toEqual([three.id, two.id, one.id]);
    expect(success(await get('/messages?per_page=1&recipient=a@x.example')).result).toEqual([
      {
        id: two.id,
        message_id: `${two.id}@platform.example`,
        client_message_id: null,
        credential: 'default',
        sender: 'Ann@Example.com',
        size: expect.any(Number),
        accepted_at: '2026-01-01T01:00:00.000Z',
        last_event_at: '2026-01-01T01:00:00.009Z',
        recipient_count: 2,
        states: { deferred: 1, failed: 1 },
        recipients: [
          { address: 'a@x.example', state: 'deferred', since: '2026-01-01T01:00:00.009Z' },
          { address: 'b@x.example', state: 'failed', since: '2026-01-01T01:00:00.009Z' },
        ],
      },
    ]);
    for (const name of ['one@client.example', '<one@client.example>'])
      expect(await ids(`client_message_id=${encodeURIComponent(name)}`)).toEqual([one.id]);
    expect(await ids(`message_id=${encodeURIComponent(two.messageId)}`)).toEqual([two.id]);
    expect(await ids('sender=ann@example.com')).toEqual([two.id]);
    expect(await ids('sender=ann@example.com&state=queued')).toEqual([]);
    expect(await ids('state=failed')).toEqual([two.id]);
    expect(await ids('state=queued')).toEqual([three.id]);
    expect(await ids('state=delivered')).toEqual([one.id]);
    expect(await ids('state=failed&recipient=a@x.example')).toEqual([]);
    expect(await ids('since=2026-01-01T01:00:00Z&until=2026-01-01T02:00:00Z')).toEqual([two.id]);
    expect(await ids('state=failed&until=2026-01-01T00:30:00Z')).toEqual([]);
    expect(await ids('recipient=_@x.example')).toEqual([]);
    expect(await ids(`message_id=${entries[3].id}`)).toEqual([]);
    expect((await get('/messages?state=lost')).status).toBe(400);
  });

  test('come page by page, each once, also by an outcome that it has for many recipients', async () => {
    const { get, spool } = await start();
    const entries = Array.from({ length: 5 }, () => spoolEntry({ recipients: ['c@x.example', 'd@x.example'] }));
    for (const entry of entries) {
      await spool.add(entry, someTime);
      await spool.record(entry.recipients.map((recipient) => attemptOf(entry, failed, { recipient })));
    }
    for (const query of ['state=failed', 'recipient=d@x.example', 'sender=alice@example.com&recipient=c@x.example']) {
      const seen: unknown[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page = success(await get(`/messages?per_page=2&${query}${cursor === '' ? '' : `&cursor=${cursor}`}`));
        seen.push(...page.result.map(({ id }) => id));
        cursor = page.result_info.cursor;
      }
      const expected = entries.map(({ id }) => id).toReversed();
      expect(seen.slice(0, 5), query).toEqual(expected);
      expect(new Set(seen).size).toBe(seen.length);
    }
  });

  test('one is told whole, by its id or its Message-ID, to its account alone', async () => {
    const { get, entries } = await start();
    const [, two] = entries;
    for (const name of [two.id, two.messageId, two.messageId.slice(1, -1)]) {
      const { result }: { result: unknown } = JSON.parse((await get(`/messages/${encodeURIComponent(name)}`)).text);
      expect(result).toMatchObject({
        id: two.id,
        states: { deferred: 1, failed: 1 },
        complete: true,
        events: [{ kind: 'accepted', id: '3' }],
        recipients: [
          { address: 'a@x.example', state: 'deferred', events: [{ kind: 'deferred', reply: { code: 451 } }] },
          { address: 'b@x.example', state: 'failed', events: [{ kind: 'failed', reply: { text: 'no such user' } }] },
        ],
      });
    }
    for (const name of [entries[3].id, `${two.id}@other.example`, 'nothing', '%', "' OR 1=1", '%00'])
      expect((await get(`/messages/${encodeURIComponent(name)}`)).status, name).toBe(404);
    expect((await get(`/messages/${two.id}`, { as: 'other-watcher', account: 'other' })).status).toBe(404);
  });

  test('of a message with very many events only so many are read', async () => {
    const { get, spool } = await start();
    const entry = spoolEntry({ recipients: ['c@x.example'] });
    await spool.add(entry, someTime);
    const attempts = Array.from({ length: 2600 }, () => attemptOf(entry, deferred, { nextAttemptAt: someTime }));
    await spool.record(attempts);
    const { result } = JSON.parse((await get(`/messages/${entry.id}`)).text);
    expect(result).toMatchObject({ complete: false, states: { deferred: 1 } });
    expect(result.recipients[0].events.length).toBeLessThan(2100);
    expect(success(await get(`/events?message_id=${entry.id}&per_page=1000`)).result_info.cursor).toMatch(/^\d+$/);
  });
});

test('what was dropped by hand, or is tried again, is told of each of its recipients', async () => {
  const { get, spool, entries } = await start();
  const [, two, three] = entries;
  const now = Date.now();
  await spool.retryMany([{ id: two.id, recipients: ['b@x.example'] }], { now, expiresAt: now + hour });
  await spool.drop(three.id);
  const stateOf = async (id: string) => JSON.parse((await get(`/messages/${id}`)).text).result.states as unknown;
  expect(await stateOf(two.id)).toEqual({ deferred: 1, queued: 1 });
  expect(await stateOf(three.id)).toEqual({ dropped: 1 });
  const found = success(await get('/messages?state=dropped')).result.map(({ id }) => id);
  expect(found).toEqual([three.id]);
});
