// Staging safety (D98a): redirectAll and allowRecipients of accounts and routes, decided at each attempt.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { createLiveDelivery } from '../../src/app/wiring/live/live-delivery.ts';
import { Delivery } from '../../src/delivery/delivery.ts';
import { transportNames, wayFor } from '../../src/delivery/router.ts';
import type { RecipientSafety, Route, SmarthostRoute } from '../../src/delivery/settings.ts';
import {
  isAllowed,
  originalRecipientsField,
  readPattern,
  readTarget,
} from '../../src/delivery/staging/recipient-rules.ts';
import { logEvent } from '../../src/spool/events/log-event.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import type { Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { FaultSink, type SunkMessage } from '../support/fault-sink.ts';
import { logLines } from '../support/log-lines.ts';
import { scratchFolder } from '../support/scratch.ts';
import { countsOf } from '../support/spool-counts.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

const retry = { firstDelaySeconds: 60, maxDelaySeconds: 14_400, jitter: 0.2, expireAfterSeconds: 432_000 };
const waiting = { timeout: 15_000, interval: 10 };

let now = someTime;
const clock = { now: () => now, monotonic: () => now };
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
  now = someTime;
});

function patterns(...texts: readonly string[]) {
  return texts.map((text) => readPattern(text) ?? { kind: 'domain' as const, domain: 'unreadable.invalid' });
}

function smarthost(port: number, changes: Partial<SmarthostRoute> = {}): SmarthostRoute {
  const fixed = {
    type: 'smarthost',
    host: '127.0.0.1',
    tls: 'none',
    tlsVerify: false,
    platformSignature: true,
  } as const;
  return { name: 'default', port, connections: 1, ...fixed, ...changes };
}

function safety(folder: string, accounts: RecipientSafety['accounts'] = {}): RecipientSafety {
  return { accounts, withheld: { name: 'withheld', type: 'capture', folder, platformSignature: true } };
}

interface Bench {
  readonly folder: string;
  readonly spool: SqliteSpool;
  readonly sink: FaultSink;
  readonly events: OutcomeEvent[];
  readonly lines: readonly Record<string, unknown>[];
  readonly log: ReturnType<typeof logLines>['log'];
  readonly start: (settings: { readonly routes: readonly Route[]; readonly safety?: RecipientSafety }) => Delivery;
  readonly add: (changes?: Partial<SpoolEntry>) => Promise<SpoolEntry>;
}

async function bench(sinkOptions: Parameters<typeof FaultSink.start>[0] = {}): Promise<Bench> {
  const folder = scratchFolder();
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), clock });
  closers.push(() => spool.close());
  const sink = await FaultSink.start(sinkOptions);
  closers.push(() => sink.close());
  const { log, lines } = logLines();
  const events: OutcomeEvent[] = [];
  spool.events.listen((event) => {
    if (event.kind !== 'delivered' && event.kind !== 'deferred' && event.kind !== 'failed') return;
    logEvent(log, event);
    events.push(event);
  });
  return {
    ...{ folder, spool, sink, events, lines, log },
    start(settings) {
      const delivery = new Delivery({
        spool,
        settings: { hostname: 'gateway.test', retry, ...settings },
        clock,
        log,
      });
      closers.push(() => delivery.drain(0));
      return delivery;
    },
    async add(changes = {}) {
      const entry = spoolEntry({ acceptedAt: now, expiresAt: now + retry.expireAfterSeconds * 1000, ...changes });
      await spool.add(entry, entry.acceptedAt + leaseMilliseconds);
      return entry;
    },
  };
}

function header({ raw }: SunkMessage): string {
  return (
    raw
      .toString('latin1')
      .split('\r\n\r\n')[0]
      ?.replaceAll(/\r\n(?=[ \t])/g, '') ?? ''
  );
}

/** Everyone that any transaction named. */
function reached({ messages }: FaultSink): readonly string[] {
  return [...new Set(messages.flatMap(({ recipients }) => recipients))].toSorted();
}

describe('a pattern', () => {
  test.each([
    ['qa@corp.example', 'qa@corp.example', true],
    ['qa@corp.example', '"QA"@Corp.Example', true],
    ['qa@corp.example', 'qa2@corp.example', false],
    ['qa@corp.example', 'qa@sub.corp.example', false],
    ['@corp.example', 'anyone@corp.example', true],
    ['*@corp.example', 'anyone@CORP.example', true],
    ['@corp.example', 'anyone@sub.corp.example', false],
    ['@corp.example', 'anyone@notcorp.example', false],
    ['@corp.example', 'anyone@corp.example.evil.test', false],
    ['@corp.example', '"a@corp.example"@evil.test', false],
    ['*@*.corp.example', 'a@x.corp.example', true],
    ['@*.corp.example', 'a@x.y.corp.example', true],
    ['*@*.corp.example', 'a@corp.example', false],
    ['*@*.corp.example', 'a@evilcorp.example', false],
    ['@bücher.example', 'a@xn--bcher-kva.example', true],
    ['@corp.example', 'postmaster', false],
    ['@corp.example', 'a@[127.0.0.1]', false],
  ])('%s for %s: %s', (pattern, recipient, wanted) => {
    expect(readPattern(pattern)).toBeDefined();
    expect(isAllowed(patterns(pattern), recipient)).toBe(wanted);
  });

  test.each([
    '',
    '*',
    '@',
    '*@*',
    '*@*.',
    'corp.example',
    'a*@corp.example',
    '*@cor*.example',
    'a@*.example',
    '<a@b.example>',
  ])('is not %j', (text) => {
    expect(readPattern(text)).toBeUndefined();
  });

  test('a long list is read once, not for each recipient', () => {
    let reads = 0;
    const list = new Proxy(
      patterns(...Array.from({ length: 500 }, (_, at) => [`u${at}@corp.example`, `@d${at}.example`]).flat(), '@*.test'),
      {
        get(target, key, receiver): unknown {
          if (typeof key === 'string' && /^\d+$/.test(key)) reads += 1;
          return Reflect.get(target, key, receiver);
        },
      },
    );
    const allowed = Array.from({ length: 600 }, (_, at) => isAllowed(list, `u${at}@corp.example`));
    expect(allowed.filter(Boolean)).toHaveLength(500);
    expect([isAllowed(list, 'a@d499.example'), isAllowed(list, 'a@b.c.test'), isAllowed(list, 'a@test')]).toEqual([
      true,
      true,
      false,
    ]);
    expect(reads).toBe(1001);
  });

  test('the address of redirectAll is one, with a domain', () => {
    expect(readTarget('QA@Bücher.example')).toBe('QA@xn--bcher-kva.example');
    for (const text of ['postmaster', '', '<a@b.example>', 'a@b.example c', 'a@b.example\r\nRCPT TO:<x@y.example>']) {
      expect(readTarget(text)).toBeUndefined();
    }
  });
});

test("an account's rule comes first, and an address in place of another takes its own route, whose rule is asked next", () => {
  const partner = smarthost(1, {
    name: 'partner',
    match: { recipientDomains: ['corp.example'] },
    allowRecipients: patterns('qa@corp.example'),
  });
  const last = smarthost(2, { redirectAll: 'all@corp.example' });
  const rules = safety('/nowhere', {
    redirected: { redirectAll: 'qa@corp.example' },
    elsewhere: { redirectAll: 'dev@corp.example' },
    few: { allowRecipients: patterns('@other.example') },
  });
  const way = (account: string, recipient: string) => {
    const { route, redirectedTo } = wayFor({ routes: [partner, last], safety: rules }, { account, recipient });
    return [route.name, redirectedTo];
  };
  expect(way('redirected', 'someone@real.test')).toEqual(['partner', 'qa@corp.example']);
  expect(way('elsewhere', 'someone@real.test')).toEqual(['withheld', undefined]);
  expect(way('few', 'someone@real.test')).toEqual(['withheld', undefined]);
  expect(way('few', 'someone@other.example')).toEqual(['default', 'all@corp.example']);
  expect(way('none', 'qa@corp.example')).toEqual(['partner', undefined]);
  expect(way('none', 'ceo@corp.example')).toEqual(['withheld', undefined]);
  expect(way('toString', 'someone@real.test')).toEqual(['default', 'all@corp.example']);
});

test('the names of transports change with every rule, so that no recipient waits for another than its own', () => {
  const routes = [smarthost(1)];
  const name = (given: readonly Route[], rules?: RecipientSafety) =>
    [...transportNames({ routes: given, ...(rules ? { safety: rules } : {}) }).values()][0];
  const all = [
    name(routes),
    name(routes, safety('/x', { dev: { redirectAll: 'a@corp.example' } })),
    name(routes, safety('/x', { dev: { redirectAll: 'b@corp.example' } })),
    name(routes, safety('/x', { dev: { allowRecipients: patterns('@corp.example') } })),
    name([smarthost(1, { allowRecipients: patterns('@corp.example') })], safety('/x')),
  ];
  expect(new Set(all).size).toBe(all.length);
});

test('the field that names the originals is folded ASCII, however many and whatever script', () => {
  const many = Array.from({ length: 1000 }, (_, index) => `recipient-${index}@a-rather-long-domain.example`);
  const field = originalRecipientsField([...many, 'jürgen@example.test']).toString('latin1');
  expect(field).toMatch(/^X-Original-To: recipient-0@/);
  expect(field.endsWith('\r\n')).toBe(true);
  expect(Math.max(...field.split('\r\n').map((line) => line.length))).toBeLessThan(200);
  expect(/[^\x00-\x7f]/.test(field)).toBe(false);
  for (const address of many) expect(field).toContain(address);
});

test('what the sender asked about reports on its recipients stays here, save that there be none', async () => {
  const { start, add, sink, events, folder } = await bench({ dsn: true });
  const delivery = start({
    routes: [smarthost(sink.port)],
    safety: safety(folder, { dev: { redirectAll: 'staging@corp.example' } }),
  });
  const never = { notify: 'NEVER', orcpt: 'rfc822;first@real.test' };
  const asked = { notify: 'SUCCESS,FAILURE', orcpt: 'rfc822;second@real.test' };
  const send = async (requests: readonly (readonly [string, typeof asked])[]): Promise<readonly string[]> => {
    const before = events.length;
    const commands = sink.commands.length;
    const recipients = requests.map(([address]) => address);
    delivery.deliverNow(await add({ recipients, dsn: { ret: 'FULL', envid: 'e1', recipients: new Map(requests) } }));
    await expect.poll(() => events.length, waiting).toBe(before + recipients.length);
    return sink.commands.slice(commands).filter((line) => /^(?:MAIL|RCPT)/.test(line));
  };
  const mail = expect.stringMatching(/^MAIL FROM:<[^>]*>(?: SIZE=\d+)?$/);
  expect(
    await send([
      ['first@real.test', never],
      ['second@real.test', asked],
    ]),
  ).toEqual([mail, 'RCPT TO:<staging@corp.example>']);
  // The wish of the one who has the address must not speak for the others.
  expect(
    await send([
      ['staging@corp.example', never],
      ['second@real.test', asked],
    ]),
  ).toEqual([mail, 'RCPT TO:<staging@corp.example>']);
  // Nobody else reports, so that we do where it was asked.
  expect(events.every((event) => event.kind === 'delivered' && event.handover === undefined)).toBe(true);
  expect(
    await send([
      ['first@real.test', never],
      ['third@real.test', { notify: 'NEVER', orcpt: 'rfc822;third@real.test' }],
    ]),
  ).toEqual([mail, 'RCPT TO:<staging@corp.example> NOTIFY=NEVER']);
});

test('what goes to the address in place of some recipients names those, and none whom the message reaches itself', async () => {
  const { start, add, sink, events } = await bench();
  const partner = smarthost(sink.port, { name: 'partner', match: { recipientDomains: ['other.test'] } });
  const delivery = start({ routes: [partner, smarthost(sink.port, { redirectAll: 'all@corp.example' })] });
  delivery.deliverNow(await add({ recipients: ['first@real.test', 'second@other.test'] }));
  await expect.poll(() => events.length, waiting).toBe(2);
  expect(new Set(sink.messages.flatMap(({ recipients }) => recipients))).toEqual(
    new Set(['all@corp.example', 'second@other.test']),
  );
  const copy = sink.messages.find(({ recipients }) => recipients.includes('all@corp.example'));
  expect(copy && header(copy)).toMatch(/^X-Original-To: first@real\.test\r\n/);
});

test('a message to many leaves once, to the address alone, and each recipient has its event', async () => {
  const { start, add, sink, events, lines, folder } = await bench();
  const delivery = start({
    routes: [smarthost(sink.port, { platformSignature: false })],
    safety: safety(folder, { dev: { redirectAll: 'staging@corp.example' } }),
  });
  const recipients = Array.from({ length: 250 }, (_, index) => `user-${index}@real.test`);
  const head = Buffer.from('DKIM-Signature: platform\r\nFrom: alice@example.com\r\n\r\n');
  delivery.deliverNow(await add({ recipients, head, platformSignature: { start: 0, end: 26 } }));
  await expect.poll(() => events.length, waiting).toBe(250);
  expect(sink.messages.map((message) => message.recipients)).toEqual([['staging@corp.example']]);
  const [message] = sink.messages;
  expect(message && header(message).split('\r\n')).toEqual([
    `X-Original-To: ${recipients.join(', ')}`,
    'From: alice@example.com',
  ]);
  expect(new Set(events.map(({ recipient }) => recipient))).toEqual(new Set(recipients));
  expect(new Set(events.map(({ kind, redirectedTo }) => `${kind} ${redirectedTo}`))).toEqual(
    new Set(['delivered staging@corp.example']),
  );
  expect(lines.at(-1)).toMatchObject({ msg: 'delivered', redirectedTo: 'staging@corp.example' });
  expect(lines.at(-1)?.['recipient']).toMatch(/@real\.test$/);
});

test('recipients of a redirected message are tried again together', async () => {
  const { start, add, sink, events, folder } = await bench();
  const delivery = start({
    routes: [smarthost(sink.port)],
    safety: safety(folder, { dev: { redirectAll: 'defer-dot@corp.example' } }),
  });
  delivery.deliverNow(await add({ recipients: ['a@real.test', 'b@real.test', 'c@real.test'] }));
  await expect.poll(() => events.length, waiting).toBe(3);
  expect(new Set(events.map((event) => event.kind === 'deferred' && event.nextAttemptAt)).size).toBe(1);
  expect(reached(sink)).toEqual([]);
});

test('a queue from before the rule leaves once a message to the address, however far apart its recipients were due', async () => {
  const { start, add, sink, spool, events, folder } = await bench();
  // A next hop that takes none of them: each recipient is deferred to a time of its own.
  const before = start({ routes: [smarthost(sink.port)] });
  const recipients = ['a', 'b', 'c'].map((name) => `defer-rcpt+${name}@real.test`);
  const old = await add({ recipients });
  before.deliverNow(old);
  await expect.poll(() => events.length, waiting).toBe(3);
  await before.drain(0);
  const item = await spool.show(old.id);
  const times = (item?.recipients ?? [])
    .map(({ nextAttemptAt }) => nextAttemptAt)
    .toSorted((one, other) => one - other);
  expect(new Set(times).size).toBe(3);

  // Only the first is due.
  now = times[0] ?? 0;
  const after = start({
    routes: [smarthost(sink.port)],
    safety: safety(folder, { dev: { redirectAll: 'staging@corp.example' } }),
  });
  await after.start();
  await expect.poll(() => events.filter(({ kind }) => kind === 'delivered').length, waiting).toBe(3);
  now += 3_600_000;
  // A message that comes later has gone through once everything that was due has.
  after.deliverNow(await add({ recipients: ['z@real.test'] }));
  await expect.poll(() => events.filter(({ kind }) => kind === 'delivered').length, waiting).toBe(4);
  expect(sink.messages.map(({ recipients }) => recipients)).toEqual([
    ['staging@corp.example'],
    ['staging@corp.example'],
  ]);
  expect(sink.messages[0] && header(sink.messages[0])).toContain(`X-Original-To: ${recipients.join(', ')}`);
  expect((await countsOf(spool)).queued).toBe(0);
});

test('whom allowRecipients does not name is captured, the others get the message; the null sender is no exception', async () => {
  const { start, add, sink, events, folder } = await bench();
  const delivery = start({
    routes: [smarthost(sink.port)],
    safety: safety(join(folder, 'capture'), { dev: { allowRecipients: patterns('@corp.example') } }),
  });
  const recipients = ['qa@corp.example', 'customer@real.test'];
  delivery.deliverNow(await add({ recipients }));
  delivery.deliverNow(await add({ recipients: ['postmaster@real.test'], reversePath: '', senderPath: '' }));
  await expect.poll(() => events.length, waiting).toBe(3);
  expect(reached(sink)).toEqual(['qa@corp.example']);
  expect(sink.messages.map(header).join()).not.toContain('X-Original-To');
  const routeOf = new Map(events.map(({ recipient, route }) => [recipient, route]));
  expect(routeOf.get('customer@real.test')).toBe('withheld');
  expect(readdirSync(join(folder, 'capture/new'))).toHaveLength(2);
});

test('a rule that comes into force holds for what waits, at once and while a claim of before is under way', async () => {
  const { add, sink, spool, events, log, folder } = await bench({ slowMilliseconds: 300 });
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  let isAsked = false;
  /** The real store, whose claims arrive late. */
  const late: Spool = Object.create(spool, {
    claimDue: {
      value: async (query: Parameters<Spool['claimDue']>[0]) => {
        const claimed = await spool.claimDue(query);
        isAsked ||= claimed.length > 0;
        await gate;
        return claimed;
      },
    },
    ...Object.fromEntries(
      (
        ['add', 'record', 'release', 'load', 'show', 'recover', 'giveTransports', 'turns', 'postpone', 'holds'] as const
      ).map((name) => [name, { value: spool[name].bind(spool) }]),
    ),
    events: { value: spool.events },
  });
  const settings = { hostname: 'gateway.test', routes: [smarthost(sink.port)], retry };
  const live = createLiveDelivery({ spool: late, settings, clock, log });
  closers.push(() => live.drain(0));
  // One lies in the spool, due; it is claimed by the delivery of before, and arrives after the change.
  const lying = await add({ recipients: ['lying@real.test'] });
  await spool.release(lying.id, lying.recipients);
  await live.start();
  await expect.poll(() => isAsked, waiting).toBe(true);
  for (let count = 0; count < 20; count += 1) {
    live.deliverNow(await add({ recipients: [`slow+${count}@real.test`] }));
  }
  await expect.poll(() => live.metrics().active, waiting).toBeGreaterThan(0);
  const begun = live.metrics().active + sink.messages.length;
  const change = live.prepare({
    ...settings,
    safety: safety(folder, { dev: { redirectAll: 'staging@corp.example' } }),
  });
  change();
  // What the old delivery has begun it ends; one that could go on would have the next under way at once.
  await expect.poll(() => live.metrics().active, waiting).toBe(0);
  open();
  await expect.poll(() => events.length, waiting).toBe(21);
  const real = sink.messages.filter(({ recipients }) => !recipients.includes('staging@corp.example'));
  expect(real.length).toBeLessThanOrEqual(begun);
  expect(real.flatMap(({ recipients }) => recipients)).not.toContain('lying@real.test');
  expect(sink.messages).toHaveLength(21);
});

test('what the delivery of before has in flight is not sent a second time by the one after it', async () => {
  const { add, sink, spool, events, log } = await bench({ slowMilliseconds: 1500 });
  const settings = { hostname: 'gateway.test', routes: [smarthost(sink.port)], retry };
  const live = createLiveDelivery({ spool, settings, clock, log });
  closers.push(() => live.drain(0));
  await live.start();
  const entry = await add({ recipients: ['slow@real.test'] });
  live.deliverNow(entry);
  await expect.poll(() => sink.commands.some((line) => line.startsWith('RCPT')), waiting).toBe(true);
  live.prepare(settings)();
  // As if its claim had run out.
  await spool.release(entry.id, entry.recipients);
  await expect.poll(() => events.length, waiting).toBe(1);
  live.deliverNow(await add({ recipients: ['after@real.test'] }));
  await expect.poll(() => events.length, waiting).toBe(2);
  await expect.poll(() => live.metrics().inHand, waiting).toBe(0);
  expect(sink.messages).toHaveLength(2);
});
