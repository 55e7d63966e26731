// Delivery as a whole: a real spool, real sockets, real files; faults by the sink's magic addresses.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { Delivery } from '../../src/delivery/delivery.ts';
import { classify } from '../../src/delivery/feedback/classify/classify.ts';
import type { DeliveryParts } from '../../src/delivery/new-transport.ts';
import { transportOf } from '../../src/delivery/router.ts';
import type { Route, SmarthostRoute } from '../../src/delivery/settings.ts';
import { logEvent } from '../../src/spool/events/log-event.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import type { Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { testCertificate } from '../support/certificate.ts';
import { claimAny } from '../support/claim-any.ts';
import { FaultSink, type FaultSinkOptions } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { logLines } from '../support/log-lines.ts';
import { MemorySpool } from '../support/memory-spool/memory-spool.ts';
import { countsOf } from '../support/spool-counts.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

const retry = { firstDelaySeconds: 60, maxDelaySeconds: 14_400, jitter: 0.2, expireAfterSeconds: 432_000 };
const waiting = { timeout: 15_000, interval: 10 };

let folder = '';
let now = someTime;
let closers: (() => unknown)[] = [];
/** Milliseconds that somebody set the wall clock forward. */
let jumped = 0;
const clock = { now: () => now, monotonic: () => now - jumped };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-delivery-'));
  now = someTime;
  jumped = 0;
});

afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
  rmSync(folder, { recursive: true, force: true });
});

async function startSink(options: FaultSinkOptions = {}): Promise<FaultSink> {
  const sink = await FaultSink.start(options);
  closers.push(() => sink.close());
  return sink;
}

async function openSqlite(): Promise<SqliteSpool> {
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), clock });
  closers.push(() => spool.close());
  return spool;
}

function smarthost(port: number, changes: Partial<SmarthostRoute> = {}): SmarthostRoute {
  return {
    name: 'default',
    type: 'smarthost',
    host: '127.0.0.1',
    port,
    tls: 'none',
    tlsVerify: false,
    connections: 4,
    platformSignature: true,
    ...changes,
  };
}

interface Running {
  readonly delivery: Delivery;
  readonly spool: Spool;
  readonly events: OutcomeEvent[];
  readonly lines: Record<string, unknown>[];
  /** Adds a message and hands it over. */
  readonly send: (changes?: Partial<SpoolEntry>) => Promise<SpoolEntry>;
  /** Waits for so many outcomes that are recorded. */
  readonly outcomes: (count: number) => Promise<readonly string[]>;
}

async function run(
  routes: readonly Route[],
  parts: Partial<DeliveryParts> & { readonly spool?: Spool } = {},
): Promise<Running> {
  const spool = parts.spool ?? (await openSqlite());
  const events: OutcomeEvent[] = [];
  const { log, lines } = logLines();
  const delivery = new Delivery({
    spool,
    settings: { hostname: 'gateway.test', routes, retry },
    clock,
    log,
    random: () => 0.5,
    ...parts,
  });
  spool.events.listen((event) => {
    if (event.kind !== 'delivered' && event.kind !== 'deferred' && event.kind !== 'failed') return;
    logEvent(log, event);
    events.push(event);
  });
  closers.push(() => delivery.drain(0));
  return {
    delivery,
    spool,
    events,
    lines,
    send: async (changes = {}) => {
      const entry = spoolEntry({ acceptedAt: now, expiresAt: now + retry.expireAfterSeconds * 1000, ...changes });
      await spool.add(entry, entry.acceptedAt + leaseMilliseconds);
      delivery.deliverNow(entry);
      return entry;
    },
    outcomes: async (count) => {
      await expect.poll(() => events.length, waiting).toBeGreaterThanOrEqual(count);
      await expect.poll(() => delivery.metrics().unrecorded, waiting).toBe(0);
      return events.map(({ recipient, kind, reply: { code } }) => `${recipient.split('@')[0]} ${kind} ${code}`);
    },
  };
}

function failingListener(): void {
  throw new Error('listener');
}

function capture(): Route {
  return { name: 'capture', type: 'capture', folder: join(folder, 'capture'), platformSignature: true };
}

test('messages of many recipients are left to the spool when enough recipients are in hand', async () => {
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
  closers.push(() => silent.close());
  const address = silent.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const { send, delivery, spool } = await run([smarthost(port)], { spool: new MemorySpool(clock) });
  const recipients = Array.from({ length: 1000 }, (_, index) => `user-${index}@example.org`);
  for (let count = 0; count < 60; count += 1) await send({ recipients });
  // A tenth of the share is kept for other accounts.
  expect(delivery.metrics().inHand).toBe(45);
  const left = await claimAny(spool, { now, limit: 100, claimUntil: now + 1 });
  expect(left.map(({ due }) => due.length)).toEqual(Array.from({ length: 15 }, () => 1000));
});

/** A next hop that accepts connections and never says a word; resolves to its port. */
async function startSilent(): Promise<number> {
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const address = silent.address();
  return typeof address === 'object' && address ? address.port : 0;
}

describe('routes stand on their own', () => {
  const matching = (domain: string) => ({ match: { recipientDomains: [domain] } });

  test('what is due for a next hop that never greets stands before nothing of another', async () => {
    const sink = await startSink();
    const spool = await openSqlite();
    const stuck = Array.from({ length: 1500 }, () => spoolEntry({ recipients: ['a@stuck.test'] }));
    const honest = Array.from({ length: 30 }, () => spoolEntry({ acceptedAt: someTime + 1 }));
    await Promise.all([...stuck, ...honest].map((entry) => spool.add(entry, 0)));
    now += 1000;
    const routes = [smarthost(await startSilent(), { name: 'stuck', ...matching('stuck.test') }), smarthost(sink.port)];
    const { delivery, outcomes } = await run(routes, { spool });
    await delivery.start();
    expect(new Set(await outcomes(30))).toEqual(new Set(['bob delivered 250']));
    expect(sink.messages).toHaveLength(30);
    // The account has what it may have of the stuck one's share in hand: all but a tenth of 512.
    expect(delivery.metrics().inHand).toBe(460);
  });

  test('fresh mail for a next hop that never greets fills the share of its route alone', async () => {
    const sink = await startSink();
    const routes = [smarthost(await startSilent(), { name: 'stuck', ...matching('stuck.test') }), smarthost(sink.port)];
    const { delivery, outcomes, send } = await run(routes, { spool: new MemorySpool(clock) });
    for (let count = 0; count < 6000; count += 1) await send({ recipients: ['a@stuck.test'] });
    await send({ recipients: ['both@x.test', 'b@stuck.test'] });
    expect(await outcomes(1)).toEqual(['both delivered 250']);
    // A tenth of the share is kept for other accounts.
    expect(delivery.metrics()).toMatchObject({ inHand: 4500, leftToSpool: 1501 });
  });

  test('octets of mail for one that never greets leave the others theirs', async () => {
    const sink = await startSink();
    const routes = [smarthost(await startSilent(), { name: 'stuck', ...matching('stuck.test') }), smarthost(sink.port)];
    const spool = new MemorySpool(clock);
    const load = spool.load.bind(spool);
    const loads: string[] = [];
    spool.load = (id) => {
      loads.push(id);
      return load(id);
    };
    const { outcomes, send } = await run(routes, { spool, contentBytes: 100_000 });
    const body = Buffer.alloc(30_000, 'line\r\n');
    for (let count = 0; count < 5; count += 1) await send({ recipients: ['a@stuck.test'], body });
    const { id } = await send({ body });
    expect(await outcomes(1)).toEqual(['bob delivered 250']);
    expect(loads).not.toContain(id);
  });

  test('a next hop that is down is tried by one connection, and its queue stays due until it is back', async () => {
    const behaviour: { greeting?: string } = { greeting: '421 4.3.2 Not today' };
    const sink = await startSink(behaviour);
    const spool = await openSqlite();
    await Promise.all(Array.from({ length: 1500 }, () => spool.add(spoolEntry(), 0)));
    const { delivery, outcomes, events } = await run([smarthost(sink.port)], { spool });
    await delivery.start();
    await outcomes(256);
    await expect.poll(() => delivery.metrics().inHand, waiting).toBe(0);
    // No more than was in hand has been deferred, by the connections of one try, and without an attempt counted.
    expect(events.length).toBeLessThanOrEqual(512);
    expect(new Set(events.map(({ attempts }) => attempts))).toEqual(new Set([0]));
    expect(sink.connections).toBeLessThanOrEqual(4);
    const [tried, deferred] = [sink.connections, events.length];
    now += 1000;
    await outcomes(deferred + 1);
    // One message and one connection have tried the next hop again.
    expect(sink.connections).toBe(tried + 1);
    expect(events.length).toBe(deferred + 1);
    delete behaviour.greeting;
    now += 2000;
    const sunk = (): number => {
      now += 100;
      return sink.messages.length;
    };
    await expect.poll(sunk, waiting).toBe(1500);
    await expect.poll(() => delivery.metrics().delivered, waiting).toBe(1500);
  });

  test('mail of a route that has left the configuration goes by the one that it belongs to now', async () => {
    const sink = await startSink();
    const spool = await openSqlite();
    const before = [
      smarthost(1, { name: 'gone', ...matching('gone.test') }),
      smarthost(1, { name: 'narrow', ...matching('narrow.test') }),
      smarthost(1),
    ];
    const account = 'dev';
    const add = async (address: string): Promise<void> => {
      const transports = [transportOf({ routes: before })({ account, address })];
      await spool.add(spoolEntry({ recipients: [address], transports }), 0);
    };
    for (const name of ['a@gone.test', 'b@narrow.test', 'c@wide.test', 'd@x.test']) await add(name);
    // `narrow` takes another domain besides, which was the last one's until now.
    const after = [
      smarthost(sink.port, { name: 'narrow', match: { recipientDomains: ['narrow.test', 'wide.test'] } }),
      smarthost(sink.port),
    ];
    const { delivery, outcomes, events } = await run(after, { spool });
    await delivery.start();
    await outcomes(4);
    expect(Object.fromEntries(events.map(({ recipient, route }) => [recipient, route]))).toEqual({
      'a@gone.test': 'default',
      'b@narrow.test': 'narrow',
      'c@wide.test': 'narrow',
      'd@x.test': 'default',
    });
  });
});

describe('somebody sets the clock', () => {
  const hour = 3_600_000;
  function setClock(milliseconds: number): void {
    now += milliseconds;
    jumped += milliseconds;
  }

  test('two hours forward, during a slow transaction: it is delivered once', async () => {
    const sink = await startSink({ slowMilliseconds: 1500 });
    const { delivery, send, outcomes, spool } = await run([smarthost(sink.port)]);
    await delivery.start();
    await send({ recipients: ['slow@x.test'] });
    await expect.poll(() => sink.commands.some((line) => line.startsWith('RCPT')), waiting).toBe(true);
    setClock(2 * hour);
    expect(await outcomes(1)).toEqual(['slow delivered 250']);
    await send({ recipients: ['after@x.test'] });
    await outcomes(2);
    await expect.poll(() => delivery.metrics().inHand, waiting).toBe(0);
    expect(sink.messages.map(({ recipients }) => recipients)).toEqual([['slow@x.test'], ['after@x.test']]);
    expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
  });

  test.each([-24, 48])('%i hours: a retry is made when its delay is over, neither sooner nor later', async (hours) => {
    const sink = await startSink();
    const { delivery, send, outcomes, spool } = await run([smarthost(sink.port)]);
    await delivery.start();
    const { id } = await send({ recipients: ['defer-rcpt@x.test'] });
    await outcomes(1);
    setClock(hours * hour);
    now += 59_000;
    // The question that finds this one would find the other too.
    await spool.add(spoolEntry({ recipients: ['due@x.test'], acceptedAt: now - 1 }), 0);
    expect((await outcomes(2)).at(-1)).toBe('due delivered 250');
    expect(delivery.metrics().deferred).toBe(1);
    now += 1000;
    await outcomes(3);
    // Two minutes until the next one, and the days until its expiry are as many as they were.
    const shown = await spool.show(id);
    expect(shown?.recipients[0]?.nextAttemptAt).toBe(now + 120_000);
    expect(shown?.entry.expiresAt).toBe(someTime + hours * hour + retry.expireAfterSeconds * 1000);
  });

  test('ten days forward, during an attempt: what is deferred then is not given up', async () => {
    const sink = await startSink({ slowMilliseconds: 500 });
    const { send, outcomes } = await run([smarthost(sink.port)]);
    await send({ recipients: ['slow@x.test', 'defer-dot@x.test'] });
    await expect.poll(() => sink.commands.some((line) => line.startsWith('RCPT')), waiting).toBe(true);
    setClock(240 * hour);
    expect(await outcomes(2)).toEqual(['slow deferred 451', 'defer-dot deferred 451']);
  });

  test.each([-24, 24])('%i hours, while a next hop is down: it is tried again after the second', async (hours) => {
    const behaviour: { greeting?: string } = { greeting: '421 4.3.2 Not today' };
    const sink = await startSink(behaviour);
    const { send, outcomes } = await run([smarthost(sink.port, { connections: 1 })]);
    await send();
    await outcomes(1);
    setClock(hours * hour);
    await send();
    await outcomes(2);
    expect(sink.connections).toBe(1);
    now += 1000;
    await send();
    await outcomes(3);
    expect(sink.connections).toBe(2);
  });

  test('a recipient in hand that the spool hands out once more is not taken twice', async () => {
    const sink = await startSink({ slowMilliseconds: 1500 });
    const spool = await openSqlite();
    const { delivery, send, outcomes } = await run([smarthost(sink.port)], { spool });
    await delivery.start();
    const { id } = await send({ recipients: ['slow@x.test'] });
    await expect.poll(() => sink.commands.some((line) => line.startsWith('RCPT')), waiting).toBe(true);
    // As if its claim had run out.
    await spool.release(id, ['slow@x.test']);
    expect(await outcomes(1)).toEqual(['slow delivered 250']);
    await send({ recipients: ['after@x.test'] });
    await outcomes(2);
    await expect.poll(() => delivery.metrics().inHand, waiting).toBe(0);
    expect(sink.messages).toHaveLength(2);
  });
});

describe('a message', () => {
  test('is relayed from memory, forgotten by the spool, logged and counted', async () => {
    const sink = await startSink();
    const { send, outcomes, spool, lines, delivery, events } = await run([smarthost(sink.port)]);
    const entry = await send({ recipients: ['bob@example.org', 'carol@example.net'] });
    expect(await outcomes(2)).toEqual(['bob delivered 250', 'carol delivered 250']);
    expect(sink.messages[0]?.raw.equals(Buffer.concat([entry.head, entry.body]))).toBe(true);
    expect(sink.messages[0]?.mailFrom).toBe(entry.reversePath);
    expect(sink.messages[0]?.recipients).toEqual(entry.recipients);
    expect(await spool.show(entry.id)).toBeUndefined();
    expect(delivery.metrics()).toMatchObject({ delivered: 2, deferred: 0, failed: 0, inHand: 0, contentBytes: 0 });
    expect(lines.filter((line) => line['msg'] === 'delivered')).toHaveLength(2);
    expect(lines[0]).toMatchObject({
      level: 'info',
      msg: 'delivered',
      session: 'c0ffee',
      id: entry.id,
      messageId: entry.messageId,
      account: 'dev',
      recipient: 'bob@example.org',
      route: 'default',
      host: `default (127.0.0.1:${sink.port})`,
      code: 250,
      enhanced: '2.0.0',
      reply: 'Taken',
      attempts: 1,
      delayMs: 0,
    });
    expect(events[0]).toMatchObject({ route: 'default', attempts: 1 });
  });

  test('goes by the first route that matches, each recipient for itself', async () => {
    const [partner, other] = [await startSink(), await startSink()];
    const { send, outcomes } = await run([
      smarthost(partner.port, { name: 'partner', match: { recipientDomains: ['partner.example'] } }),
      smarthost(other.port),
    ]);
    await send({ recipients: ['a@partner.example', 'b@example.org', 'c@partner.example'] });
    await outcomes(3);
    expect(partner.messages.map((message) => message.recipients)).toEqual([['a@partner.example', 'c@partner.example']]);
    expect(other.messages.map((message) => message.recipients)).toEqual([['b@example.org']]);
  });

  test('goes without the platform’s signature where the route says so', async () => {
    const sink = await startSink();
    const { send, outcomes } = await run([smarthost(sink.port, { platformSignature: false })]);
    await send({
      head: Buffer.from('DKIM-Signature: p\r\nSubject: x\r\n\r\n'),
      platformSignature: { start: 0, end: 19 },
    });
    await outcomes(1);
    expect(sink.messages[0]?.raw.toString()).toBe('Subject: x\r\n\r\nHello.\r\n');
  });

  test('to more than 100 recipients goes in several transactions', async () => {
    const sink = await startSink();
    const { send, outcomes } = await run([smarthost(sink.port)]);
    await send({ recipients: Array.from({ length: 250 }, (_, index) => `r${index}@example.org`) });
    await outcomes(250);
    expect(sink.messages.map((message) => message.recipients.length).toSorted((a, b) => a - b)).toEqual([50, 100, 100]);
  });

  test('to more recipients than the next hop takes at once goes on with the rest at once', async () => {
    const sink = await startSink();
    const { send, outcomes } = await run([smarthost(sink.port)]);
    await send({ recipients: ['a@example.org', 'too-many@example.org', 'b@example.org'] });
    // The sink never takes it: the second transaction has nobody accepted, and it is deferred.
    expect((await outcomes(3)).toSorted()).toEqual(['a delivered 250', 'b delivered 250', 'too-many deferred 452']);
    expect(sink.commands.filter((line) => line.startsWith('RCPT TO:<too-many'))).toHaveLength(2);
  });

  /** Classes of what a next hop's refusal at a command ends in, with its words. */
  async function refusedAt(command: string, reply: string, recipients: readonly string[]): Promise<readonly string[]> {
    const server = createServer((socket) => {
      socket.write('220 x\r\n');
      socket.on('error', () => undefined);
      socket.on('data', (data) => {
        const text = data.toString('latin1');
        const answer = text.startsWith('DATA') ? '354 x' : '250 x';
        const isRefused = text.startsWith(command) || (command === '.' && text.endsWith('\r\n.\r\n'));
        socket.write(`${isRefused ? reply : answer}\r\n`);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on a port
    const { send, outcomes, events } = await run([smarthost((server.address() as AddressInfo).port)]);
    await send({ recipients });
    await outcomes(recipients.length);
    return events.map(({ reply: { code, enhanced: status, text } }) => {
      const { class: bounceClass, rule } = classify({ status, words: `${code} ${text}` });
      return `${bounceClass} by ${rule}: ${text}`;
    });
  }

  const unknown = '550 5.1.1 User unknown';

  test.each([
    ['MAIL', unknown, 1, 'policy by words-sender: MAIL FROM is refused: User unknown'],
    ['RCPT', unknown, 2, 'hard by no-such-user: User unknown'],
    ['DATA', unknown, 1, 'hard by no-such-user: User unknown'],
    ['DATA', unknown, 2, 'policy by refused-together: Refused for 2 recipients at once: User unknown'],
    ['.', unknown, 1, 'hard by no-such-user: User unknown'],
    ['.', unknown, 2, 'policy by refused-together: Refused for 2 recipients at once: User unknown'],
    ['.', '450 4.3.0 Later', 2, 'soft by 4.x.x: Later'],
  ])('answered at %s with %s, for %i recipients: %s', async (command, reply, count, expected) => {
    const recipients = ['a@example.org', 'b@example.org'].slice(0, count);
    expect(await refusedAt(command, reply, recipients)).toEqual(recipients.map(() => expected));
  });

  test('that nobody can carry fails at once', async () => {
    const sink = await startSink({ sizeLimit: 10 });
    // By one connection they end in the order in which they were sent.
    const { send, outcomes, spool } = await run([smarthost(sink.port, { connections: 1 })]);
    const entry = await send();
    await send({ requireTls: true });
    await send();
    expect(await outcomes(3)).toEqual(['bob failed 552', 'bob failed 550', 'bob failed 552']);
    expect((await spool.show(entry.id))?.recipients[0]).toMatchObject({
      state: 'failed',
      lastReply: { enhanced: '5.3.4' },
    });
  });
});

describe('a message with REQUIRETLS (RFC 8689 §4.2.1)', () => {
  async function outcomesOf(routes: readonly SmarthostRoute[]): Promise<readonly string[]> {
    const { send, outcomes, events } = await run(routes);
    await send();
    await outcomes(1);
    await send({ requireTls: true });
    await outcomes(2);
    return events.map(({ kind, reply }) => `${kind} ${reply.code} ${reply.enhanced}`);
  }

  test.each([
    ['offers no STARTTLS', async () => ({}), '4.7.4'],
    [
      'refuses STARTTLS',
      async () => ({ tls: { mode: 'starttls', ...(await testCertificate()) }, starttlsReply: '502 no' }) as const,
      '4.3.0',
    ],
    [
      'shows a certificate of nobody',
      async () => ({ tls: { mode: 'starttls', ...(await testCertificate()) } }) as const,
      '4.7.5',
    ],
    ['speaks no TLS', async () => ({ tls: { mode: 'starttls', key: '', cert: '' } }) as const, '4.7.5'],
  ])('fails where the next hop of a route that requires TLS %s, and others wait', async (_, options, enhanced) => {
    const sink = await startSink(await options());
    const route = smarthost(sink.port, { tls: 'required', tlsVerify: true });
    expect(await outcomesOf([route])).toEqual([`deferred 451 ${enhanced}`, 'failed 550 5.7.30']);
  });

  test('waits where a server of the route cannot be reached or puts TLS off, so that its TLS is not known', async () => {
    const clear = await startSink();
    const strict = { tls: 'required', tlsVerify: true } as const;
    const standby = [{ host: '127.0.0.1', port: await freePort(), priority: 1, ...strict }];
    const both = await outcomesOf([smarthost(clear.port, { ...strict, standby })]);
    expect(both).toEqual(['deferred 451 4.7.4', 'deferred 451 4.7.4']);
    const down = await outcomesOf([smarthost(await freePort(), { ...strict })]);
    expect(down).toEqual(['deferred 451 4.4.1', 'deferred 451 4.4.1']);
    const lost = await startSink({ tls: { mode: 'starttls', key: '', cert: '' }, dropsHandshake: true });
    expect(await outcomesOf([smarthost(lost.port, strict)])).toEqual(['deferred 451 4.7.5', 'deferred 451 4.7.5']);
    const later = await startSink({ tls: { mode: 'starttls', key: '', cert: '' }, starttlsReply: '454 not now' });
    expect(await outcomesOf([smarthost(later.port, strict)])).toEqual(['deferred 451 4.3.0', 'deferred 451 4.3.0']);
  });

  test.each([
    ['waits', '454 4.7.0 not now', 'deferred 451 4.7.0'],
    ['fails', '502 5.5.1 never', 'failed 550 5.7.30'],
  ])('%s where TLS is not required and STARTTLS is answered with %s', async (_, starttlsReply, expected) => {
    const sink = await startSink({ tls: { mode: 'starttls', key: '', cert: '' }, starttlsReply });
    expect(await outcomesOf([smarthost(sink.port, { tls: 'opportunistic' })])).toEqual([
      'delivered 250 2.0.0',
      expected,
    ]);
  });

  test('waits where a next hop whose TLS has failed once goes down for another reason', async () => {
    const secureContext = createSecureContext(await testCertificate());
    const held: Socket[] = [];
    let last: Socket | undefined;
    const server = createServer((bare) => {
      const serve = (socket: Socket): void => {
        socket.on('error', () => undefined);
        socket.on('data', (data) => {
          const line = data.toString('latin1');
          if (line.startsWith('EHLO')) socket.write(socket === bare ? '250-x\r\n250 STARTTLS\r\n' : '250 x\r\n');
          else if (line.startsWith('MAIL')) held.push(socket);
          else if (!last && count === 4) last = socket;
          else {
            socket.removeAllListeners('data').write('220 go\r\n');
            serve(new TLSSocket(socket, { isServer: true, secureContext }));
          }
          if (last && held.length === 3) last.write('454 not now\r\n');
        });
      };
      count += 1;
      bare.write('220 x\r\n');
      serve(bare);
      if (count === 4) bare.on('close', () => held.map((socket) => socket.write('421 4.3.2 closing\r\n')));
    });
    let count = 0;
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    closers.push(() => server.close());
    const { port } = server.address() as AddressInfo;
    const { send, outcomes } = await run([smarthost(port, { tls: 'required' })]);
    for (const local of ['a', 'b', 'c']) await send({ recipients: [`${local}@example.org`] });
    await expect.poll(() => held.length, waiting).toBe(3);
    await send({ recipients: ['d@example.org'], requireTls: true });
    const all = await outcomes(4);
    expect(all.toSorted()).toEqual(['a deferred 421', 'b deferred 421', 'c deferred 421', 'd deferred 421']);
  });
});

describe('outcomes', () => {
  test('each recipient has its own, with the next hop’s words kept', async () => {
    const sink = await startSink();
    const { send, outcomes, spool } = await run([smarthost(sink.port)]);
    const entry = await send({ recipients: ['ok@x.test', 'fail-rcpt@x.test', 'defer-rcpt@x.test'] });
    expect(await outcomes(3)).toEqual(['ok delivered 250', 'fail-rcpt failed 550', 'defer-rcpt deferred 451']);
    const host = `default (127.0.0.1:${sink.port})`;
    expect((await spool.show(entry.id))?.recipients).toMatchObject([
      { state: 'delivered' },
      { state: 'failed', lastReply: { code: 550, enhanced: '5.1.1', text: 'No such user\nhere' }, lastHost: host },
      { state: 'queued', attempts: 1, nextAttemptAt: now + 60_000, lastReply: { code: 451, text: 'Mailbox busy' } },
    ]);
  });

  test('a deferred recipient is tried again when it is due, and only it', async () => {
    const sink = await startSink();
    const { send, outcomes, delivery, spool } = await run([smarthost(sink.port)]);
    await delivery.start();
    const entry = await send({ recipients: ['ok@x.test', 'defer-rcpt@x.test'] });
    await outcomes(2);
    now += 60_000;
    await outcomes(3);
    expect(sink.messages).toHaveLength(1);
    expect((await spool.show(entry.id))?.recipients[1]).toMatchObject({ attempts: 2, nextAttemptAt: now + 120_000 });
  });

  test('a message whose time is over fails as expired, is logged and kept', async () => {
    const sink = await startSink();
    const { delivery, outcomes, spool, lines } = await run([smarthost(sink.port)]);
    const entry = spoolEntry({ recipients: ['defer-dot@x.test'], acceptedAt: now - 86_400_000, expiresAt: now });
    await spool.add(entry, 0);
    await delivery.start();
    expect(await outcomes(1)).toEqual(['defer-dot failed 451']);
    const text = 'Expired after 1 days; last reply: 451 4.3.2 Not now';
    expect((await spool.show(entry.id))?.recipients[0]).toMatchObject({
      state: 'failed',
      lastReply: { code: 451, enhanced: '4.4.7', text },
    });
    expect(lines.at(-1)).toMatchObject({ level: 'warn', msg: 'failed', enhanced: '4.4.7', reply: text });
  });

  test('a listener that fails does not keep the outcome from being recorded', async () => {
    const sink = await startSink();
    const { log, lines } = logLines();
    const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), clock, log });
    closers.push(() => spool.close());
    spool.events.listen(failingListener);
    const { send, outcomes } = await run([smarthost(sink.port)], { spool });
    await send();
    expect(await outcomes(1)).toEqual(['bob delivered 250']);
    expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
    expect(lines.at(-1)).toMatchObject({ level: 'error', msg: 'A listener for events failed' });
  });

  test('the words in the log are cut', async () => {
    const sink = await startSink({ greeting: `554 ${'x'.repeat(900)}` });
    const { send, outcomes, lines } = await run([smarthost(sink.port)]);
    await send();
    await outcomes(1);
    const line = lines.find((candidate) => candidate['msg'] === 'deferred');
    expect(String(line?.['reply'])).toHaveLength(300);
  });
});

describe('a next hop', () => {
  test('that is down defers all that wait with its words, and is not asked for each', async () => {
    const sink = await startSink({ greeting: '421 4.3.2 Not today' });
    const { send, outcomes, lines } = await run([smarthost(sink.port)]);
    await Promise.all(Array.from({ length: 50 }, () => send()));
    const kinds = await outcomes(50);
    expect(new Set(kinds)).toEqual(new Set(['bob deferred 451']));
    expect(sink.connections).toBeLessThanOrEqual(4);
    const asked = sink.connections;
    await send();
    await outcomes(51);
    expect(sink.connections).toBe(asked);
    expect(lines.some((line) => line['msg'] === 'next hop is down')).toBe(true);
    now += 61_000;
    await send();
    await outcomes(52);
    expect(sink.connections).toBe(asked + 1);
  });

  test('that ends idle connections costs no deferral', async () => {
    const sink = await startSink();
    const { send, outcomes, delivery } = await run([smarthost(sink.port, { connections: 1 })]);
    await send();
    await outcomes(1);
    sink.dropAll();
    await send();
    expect(await outcomes(2)).toEqual(['bob delivered 250', 'bob delivered 250']);
    expect(delivery.metrics().deferred).toBe(0);
  });

  test('that takes one message a connection gets them all, none deferred', async () => {
    const sink = await startSink({ messagesPerConnection: 1 });
    const { send, outcomes } = await run([smarthost(sink.port)]);
    await Promise.all(Array.from({ length: 30 }, () => send()));
    expect(new Set(await outcomes(30))).toEqual(new Set(['bob delivered 250']));
    expect(sink.messages).toHaveLength(30);
  });

  test.each(['drop-rcpt', 'drop-data', 'drop-dot', 'reply-421', 'garbage', 'defer-data'])(
    '%s: that message is deferred, those beside it are delivered',
    async (magic) => {
      const sink = await startSink();
      const { send, outcomes } = await run([smarthost(sink.port, { connections: 2 })]);
      const recipients = ['a', magic, 'b', 'c', magic, 'd'].map((name) => `${name}@x.test`);
      await Promise.all(recipients.map((recipient) => send({ recipients: [recipient] })));
      const kinds = await outcomes(6);
      const deferred = `${magic} deferred ${magic === 'reply-421' ? 421 : 451}`;
      expect(kinds.toSorted()).toEqual(
        ['a delivered 250', 'b delivered 250', 'c delivered 250', 'd delivered 250', deferred, deferred].toSorted(),
      );
    },
  );

  test('is never given more connections than the route allows', async () => {
    const sink = await startSink({ slowMilliseconds: 30 });
    const { send, outcomes } = await run([smarthost(sink.port, { connections: 3 })]);
    await Promise.all(Array.from({ length: 40 }, (_, index) => send({ recipients: [`slow+${index}@x.test`] })));
    await outcomes(40);
    expect(sink.connections).toBeLessThanOrEqual(3);
    expect(sink.messages).toHaveLength(40);
  });

  test('that drops every connection before it served is left alone for a while', async () => {
    const sink = await startSink();
    const { send, outcomes } = await run([smarthost(sink.port, { connections: 1 })]);
    for (let count = 1; count <= 10; count += 1) {
      await send({ reversePath: 'drop-mail@x.test' });
      await outcomes(count);
    }
    expect(sink.connections).toBeLessThan(10);
  });
});

describe('memory', () => {
  test('what does not fit is read back from the spool', async () => {
    const sink = await startSink({ slowMilliseconds: 20 });
    const { send, outcomes, delivery } = await run([smarthost(sink.port, { connections: 2 })], {
      contentBytes: 100_000,
    });
    const body = Buffer.alloc(42_000, 'line\r\n');
    const seen: number[] = [];
    await Promise.all(
      Array.from({ length: 30 }, async (_, index) => {
        await send({ recipients: [`slow+${index}@x.test`], body });
        seen.push(delivery.metrics().contentBytes);
      }),
    );
    await outcomes(30);
    expect(sink.messages.filter((message) => message.raw.subarray(-42_000).equals(body))).toHaveLength(30);
    expect(Math.max(...seen)).toBeLessThan(100_000 + 17 * 43_000);
    expect(delivery.metrics()).toMatchObject({ contentBytes: 0, inHand: 0 });
  });

  test('a message larger than the whole budget passes', async () => {
    const sink = await startSink();
    const { send, outcomes } = await run([smarthost(sink.port)], { contentBytes: 1000 });
    await send({ body: Buffer.alloc(6 * 1024 * 1024, 'line\r\n') });
    await send({ body: Buffer.alloc(300 * 1024, 'line\r\n') });
    expect(await outcomes(2)).toEqual(['bob delivered 250', 'bob delivered 250']);
  });
});

describe('the spool', () => {
  test('hands over what an earlier process left', async () => {
    const sink = await startSink();
    const earlier = await openSqlite();
    await earlier.add(spoolEntry(), someTime + leaseMilliseconds);
    await earlier.add(spoolEntry({ body: Buffer.alloc(300_000, 'line\r\n') }), someTime + leaseMilliseconds);
    await earlier.close();
    const { delivery, outcomes, lines } = await run([smarthost(sink.port)]);
    expect(await delivery.start()).toBe(2);
    await outcomes(2);
    expect(sink.messages.filter((message) => message.raw.length > 300_000)).toHaveLength(1);
    expect(sink.messages).toHaveLength(2);
    expect(lines[0]).toMatchObject({ msg: 'resuming delivery', queued: 2 });
  });

  test('a large backlog is taken a part at a time, and all of it', async () => {
    const sink = await startSink();
    const spool = await openSqlite();
    const entries = Array.from({ length: 1200 }, () => spoolEntry());
    await Promise.all(entries.map((entry) => spool.add(entry, 0)));
    const { delivery, outcomes } = await run([smarthost(sink.port)], { spool });
    await delivery.start();
    await outcomes(1200);
    expect(new Set(sink.messages.map((message) => /Message-ID: (.*)/.exec(message.raw.toString())?.[1])).size).toBe(
      1200,
    );
    expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
  });

  test('what a command does beside the server is noticed', async () => {
    const sink = await startSink();
    const { delivery, send, outcomes } = await run([smarthost(sink.port)]);
    await delivery.start();
    const entry = await send({ recipients: ['defer-rcpt@x.test'] });
    await outcomes(1);
    const command = await SqliteSpool.open({ file: join(folder, 'postern.db') });
    await command.retryMany([{ id: entry.id }], { now, expiresAt: now + 1000 });
    await outcomes(2);
    await command.drop(entry.id);
    await command.close();
    now += 1_000_000;
    await send({ recipients: ['last@x.test'] });
    expect(await outcomes(3)).toEqual(['defer-rcpt deferred 451', 'defer-rcpt deferred 451', 'last delivered 250']);
  });

  test('that loses a message between claim and load ends its delivery quietly', async () => {
    const sink = await startSink();
    const spool = await openSqlite();
    const { send, outcomes, delivery } = await run([smarthost(sink.port, { connections: 1 })], {
      contentBytes: 10,
      spool,
    });
    const first = await send({ recipients: ['slow@x.test'] });
    const gone = spoolEntry();
    delivery.deliverNow(gone);
    await send({ recipients: ['after@x.test'] });
    await outcomes(2);
    await expect.poll(() => delivery.metrics().inHand, waiting).toBe(0);
    expect(first.id).not.toBe(gone.id);
    expect(sink.messages).toHaveLength(2);
  });

  test('whose message cannot be read defers it', async () => {
    const sink = await startSink();
    const { send, outcomes, spool } = await run([smarthost(sink.port)], { contentBytes: 10 });
    await send({ recipients: ['slow@x.test'] });
    const entry = spoolEntry({ body: Buffer.alloc(300_000, 'x') });
    await spool.add(entry, now + leaseMilliseconds);
    rmSync(join(folder, 'bodies', entry.id));
    const again = await run([smarthost(sink.port)], { contentBytes: 1, spool });
    await again.send({ recipients: ['slow@x.test'] });
    again.delivery.deliverNow(entry);
    const kinds = await again.outcomes(2);
    expect(kinds).toContain('bob deferred 451');
    expect((await spool.show(entry.id))?.recipients[0]?.lastReply?.text).toMatch(
      /^Cannot read the message: The body of/,
    );
    await outcomes(1);
  });

  test('that cannot record holds delivery until it can, and nothing is sent twice', async () => {
    const sink = await startSink();
    const spool = new MemorySpool(clock);
    let isBroken = true;
    const record = spool.record.bind(spool);
    spool.record = (records) => (isBroken ? Promise.reject(new Error('disk full')) : record(records));
    const { send, lines, delivery } = await run([smarthost(sink.port)], { spool });
    await send();
    await expect
      .poll(() => lines.some((line) => line['msg'] === 'Cannot record outcomes; delivery waits'), waiting)
      .toBe(true);
    await send({ recipients: ['later@x.test'] });
    expect(delivery.metrics()).toMatchObject({ inHand: 1, unrecorded: 1 });
    expect(sink.messages).toHaveLength(1);
    isBroken = false;
    await expect.poll(() => countsOf(spool), waiting).toEqual({ queued: 0, failed: 0 });
    expect(sink.messages).toHaveLength(2);
  });

  test.each([
    ['did not hear of it', false],
    ['has done it, and did not come to say so', true],
  ])('is asked again to take a message back where it %s, and the message leaves once', async (_name, isDone) => {
    const sink = await startSink();
    const spool = new MemorySpool(clock);
    const release = spool.release.bind(spool);
    let asked = 0;
    spool.release = async (...args) => {
      asked += 1;
      if (asked > 1 || isDone) await release(...args);
      if (asked === 1) throw new Error('no answer');
    };
    const { send, delivery } = await run([smarthost(sink.port)], { spool });
    // It is given back, because its claim would not last for an attempt.
    await send({ acceptedAt: now - leaseMilliseconds + 1000, expiresAt: now + 1000 });
    await expect.poll(() => asked, waiting).toBe(1);
    await delivery.start({ takesOver: false });
    await expect.poll(() => countsOf(spool), waiting).toEqual({ queued: 0, failed: 0 });
    expect(sink.messages).toHaveLength(1);
  });
});

describe('shutdown', () => {
  test('goes on trying to record outcomes for as long as it may', async () => {
    const sink = await startSink();
    const spool = new MemorySpool(clock);
    const record = spool.record.bind(spool);
    let tries = 0;
    spool.record = (records) => {
      tries += 1;
      return tries < 4 ? Promise.reject(new Error('away')) : record(records);
    };
    const { send, delivery } = await run([smarthost(sink.port)], { spool });
    await send();
    await expect.poll(() => tries, waiting).toBe(1);
    await delivery.drain(30_000);
    expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
  });

  test('ends all the same where they cannot be recorded, and tells whose mail is sent again', async () => {
    const sink = await startSink();
    const spool = new MemorySpool(clock);
    spool.record = () => Promise.reject(new Error('away'));
    const { send, delivery, lines } = await run([smarthost(sink.port)], { spool });
    const { id } = await send();
    await expect.poll(() => delivery.metrics().unrecorded, waiting).toBe(1);
    // Both end, the one that had more time, too.
    await Promise.all([delivery.drain(3_600_000), delivery.drain(100)]);
    const told = lines.filter(({ msg }) => String(msg).includes('recorded'));
    expect(told).toContainEqual(expect.objectContaining({ id, recipient: 'bob@example.org', outcome: 'delivered' }));
    expect(told).toContainEqual(expect.objectContaining({ outcomes: 1 }));
  });

  test('lets what is under way end, and leaves the rest due in the spool', async () => {
    const sink = await startSink({ slowMilliseconds: 150 });
    const { send, delivery, spool, events } = await run([smarthost(sink.port, { connections: 1 })]);
    await Promise.all(Array.from({ length: 20 }, (_, index) => send({ recipients: [`slow+${index}@x.test`] })));
    await expect.poll(() => sink.commands.filter((line) => line === 'DATA').length, waiting).toBeGreaterThan(0);
    await delivery.drain(30_000);
    const counts = await countsOf(spool);
    expect(events.every((event) => event.kind === 'delivered')).toBe(true);
    expect(events.length).toBeGreaterThan(0);
    expect(counts.queued).toBe(20 - events.length);
    expect(sink.messages).toHaveLength(events.length);
    expect(await claimAny(spool, { now, limit: 100, claimUntil: now + 1 })).toHaveLength(counts.queued);
    expect(delivery.metrics()).toMatchObject({ inHand: 0, connections: 0, contentBytes: 0 });
  });

  test('breaks off at its deadline what does not end, and defers it', async () => {
    const sink = await startSink({ slowMilliseconds: 60_000 });
    const { send, delivery, events, spool } = await run([smarthost(sink.port, { connections: 1 })]);
    const entry = await send({ recipients: ['slow@x.test'] });
    await expect.poll(() => sink.commands.length, waiting).toBeGreaterThan(2);
    await delivery.drain(50);
    expect(events.map((event) => event.reply.text)).toEqual(['Postern is shutting down']);
    expect((await spool.show(entry.id))?.recipients[0]).toMatchObject({ state: 'queued', attempts: 1 });
  });

  test('a message handed over afterwards stays due in the spool', async () => {
    const sink = await startSink();
    const { send, delivery, spool } = await run([smarthost(sink.port)]);
    await delivery.drain(0);
    await send();
    await expect.poll(() => claimAny(spool, { now, limit: 10, claimUntil: now + 1 }), waiting).toHaveLength(1);
    expect(sink.connections).toBe(0);
  });

  test('does not wait for a next hop that says nothing', async () => {
    const sockets = new Set<Socket>();
    const silent = createServer((socket) => sockets.add(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = silent.address();
    const { send, delivery, spool } = await run([
      smarthost(typeof address === 'object' && address !== null ? address.port : 0),
    ]);
    await send();
    await expect.poll(() => sockets.size, waiting).toBe(1);
    await delivery.drain(30_000);
    expect(delivery.metrics()).toMatchObject({ inHand: 0, connections: 0 });
    await expect.poll(() => claimAny(spool, { now, limit: 10, claimUntil: now + 1 }), waiting).toHaveLength(1);
    // The connection that was being opened is gone, too.
    const [socket] = sockets;
    socket?.resume();
    await expect.poll(() => socket?.readableEnded, waiting).toBe(true);
    for (const open of sockets) open.destroy();
    await new Promise((resolve) => silent.close(resolve));
  });

  test('without a start is quick and may be repeated', async () => {
    const { delivery } = await run([{ name: 'default', type: 'capture', folder, platformSignature: true }]);
    await delivery.drain(0);
    await delivery.drain(0);
  });
});

describe('capture', () => {
  test('makes one file of a message, whoever gets it', async () => {
    const { send, outcomes, spool } = await run([capture()]);
    const entry = await send({ recipients: ['a@x.test', 'blind@x.test'], reversePath: 'b+t@bounces.platform.example' });
    expect(await outcomes(2)).toEqual(['a delivered 250', 'blind delivered 250']);
    const file = readFileSync(join(folder, 'capture/new', `${entry.id}.eml`));
    const leaves = Buffer.concat([entry.head, entry.body]).toString();
    expect(file.toString()).toBe(`Return-Path: <b+t@bounces.platform.example>\r\n${leaves}`);
    expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
  });

  test('that cannot be written defers, and comes later', async () => {
    writeFileSync(join(folder, 'capture'), 'a file');
    const { send, outcomes, delivery, spool } = await run([capture()]);
    await delivery.start();
    const entry = await send();
    expect(await outcomes(1)).toEqual(['bob deferred 451']);
    expect((await spool.show(entry.id))?.recipients[0]?.lastReply?.text).toMatch(/^Cannot capture the message: /);
    rmSync(join(folder, 'capture'));
    now += 60_000;
    await outcomes(2);
    expect(readdirSync(join(folder, 'capture/new'))).toEqual([`${entry.id}.eml`]);
  });

  test('takes many at once', async () => {
    const { send, outcomes } = await run([capture()]);
    await Promise.all(Array.from({ length: 100 }, () => send()));
    await outcomes(100);
    expect(readdirSync(join(folder, 'capture/new'))).toHaveLength(100);
  });
});

test('a claim that would not last for an attempt is given back', async () => {
  const sink = await startSink();
  const { send, spool, delivery } = await run([smarthost(sink.port)]);
  await send({ acceptedAt: now - leaseMilliseconds + 1000, expiresAt: now + 1000 });
  await expect.poll(() => delivery.metrics().inHand, waiting).toBe(0);
  expect(sink.messages).toHaveLength(0);
  await expect.poll(() => claimAny(spool, { now, limit: 10, claimUntil: now + 1 }), waiting).toHaveLength(1);
});
