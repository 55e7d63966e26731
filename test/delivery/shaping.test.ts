// Who is served first and how much a next hop is given: a real spool, real sockets.

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Delivery } from '../../src/delivery/delivery.ts';
import { transportOf } from '../../src/delivery/router.ts';
import type { SmarthostRoute } from '../../src/delivery/settings.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import type { Spool, SpoolEntry } from '../../src/spool/spool.ts';
import { leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { FaultSink, type FaultSinkOptions } from '../support/fault-sink.ts';
import { logLines } from '../support/log-lines.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

const retry = { firstDelaySeconds: 60, maxDelaySeconds: 14_400, jitter: 0, expireAfterSeconds: 432_000 };
const waiting = { timeout: 20_000, interval: 10 };
let folder = '';
let now = someTime;
let closers: (() => unknown)[] = [];
const clock = { now: () => now, monotonic: () => now };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-shaping-'));
  now = someTime;
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

function routeTo(port: number, changes: Partial<SmarthostRoute> = {}): SmarthostRoute {
  return {
    ...{ name: 'out', type: 'smarthost', host: '127.0.0.1', port, tls: 'none', tlsVerify: false },
    ...{ connections: 4, platformSignature: true },
    ...changes,
  };
}

interface Running {
  readonly spool: Spool;
  readonly delivery: Delivery;
  readonly events: OutcomeEvent[];
  readonly lines: Record<string, unknown>[];
  readonly entry: (changes?: Partial<SpoolEntry>) => SpoolEntry;
  readonly send: (changes?: Partial<SpoolEntry>) => Promise<SpoolEntry>;
}

async function run(route: SmarthostRoute): Promise<Running> {
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), clock });
  closers.push(() => spool.close());
  const { log, lines } = logLines();
  const delivery = new Delivery({
    spool,
    settings: { hostname: 'gateway.test', routes: [route], retry },
    clock,
    log,
  });
  closers.push(() => delivery.drain(0));
  const events: OutcomeEvent[] = [];
  spool.events.listen((event) => {
    if (event.kind === 'delivered' || event.kind === 'deferred' || event.kind === 'failed') events.push(event);
  });
  const lane = transportOf({ routes: [route] });
  const entry: Running['entry'] = (changes = {}) => {
    const made = spoolEntry({ acceptedAt: now, expiresAt: now + 432_000_000, ...changes });
    return { ...made, transports: made.recipients.map((address) => lane({ account: made.account, address })) };
  };
  const send: Running['send'] = async (changes) => {
    const made = entry(changes);
    await spool.add(made, now + leaseMilliseconds);
    delivery.deliverNow(made);
    return made;
  };
  return { spool, delivery, events, lines, entry, send };
}

test('an account’s burst in hand stands before another’s message for one turn only', async () => {
  const sink = await startSink({ slowMilliseconds: 20 });
  const { send } = await run(routeTo(sink.port));
  for (let count = 0; count < 300; count += 1) await send({ account: 'many', recipients: [`slow+${count}@x.test`] });
  const before = sink.messages.length;
  await send({ account: 'few', recipients: ['few@x.test'] });
  await expect.poll(() => sink.messages.some(({ recipients }) => recipients[0] === 'few@x.test'), waiting).toBe(true);
  const place = sink.messages.findIndex(({ recipients }) => recipients[0] === 'few@x.test');
  // Four connections, each with a message under way and one behind it.
  expect(place - before).toBeLessThanOrEqual(12);
});

test('where accounts share a next hop, one that has nothing under way waits for no connection', async () => {
  const sink = await startSink({ slowMilliseconds: 100 });
  const { send, events } = await run(routeTo(sink.port));
  // Both have been there, so that one connection is kept for whoever comes.
  await send({ account: 'few' });
  await send({ account: 'many' });
  await expect.poll(() => events.length, waiting).toBe(2);
  for (let count = 0; count < 40; count += 1) await send({ account: 'many', recipients: [`slow+${count}@x.test`] });
  await expect.poll(() => sink.messages.length, waiting).toBeGreaterThanOrEqual(5);
  const connections = new Set(sink.messages.slice(2).map(({ connection }) => connection));
  expect(connections.size).toBe(3);
  await send({ account: 'few', recipients: ['few@x.test'] });
  const first = (): number | undefined =>
    sink.messages.find(({ recipients }) => recipients[0] === 'few@x.test')?.connection;
  await expect.poll(first, waiting).toBeDefined();
  expect(connections).not.toContain(first());
});

test('an account’s long queue in the spool stands before another’s message for one turn only', async () => {
  const sink = await startSink();
  const { spool, delivery, entry } = await run(routeTo(sink.port, { connections: 1 }));
  await Promise.all(Array.from({ length: 5000 }, () => spool.add(entry({ account: 'many' }), 0)));
  await spool.add(entry({ account: 'few', recipients: ['few@x.test'] }), 0);
  now += 1;
  await delivery.start();
  await expect.poll(() => sink.messages.some(({ recipients }) => recipients[0] === 'few@x.test'), waiting).toBe(true);
  const place = sink.messages.findIndex(({ recipients }) => recipients[0] === 'few@x.test');
  expect(place).toBeLessThanOrEqual(300);
});

test('a hold stops what waits in memory, keeps what comes, and lets it go on afterwards', async () => {
  const sink = await startSink({ slowMilliseconds: 50 });
  const { spool, delivery, send, events } = await run(routeTo(sink.port, { connections: 1 }));
  await delivery.start();
  for (let count = 0; count < 40; count += 1) await send({ account: 'held', recipients: [`slow+${count}@x.test`] });
  await spool.addHold({ kind: 'account', value: 'held', at: now, by: 'test', why: '' });
  const open = (): number => delivery.metrics().inHand + delivery.metrics().unrecorded;
  await expect.poll(open, waiting).toBe(0);
  const before = events.length;
  expect(before).toBeLessThan(40);
  await send({ account: 'held' });
  await send({ account: 'free', recipients: ['free@x.test'] });
  await expect.poll(() => events.at(-1)?.account, waiting).toBe('free');
  expect(events).toHaveLength(before + 1);
  await spool.liftHold({ kind: 'account', value: 'held' });
  now += 1;
  await expect.poll(() => events.length, waiting).toBe(42);
  expect(new Set(events.map(({ kind }) => kind))).toEqual(new Set(['delivered']));
});

test('a hold that comes and goes while messages are claimed loses none and sends none twice', async () => {
  const sink = await startSink({ slowMilliseconds: 2 });
  const { spool, delivery, entry, events } = await run(routeTo(sink.port));
  await Promise.all(
    Array.from({ length: 400 }, (_, index) => spool.add(entry({ recipients: [`slow+${index}@x.test`] }), 0)),
  );
  await delivery.start();
  const rule = { kind: 'destination', value: 'x.test' } as const;
  const step = (): number => {
    now += 10;
    return events.length;
  };
  for (let turn = 0; turn < 30; turn += 1) {
    await spool.addHold({ ...rule, at: now, by: 'test', why: '' });
    step();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await spool.liftHold(rule);
    step();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await expect.poll(step, waiting).toBe(400);
  expect(new Set(sink.messages.map(({ recipients }) => recipients[0])).size).toBe(400);
  expect(sink.messages).toHaveLength(400);
});

/**
 * A next hop that takes no message before it has several connections, and then answers each with 421; resolves to its port and what
 * it has open.
 */
async function start421(): Promise<{ readonly port: number; readonly most: () => number }> {
  const open = new Set<Socket>();
  let most = 0;
  const server = createServer((socket) => {
    open.add(socket);
    most = Math.max(most, open.size);
    socket.on('close', () => open.delete(socket)).on('error', () => undefined);
    socket.write('220 busy.test\r\n');
    socket.on('data', (octets) => {
      if (/^EHLO/i.test(octets.toString('latin1'))) socket.write('250 busy.test\r\n');
      else if (most > 1) socket.end('421 4.7.0 Too many messages, slow down\r\n');
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  const address = server.address();
  return { port: typeof address === 'object' && address ? address.port : 0, most: () => most };
}

test('a next hop that answers everything with 421 is given less and less, and then nothing for a while', async () => {
  const busy = await start421();
  const { send, events, delivery, lines } = await run(routeTo(busy.port, { connections: 8 }));
  for (let count = 0; count < 60; count += 1) await send({ recipients: [`a${count}@x.test`] });
  const settled = (): string | undefined => {
    now += 100;
    return delivery.destinations()[0]?.trouble;
  };
  await expect.poll(settled, waiting).toBeDefined();
  await expect.poll(() => (settled(), delivery.destinations()[0]?.allowed), waiting).toBe(1);
  expect(busy.most()).toBeLessThanOrEqual(8);
  expect(delivery.destinations()[0]?.lastWords?.code).toBe(421);
  expect(lines.some(({ msg }) => msg === 'next hop is given less')).toBe(true);
  expect(events.every(({ kind }) => kind === 'deferred')).toBe(true);
});

test('a connection carries no more messages than allowed', async () => {
  const sink = await startSink();
  const limits = { messagesPerConnection: 5 };
  const { send, events } = await run(routeTo(sink.port, { connections: 1, limits }));
  for (let count = 0; count < 20; count += 1) await send();
  await expect.poll(() => events.length, waiting).toBe(20);
  const perConnection = Map.groupBy(sink.messages, ({ connection }) => connection);
  expect([...perConnection.values()].map((messages) => messages.length)).toEqual([5, 5, 5, 5]);
});

test('no more messages begin in a second than allowed', async () => {
  const sink = await startSink();
  const { send, events, delivery } = await run(routeTo(sink.port, { limits: { messagesPerSecond: 10 } }));
  for (let count = 0; count < 25; count += 1) await send();
  await expect.poll(() => events.length, waiting).toBe(10);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(events).toHaveLength(10);
  now += 1000;
  await expect.poll(() => events.length, waiting).toBe(20);
  expect(delivery.metrics().inHand).toBe(5);
});

test('mail that expires while its next hop is down is given up with that one’s words', async () => {
  const { spool, delivery, events, entry } = await run(routeTo(1));
  await Promise.all(Array.from({ length: 300 }, () => spool.add(entry(), 0)));
  await delivery.start();
  await expect.poll(() => delivery.destinations()[0]?.trouble, waiting).toBe('down');
  now += 432_000_000;
  const failed = (): number => {
    now += 1000;
    return events.filter(({ kind }) => kind === 'failed').length;
  };
  await expect.poll(failed, waiting).toBe(300);
  const last = events.findLast(({ kind }) => kind === 'failed');
  expect(last?.reply).toMatchObject({ enhanced: '4.4.7' });
  expect(last?.reply.text).toContain('ECONNREFUSED');
});
