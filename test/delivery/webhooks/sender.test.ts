// Webhooks by real HTTP, from a real spool and database (D54).

import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Clock } from '../../../src/base/clock.ts';
import type { Database } from '../../../src/base/database/database.ts';
import { LeaseStore } from '../../../src/delivery/webhooks/lease-store.ts';
import { Poster } from '../../../src/delivery/webhooks/post.ts';
import { makeSecret } from '../../../src/delivery/webhooks/secret.ts';
import { WebhookSender } from '../../../src/delivery/webhooks/sender.ts';
import type { NewWebhook } from '../../../src/delivery/webhooks/webhook.ts';
import { openWebhookStore } from '../../../src/delivery/webhooks/webhook-store.ts';
import { createAddressGuard } from '../../../src/delivery/webhooks/webhook-url.ts';
import type { MailEvent } from '../../../src/spool/events/mail-event.ts';
import type { Outcome, Spool } from '../../../src/spool/spool.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { type HookRequest, startHookEndpoint } from '../../support/hook-endpoint.ts';
import { logLines } from '../../support/log-lines.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { attemptOf as attempt, spoolEntry as entryOf } from '../../support/spool-entry.ts';

const dev = 'a1'.repeat(16);
const other = 'b2'.repeat(16);
const hangingAccounts = ['one', 'two', 'three', 'four', 'five'].map((name, at) => ({ name, id: `c${at}`.repeat(16) }));
const names = new Map([[dev, 'dev'], [other, 'other'], ...hangingAccounts.map(({ name, id }) => [id, name] as const)]);
const delivered: Outcome = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host: 'h' };
const deferred: Outcome = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host: 'h' };
const waiting = { timeout: 8_000, interval: 20 };
const hour = 3_600_000;
const longWait = 20 * hour;

// Of today: events that are too old are removed.
const spoolEntry: typeof entryOf = (changes) => entryOf({ acceptedAt: Date.now(), ...changes });
const attemptOf: typeof attempt = (entry, outcome, more) => attempt(entry, outcome, { at: Date.now(), ...more });

/** A clock that runs, and that the test sets ahead; both of its times. */
function passingClock(): Clock & { pass(ms: number): number } {
  let ahead = 0;
  return {
    now: () => Date.now() + ahead,
    monotonic: () => performance.now() + ahead,
    pass: (ms) => (ahead += ms),
  };
}

/** A database that tells of each statement and transaction that is asked of it. */
function counted(database: Database, asked: () => void): Database {
  return new Proxy(database, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...values: unknown[]): unknown => {
        asked();
        return Reflect.apply(value, target, values);
      };
    },
  });
}

async function setUp({ timeoutMs = 2000 } = {}) {
  const file = join(scratchFolder(), 'postern.db');
  const clock = passingClock();
  const { log, lines } = logLines();
  const spool = await SqliteSpool.open({ file, clock });
  onTestFinished(() => spool.close());
  const store = await openWebhookStore(await openTestDatabase(file), clock);
  const secret = makeSecret();
  const sender = async (holder = 'first', asked: () => void = () => undefined): Promise<WebhookSender> => {
    const guard = createAddressGuard({ allowNetworks: ['127.0.0.0/8'] });
    const database = counted(await openTestDatabase(file), asked);
    const made = new WebhookSender({
      leases: new LeaseStore({ database, holder }),
      changes: database.changes,
      events: spool.events,
      poster: new Poster({ refuse: guard, timeoutMs }),
      accountName: (id) => names.get(id),
      fileSecrets: () => undefined,
      clock,
      log,
    });
    onTestFinished(() => made.stop(100));
    await made.start();
    return made;
  };
  const hook = async (url: string, changes: Partial<NewWebhook> = {}) => {
    const made = await store.create({ account: dev, url, kinds: undefined, note: '', secret, ...changes }, 0);
    if (!made) throw new Error('not made');
    return made;
  };
  const logOf = async (id: string) => (await store.deliveries(id, { limit: 100 })).deliveries;
  const disabled = async (): Promise<readonly MailEvent[]> =>
    (await spool.events.search({ account: 'dev', order: 'oldest', limit: 9, kinds: ['webhook_disabled'] })).events;
  return { file, clock, lines, spool, store, secret, sender, hook, logOf, disabled };
}

/** Takes so many messages, all at once. */
async function accept(spool: Spool, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => spool.add(spoolEntry(), 0)));
}

/**
 * Waits until a sender has done what it was woken for: written what became of its requests, and set the time of its next one. A
 * clock that passes before that moves what is not yet written.
 */
async function settled(sender: WebhookSender): Promise<void> {
  await expect.poll(() => sender.counts, waiting).toEqual({ running: 0, waiting: 0 });
}

/** Sets the clock ahead at a moment at which every sender has done what it was woken for: none of them begins in between. */
async function passOnceSettled(senders: readonly WebhookSender[], clock: ReturnType<typeof passingClock>, ms: number) {
  const isIdle = () => senders.every(({ counts }) => counts.running + counts.waiting === 0);
  await expect.poll(() => isIdle() && clock.pass(ms) > 0, waiting).toBe(true);
}

/** The events that came in, as `kind recipient`. */
function told(requests: readonly HookRequest[]): string[] {
  return requests.map(({ json }) => `${json.type} ${json.data.recipient ?? ''}`.trim());
}

test('an event arrives as JSON, with a signature that the standardwebhooks package takes', async () => {
  const { spool, sender, hook, secret, logOf } = await setUp();
  const endpoint = await startHookEndpoint();
  const { id } = await hook(endpoint.url);
  await sender();
  const entry = spoolEntry();
  await spool.add(entry, 0);
  await spool.record([attemptOf(entry, delivered)]);
  await expect.poll(() => endpoint.requests.length, waiting).toBe(2);
  for (const { body, headers } of endpoint.requests) {
    expect(new Verifier(secret).verify(body, headers)).toEqual(JSON.parse(body));
    expect(() => new Verifier(makeSecret()).verify(body, headers)).toThrow();
    expect(headers['content-type']).toBe('application/json');
  }
  const [accepted, outcome] = endpoint.requests;
  expect(accepted?.json).toMatchObject({ type: 'accepted', data: { kind: 'accepted', queue_id: entry.id } });
  expect(outcome?.json).toMatchObject({ type: 'delivered', timestamp: outcome?.json.data['at'] });
  await expect
    .poll(() => logOf(id), waiting)
    .toMatchObject([
      { event: 2, kind: 'delivered', attempt: 1, result: 'delivered', status: 200 },
      { event: 1, kind: 'accepted' },
    ]);
});

test('only the kinds that it wants, of its own account, from the cursor on', async () => {
  const { spool, sender, hook } = await setUp();
  const endpoint = await startHookEndpoint();
  await hook(endpoint.url, { kinds: ['delivered', 'refused'] });
  const entry = spoolEntry();
  await spool.add(spoolEntry({ account: 'other' }), 0);
  await spool.add(entry, 0);
  await sender();
  await spool.record([attemptOf(entry, delivered)]);
  spool.events.refuse({
    stage: 'message',
    account: 'dev',
    sessionId: 's',
    violations: [{ code: 'E_X', message: 'no' }],
  });
  await expect.poll(() => told(endpoint.requests), waiting).toEqual(['delivered bob@example.org', 'refused']);
});

test('of two accounts each endpoint is told of its own mail alone, of what is new and of what is told once more', async () => {
  const { spool, store, sender, hook } = await setUp();
  const [mine, theirs] = [await startHookEndpoint(), await startHookEndpoint()];
  const hooks = [await hook(mine.url), await hook(theirs.url, { account: other })];
  const running = await sender();
  for (const account of ['other', 'dev', 'other']) {
    const entry = spoolEntry({ account, recipients: [`${account}@example.org`] });
    await spool.add(entry, 0);
    await spool.record([attemptOf(entry, delivered)]);
  }
  const of = (account: string, times: number): readonly string[] =>
    ['accepted', `delivered ${account}@example.org`].flatMap((each) => Array.from({ length: times }, () => each));
  const sorted = ({ requests }: typeof mine): readonly string[] => told(requests).toSorted();
  await expect.poll(() => sorted(theirs), waiting).toEqual(of('other', 2));
  await expect.poll(() => sorted(mine), waiting).toEqual(of('dev', 1));
  await settled(running);
  for (const { account, id } of hooks)
    await store.replay(account, id, { after: 0, until: await spool.events.newest() });
  await running.refresh();
  await expect.poll(() => sorted(theirs), waiting).toEqual(of('other', 4));
  await expect.poll(() => sorted(mine), waiting).toEqual(of('dev', 2));
});

describe('an endpoint that fails', () => {
  test('gets the event again; events of its message wait, others do not', async () => {
    const { spool, sender, hook, clock, logOf } = await setUp();
    const bad = spoolEntry({ recipients: ['bad@example.org'] });
    let isDown = true;
    const endpoint = await startHookEndpoint(({ json }) => (isDown && json.data['queue_id'] === bad.id ? 500 : 200));
    const { id } = await hook(endpoint.url);
    const one = await sender();
    await spool.add(bad, 0);
    await spool.record([attemptOf(bad, deferred)]);
    const good = spoolEntry({ recipients: ['good@example.org'] });
    await spool.add(good, 0);
    await spool.record([attemptOf(good, delivered)]);
    await spool.record([attemptOf(bad, delivered)]);
    await expect.poll(() => told(endpoint.requests).includes('delivered good@example.org'), waiting).toBe(true);
    await settled(one);
    expect(endpoint.requests.filter(({ json }) => json.data['queue_id'] === bad.id)).toHaveLength(1);
    clock.pass(6000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(4);
    await settled(one);
    isDown = false;
    clock.pass(31_000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(7);
    const ofBad = endpoint.requests.filter(({ json }) => json.data['queue_id'] === bad.id);
    expect(ofBad.map(({ json }) => json.type)).toEqual(['accepted', 'accepted', 'accepted', 'deferred', 'delivered']);
    expect(new Set(ofBad.slice(0, 3).map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    await expect.poll(async () => (await logOf(id)).length, waiting).toBe(7);
    const ofFirst = (await logOf(id)).filter(({ event }) => event === 1);
    expect(ofFirst.map(({ attempt, result, status }) => [attempt, result, status])).toEqual([
      ...[
        [3, 'delivered', 200],
        [2, 'failed', 500],
        [1, 'failed', 500],
      ],
    ]);
  });

  test.each([
    ['seconds', () => '1800'],
    ['a date', () => new Date(Date.now() + 1_800_000).toUTCString()],
  ])('is asked again when it says so by Retry-After, in %s', async (_, retryAfter) => {
    const { spool, sender, hook, clock, logOf } = await setUp();
    const endpoint = await startHookEndpoint(() => (__, response) => {
      response.writeHead(429, { 'Retry-After': retryAfter() }).end();
    });
    const { id } = await hook(endpoint.url);
    await sender();
    await spool.add(spoolEntry(), 0);
    await expect.poll(async () => (await logOf(id)).length, waiting).toBe(1);
    for (let minutes = 0; minutes < 28; minutes += 7) {
      clock.pass(7 * 60_000);
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
    expect(endpoint.requests).toHaveLength(1);
    clock.pass(3 * 60_000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(2);
  });

  test.each(['1000000000', '-1', 'soon', '9'.repeat(400), new Date(0).toUTCString()])(
    'is asked again after an hour at most, whatever Retry-After says: %s',
    async (retryAfter) => {
      const { spool, sender, hook, clock, logOf } = await setUp();
      const endpoint = await startHookEndpoint(() => (_, response) => {
        response.writeHead(503, { 'Retry-After': retryAfter }).end();
      });
      const { id } = await hook(endpoint.url);
      await sender();
      await spool.add(spoolEntry(), 0);
      await expect.poll(async () => (await logOf(id)).length, waiting).toBe(1);
      clock.pass(hour + 1000);
      await expect.poll(() => endpoint.requests.length, waiting).toBe(2);
    },
  );

  test('is given up for an event after a day of attempts, and the next of the message goes on', async () => {
    const { spool, sender, hook, clock, logOf, disabled } = await setUp();
    const bad = spoolEntry({ recipients: ['bad@example.org'] });
    const endpoint = await startHookEndpoint(({ json }) =>
      json.type === 'accepted' && json.data['queue_id'] === bad.id ? 500 : 200,
    );
    const { id } = await hook(endpoint.url);
    await sender();
    await spool.add(bad, 0);
    await expect.poll(async () => (await logOf(id)).length, waiting).toBe(1);
    for (let tries = 2; tries <= 13; tries += 1) {
      // Other mail gets through meanwhile, so that the webhook is not disabled.
      await spool.add(spoolEntry(), 0);
      await expect.poll(async () => (await logOf(id)).length, waiting).toBe(tries * 2 - 2);
      clock.pass(6 * hour);
      await expect.poll(async () => (await logOf(id)).length, waiting).toBe(tries * 2 - 1);
    }
    const [last] = (await logOf(id)).filter(({ event }) => event === 1);
    expect(last).toMatchObject({ attempt: 13, result: 'given_up', status: 500, error: 'the answer was 500' });
    await spool.record([attemptOf(bad, delivered)]);
    await expect.poll(() => told(endpoint.requests).at(-1), waiting).toBe('delivered bad@example.org');
    expect(await disabled()).toEqual([]);
  });

  test('is disabled after a day without a success, with an event; enabled again it misses nothing', async () => {
    const { spool, sender, hook, clock, store, disabled, lines } = await setUp();
    let isDown = true;
    const endpoint = await startHookEndpoint(() => (isDown ? 503 : 204));
    const { id } = await hook(`${endpoint.url}?key=hunter2`, { kinds: ['accepted'] });
    const one = await sender();
    await spool.add(spoolEntry(), 0);
    for (let tries = 1; tries <= 13; tries += 1) {
      await expect.poll(() => endpoint.requests.length, waiting).toBeGreaterThanOrEqual(tries);
      await passOnceSettled([one], clock, 6 * hour);
      if ((await disabled()).length > 0) break;
    }
    await expect.poll(async () => (await store.find(dev, id))?.isEnabled, waiting).toBe(false);
    expect(await store.find(dev, id)).toMatchObject({ disabledReason: 'every request has failed for a day' });
    const origin = new URL(endpoint.url).origin;
    expect(await disabled()).toMatchObject([{ account: 'dev', webhook: id, url: origin }]);
    expect(JSON.stringify(lines)).not.toContain('hunter2');
    await spool.add(spoolEntry(), 0);
    isDown = false;
    const before = endpoint.requests.length;
    await store.change(dev, id, { isEnabled: true });
    await expect.poll(() => endpoint.requests.length - before, waiting).toBe(2);
  });

  test('is disabled at once where it says that it is gone', async () => {
    const { spool, sender, hook, store, disabled } = await setUp();
    const endpoint = await startHookEndpoint(() => 410);
    const { id } = await hook(endpoint.url);
    await sender();
    await spool.add(spoolEntry(), 0);
    await expect.poll(async () => (await store.find(dev, id))?.isEnabled, waiting).toBe(false);
    expect(await disabled()).toMatchObject([{ reason: 'the endpoint answered 410' }]);
  });

  test('a clock set ahead or back by a year neither gives up nor disables, and holds nothing up', async () => {
    const { spool, sender, hook, clock, store, logOf } = await setUp();
    let isDown = true;
    const endpoint = await startHookEndpoint(() => (isDown ? 503 : 204));
    const { id } = await hook(endpoint.url, { kinds: ['accepted'] });
    const now = clock.now.bind(clock);
    let step = 0;
    clock.now = () => now() + step;
    await sender();
    await spool.add(spoolEntry(), 0);
    await expect.poll(async () => (await logOf(id)).length, waiting).toBe(1);
    step = 365 * 24 * hour;
    clock.pass(6000);
    await expect.poll(async () => (await logOf(id))[0], waiting).toMatchObject({ attempt: 2, result: 'failed' });
    expect((await store.find(dev, id))?.isEnabled).toBe(true);
    step = -365 * 24 * hour;
    isDown = false;
    clock.pass(longWait);
    await expect.poll(async () => (await logOf(id))[0], waiting).toMatchObject({ attempt: 3, result: 'delivered' });
  });
});

describe('many at once', () => {
  test('endpoints that hang hold up no other webhook', async () => {
    const { spool, sender, hook } = await setUp({ timeoutMs: 60_000 });
    const hanging = await startHookEndpoint(() => () => undefined);
    const quick = await startHookEndpoint();
    for (let count = 0; count < 15; count += 1) await hook(hanging.url);
    await hook(quick.url);
    await sender();
    await accept(spool, 40);
    await expect.poll(() => quick.requests.length, waiting).toBe(40);
    expect(hanging.most()).toBeLessThanOrEqual(15 * 8);
  });

  test('accounts all of whose hundred endpoints hang leave turns to another account', async () => {
    const { spool, sender, hook } = await setUp({ timeoutMs: 60_000 });
    const hanging = await startHookEndpoint(() => () => undefined);
    const quick = await startHookEndpoint();
    for (const { id } of hangingAccounts)
      await Promise.all(Array.from({ length: 20 }, () => hook(hanging.url, { account: id })));
    await Promise.all(Array.from({ length: 20 }, () => hook(quick.url, { account: other })));
    const one = await sender();
    await settled(one);
    await Promise.all(hangingAccounts.map(({ name }) => spool.add(spoolEntry({ account: name }), 0)));
    await expect.poll(() => one.counts.running + one.counts.waiting, waiting).toBe(100);
    for (const told of [20, 40]) {
      await spool.add(spoolEntry({ account: 'other' }), 0);
      await expect.poll(() => quick.requests.length, waiting).toBe(told);
    }
    expect(one.counts.waiting).toBeGreaterThan(0);
  });

  test('an account whose requests hang leaves connections to another one’s on the same host', async () => {
    const { spool, sender, hook } = await setUp({ timeoutMs: 60_000 });
    let told = 0;
    const host = await startHookEndpoint(() => (_request, response) => {
      if (response.req.url !== '/theirs') return;
      told += 1;
      response.end();
    });
    await Promise.all(Array.from({ length: 10 }, () => hook(host.url)));
    await hook(host.url.replace('/in', '/theirs'), { account: other });
    await sender();
    await accept(spool, 20);
    await expect.poll(() => host.most(), waiting).toBe(64);
    await spool.add(spoolEntry({ account: 'other' }), 0);
    await expect.poll(() => told, waiting).toBe(1);
  });

  test('of two processes each event is sent by one, and what one holds the other takes over', async () => {
    const { spool, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint();
    await hook(endpoint.url);
    const [one] = [await sender('one'), await sender('two')];
    await accept(spool, 100);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(100);
    await settled(one);
    await one.stop(1000);
    await accept(spool, 20);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(120);
    expect(new Set(endpoint.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(120);
  });

  test('events that another process has written wake the webhooks that they are for, and no others', async () => {
    const { file, clock, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint();
    const hooks = [
      await hook(endpoint.url),
      await hook(endpoint.url, { account: other }),
      await hook(endpoint.url, { kinds: ['failed'] }),
    ];
    const database = await openTestDatabase(file);
    /** Whether each is held by the sender, by its lease. */
    const held = async (): Promise<readonly boolean[]> => {
      const rows = await database.query('SELECT id, lease_until FROM webhooks');
      return hooks.map(({ id }) => rows.some((row) => row['id'] === id && Number(row['lease_until']) > clock.now()));
    };
    const one = await sender();
    await expect.poll(held, waiting).toEqual([true, true, true]);
    const beside = await SqliteSpool.open({ file, clock });
    onTestFinished(() => beside.close());
    for (const digit of [1, 2]) {
      await passOnceSettled([one], clock, 11_000);
      expect(await held()).toEqual([false, false, false]);
      await beside.add(spoolEntry({ id: `0199f3c1-0000-7000-8000-00000000000${digit}` }), 0);
      await expect.poll(() => endpoint.requests.length, waiting).toBe(digit);
      expect(await held()).toEqual([true, false, false]);
    }
  });

  test('what a killed process held is sent once its lease is over, though nothing new happens', async () => {
    const { file, clock, spool, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint();
    const { id } = await hook(endpoint.url);
    const killed = new LeaseStore({ database: await openTestDatabase(file), holder: 'killed' });
    expect(await killed.lease(id, clock.now())).toBeDefined();
    await spool.add(spoolEntry(), 0);
    const next = await sender('next');
    // Looks at all webhooks come while it is being refused the lease, and must not make it forget to ask again.
    for (let count = 0; count < 100; count += 1) await next.refresh();
    clock.pass(15_000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(1);
  });

  test('webhooks that have nothing to send cost next to nothing, however many they are', async () => {
    const { clock, spool, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint();
    for (let count = 0; count < 19; count += 1) {
      await hook(endpoint.url, { account: other });
      await hook(endpoint.url, { kinds: ['failed'] });
    }
    await hook(endpoint.url);
    let asked = 0;
    const senders = [await sender('one', () => (asked += 1)), await sender('two', () => (asked += 1))];
    // What was refused to one of them by the lease of the other is looked at once more when that is over.
    for (let turns = 0; turns < 3; turns += 1) {
      await passOnceSettled(senders, clock, 11_000);
      for (const one of senders) await one.refresh();
    }
    await passOnceSettled(senders, clock, 1);
    asked = 0;
    for (let turns = 1; turns <= 3; turns += 1) {
      await spool.add(spoolEntry(), 0);
      await expect.poll(() => endpoint.requests.length, waiting).toBe(turns);
      await passOnceSettled(senders, clock, 31_000);
      await new Promise((resolve) => setTimeout(resolve, 900));
    }
    // Three looks of each, and what the one webhook takes that has events.
    expect(asked).toBeLessThan(100);
  });

  test('a retry that a killed process has left is made by another, though nothing new happens', async () => {
    const { file, clock, spool, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint();
    const { id } = await hook(endpoint.url, { kinds: ['failed'] });
    const next = await sender('next');
    await settled(next);
    await spool.add(spoolEntry(), 0);
    clock.pass(11_000);
    const killed = new LeaseStore({ database: await openTestDatabase(file), holder: 'killed' });
    expect(await killed.lease(id, clock.now())).toBeDefined();
    const left = { event: 1, message: 'm', attempts: 1, readyAt: clock.now() + 30_000 };
    const none = { replay: undefined, failures: 0, failingMs: 0, lastFailureAt: undefined, retryAll: false };
    await killed.commit(id, { ...none, cursor: 1, done: [], again: [], pending: [left], log: [] }, clock.now());
    clock.pass(20_000);
    await next.refresh();
    await settled(next);
    expect(endpoint.requests).toHaveLength(0);
    clock.pass(20_000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(1);
  });

  test('an endpoint that fails is tried by another process where the one that tried it was killed', async () => {
    const { file, clock, spool, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint();
    const { id } = await hook(endpoint.url);
    const killed = new LeaseStore({ database: await openTestDatabase(file), holder: 'killed' });
    expect(await killed.lease(id, clock.now())).toBeDefined();
    const none = { replay: undefined, failingMs: 0, lastFailureAt: undefined, retryAll: false };
    const nothing = { ...none, cursor: 0, done: [], again: [], pending: [], log: [] };
    await killed.commit(id, { ...nothing, failures: 10 }, clock.now());
    const next = await sender('next');
    await settled(next);
    await spool.add(spoolEntry(), 0);
    clock.pass(80_000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(1);
  });

  test('thousands behind are sent by few requests at a time, each once', async () => {
    const { spool, sender, hook } = await setUp();
    const entries = Array.from({ length: 1000 }, () => spoolEntry());
    await Promise.all(entries.map((entry) => spool.add(entry, 0)));
    await spool.record(entries.map((entry) => attemptOf(entry, delivered)));
    const endpoint = await startHookEndpoint();
    await hook(endpoint.url);
    await sender();
    await expect.poll(() => endpoint.requests.length, { ...waiting, timeout: 15_000 }).toBe(2000);
    expect(endpoint.most()).toBeLessThanOrEqual(8);
    expect(new Set(endpoint.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(2000);
  });

  test('disabled or removed while requests are under way, it is sent nothing more', async () => {
    const { spool, sender, hook, store } = await setUp({ timeoutMs: 60_000 });
    const answers: (() => void)[] = [];
    const endpoint = await startHookEndpoint(() => (_request, response) => {
      answers.push(() => response.writeHead(200).end());
    });
    const [kept, gone] = [await hook(endpoint.url), await hook(endpoint.url)];
    await accept(spool, 100);
    const one = await sender();
    await expect.poll(() => answers.length, waiting).toBe(16);
    await store.change(dev, kept.id, { isEnabled: false });
    await store.remove(dev, gone.id);
    await one.refresh();
    const answering = setInterval(() => {
      for (const answer of answers.splice(0)) answer();
    }, 10);
    onTestFinished(() => clearInterval(answering));
    await settled(one);
    // The rounds that had begun, of 32 events each, are ended; none follows.
    expect(endpoint.requests.length).toBeLessThanOrEqual(64);
    expect((await store.find(dev, kept.id))?.cursor).toBeLessThanOrEqual(32);
    await store.change(dev, kept.id, { isEnabled: true });
    await one.refresh();
    const ids = () => new Set(endpoint.requests.map(({ json }) => json.data.id)).size;
    await expect.poll(ids, waiting).toBe(100);
  });

  test('a webhook that failed and was removed or disabled leaves nothing behind', async () => {
    const { spool, sender, hook, store } = await setUp();
    const endpoint = await startHookEndpoint(() => (_request, response) => void response.writeHead(500).end());
    const hooks = [await hook(endpoint.url), await hook(endpoint.url), await hook(endpoint.url)];
    const [removed, disabled] = hooks;
    await accept(spool, 20);
    const one = await sender();
    await expect.poll(() => one.failing, waiting).toBe(3);
    await settled(one);
    await store.remove(dev, removed?.id ?? '');
    await store.change(dev, disabled?.id ?? '', { isEnabled: false });
    await one.refresh();
    await settled(one);
    expect(one.failing).toBe(1);
  });

  test('ending lets requests under way finish, and what was not sent goes out after the next start', async () => {
    const { spool, sender, hook } = await setUp();
    let isHeld = true;
    const held: ServerResponse[] = [];
    const endpoint = await startHookEndpoint(() => (_request, response) => {
      if (isHeld) held.push(response);
      else response.writeHead(200).end();
    });
    await hook(endpoint.url);
    await accept(spool, 30);
    const one = await sender();
    await expect.poll(() => held.length, waiting).toBe(8);
    const stopped = one.stop(5000);
    isHeld = false;
    for (const response of held) response.writeHead(200).end();
    await stopped;
    expect(endpoint.requests).toHaveLength(8);
    await sender('two');
    await expect.poll(() => endpoint.requests.length, waiting).toBe(30);
    expect(new Set(endpoint.requests.map(({ json }) => json.data.id)).size).toBe(30);
  });
});
