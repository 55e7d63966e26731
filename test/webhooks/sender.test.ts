// Webhooks by real HTTP, from a real spool and database (D54).

import { join } from 'node:path';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import type { MailEvent } from '../../src/events/mail-event.ts';
import type { Outcome } from '../../src/spool/spool.ts';
import { openSqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { createAddressGuard } from '../../src/webhooks/address-guard.ts';
import { LeaseStore } from '../../src/webhooks/lease-store.ts';
import { createPoster } from '../../src/webhooks/post.ts';
import { makeSecret } from '../../src/webhooks/secret.ts';
import { WebhookSender } from '../../src/webhooks/sender.ts';
import type { NewWebhook } from '../../src/webhooks/webhook.ts';
import { openWebhookStore } from '../../src/webhooks/webhook-store.ts';
import { openTestDatabase } from '../support/engines.ts';
import { type HookRequest, startHookEndpoint } from '../support/hook-endpoint.ts';
import { logLines } from '../support/log-lines.ts';
import { scratchFolder } from '../support/scratch.ts';
import { attemptOf as attempt, spoolEntry as entryOf } from '../support/spool-entry.ts';

const dev = 'a1'.repeat(16);
const other = 'b2'.repeat(16);
const delivered: Outcome = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host: 'h' };
const deferred: Outcome = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host: 'h' };
const waiting = { timeout: 8_000, interval: 20 };
const hour = 3_600_000;
const longWait = 20 * hour;

// Of today: events that are too old are removed.
const spoolEntry: typeof entryOf = (changes) => entryOf({ acceptedAt: Date.now(), ...changes });
const attemptOf: typeof attempt = (entry, outcome, more) => attempt(entry, outcome, { at: Date.now(), ...more });

/** A clock that runs, and that the test sets ahead; both of its times. */
function passingClock(): Clock & { pass(ms: number): void } {
  let ahead = 0;
  return {
    now: () => Date.now() + ahead,
    monotonic: () => performance.now() + ahead,
    pass: (ms) => (ahead += ms),
  };
}

async function setUp({ timeoutMs = 2000 } = {}) {
  const file = join(scratchFolder(), 'postern.db');
  const clock = passingClock();
  const { log, lines } = logLines();
  const spool = await openSqliteSpool({ file, clock });
  onTestFinished(() => spool.close());
  const store = await openWebhookStore(await openTestDatabase(file), clock);
  const secret = makeSecret();
  const sender = async (holder = 'first'): Promise<WebhookSender> => {
    const guard = createAddressGuard({ allowNetworks: ['127.0.0.0/8'] });
    const database = await openTestDatabase(file);
    const made = new WebhookSender({
      leases: new LeaseStore(database, holder),
      changes: database.changes,
      events: spool.events,
      poster: createPoster({ refuse: guard, timeoutMs }),
      accountName: (id) =>
        new Map([
          [dev, 'dev'],
          [other, 'other'],
        ]).get(id),
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

describe('an endpoint that fails', () => {
  test('gets the event again; events of its message wait, others do not', async () => {
    const { spool, sender, hook, clock, logOf } = await setUp();
    const bad = spoolEntry({ recipients: ['bad@example.org'] });
    let isDown = true;
    const endpoint = await startHookEndpoint(({ json }) => (isDown && json.data['queue_id'] === bad.id ? 500 : 200));
    const { id } = await hook(endpoint.url);
    await sender();
    await spool.add(bad, 0);
    await spool.record([attemptOf(bad, deferred)]);
    const good = spoolEntry({ recipients: ['good@example.org'] });
    await spool.add(good, 0);
    await spool.record([attemptOf(good, delivered)]);
    await spool.record([attemptOf(bad, delivered)]);
    await expect.poll(() => told(endpoint.requests).includes('delivered good@example.org'), waiting).toBe(true);
    expect(endpoint.requests.filter(({ json }) => json.data['queue_id'] === bad.id)).toHaveLength(1);
    clock.pass(6000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(4);
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
      await expect.poll(() => one.counts.running, waiting).toBe(0);
      clock.pass(6 * hour);
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
    await expect.poll(() => endpoint.requests.length, waiting).toBe(2);
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
    for (let count = 0; count < 40; count += 1) await spool.add(spoolEntry(), 0);
    await expect.poll(() => quick.requests.length, waiting).toBe(40);
    expect(hanging.most()).toBeLessThanOrEqual(15 * 8);
  });

  test('of two processes each event is sent by one, and what one holds the other takes over', async () => {
    const { spool, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint();
    await hook(endpoint.url);
    const [one] = [await sender('one'), await sender('two')];
    for (let count = 0; count < 100; count += 1) await spool.add(spoolEntry(), 0);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(100);
    await one.stop(1000);
    for (let count = 0; count < 20; count += 1) await spool.add(spoolEntry(), 0);
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
    await sender();
    await expect.poll(held, waiting).toEqual([true, true, true]);
    const beside = await openSqliteSpool({ file, clock });
    onTestFinished(() => beside.close());
    for (const digit of [1, 2]) {
      clock.pass(11_000);
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
    const killed = new LeaseStore(await openTestDatabase(file), 'killed');
    expect(await killed.lease(id, clock.now())).toBeDefined();
    await spool.add(spoolEntry(), 0);
    const next = await sender('next');
    // Looks at all webhooks come while it is being refused the lease, and must not make it forget to ask again.
    for (let count = 0; count < 100; count += 1) await next.refresh();
    clock.pass(15_000);
    await expect.poll(() => endpoint.requests.length, waiting).toBe(1);
  });

  test('thousands behind are sent by few requests at a time, each once', async () => {
    const { spool, sender, hook } = await setUp();
    const entries = Array.from({ length: 1500 }, () => spoolEntry());
    await Promise.all(entries.map((entry) => spool.add(entry, 0)));
    await spool.record(entries.map((entry) => attemptOf(entry, delivered)));
    const endpoint = await startHookEndpoint();
    await hook(endpoint.url);
    await sender();
    await expect.poll(() => endpoint.requests.length, { ...waiting, timeout: 15_000 }).toBe(3000);
    expect(endpoint.most()).toBeLessThanOrEqual(8);
    expect(new Set(endpoint.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(3000);
  });

  test('disabled or removed while requests are under way, it is sent nothing more', async () => {
    const { spool, sender, hook, store } = await setUp({ timeoutMs: 60_000 });
    const answers: (() => void)[] = [];
    const endpoint = await startHookEndpoint(() => (_request, response) => {
      answers.push(() => response.writeHead(200).end());
    });
    const [kept, gone] = [await hook(endpoint.url), await hook(endpoint.url)];
    for (let count = 0; count < 100; count += 1) await spool.add(spoolEntry(), 0);
    const one = await sender();
    await expect.poll(() => answers.length, waiting).toBe(16);
    await store.change(dev, kept.id, { isEnabled: false });
    await store.remove(dev, gone.id);
    await one.refresh();
    const answering = setInterval(() => {
      for (const answer of answers.splice(0)) answer();
    }, 10);
    onTestFinished(() => clearInterval(answering));
    await expect.poll(() => one.counts, waiting).toEqual({ running: 0, waiting: 0 });
    // The rounds that had begun, of 32 events each, are ended; none follows.
    expect(endpoint.requests.length).toBeLessThanOrEqual(64);
    expect((await store.find(dev, kept.id))?.cursor).toBeLessThanOrEqual(32);
    await store.change(dev, kept.id, { isEnabled: true });
    await one.refresh();
    const ids = () => new Set(endpoint.requests.map(({ json }) => json.data.id)).size;
    await expect.poll(ids, waiting).toBe(100);
  });

  test('ending lets requests under way finish, and what was not sent goes out after the next start', async () => {
    const { spool, sender, hook } = await setUp();
    const endpoint = await startHookEndpoint(() => (_request, response) => {
      setTimeout(() => response.writeHead(200).end(), 50);
    });
    await hook(endpoint.url);
    const one = await sender();
    for (let count = 0; count < 30; count += 1) await spool.add(spoolEntry(), 0);
    await expect.poll(() => endpoint.requests.length, waiting).toBeGreaterThan(0);
    await one.stop(5000);
    expect(endpoint.requests.length).toBeLessThan(30);
    await sender('two');
    await expect.poll(() => endpoint.requests.length, waiting).toBe(30);
    expect(new Set(endpoint.requests.map(({ json }) => json.data.id)).size).toBe(30);
  });
});
