// A route whose mail goes to several next hops: each has its own connections, and one that is down holds up none of the others.

import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { ConnectionBudget } from '../../src/delivery/hop/connection-budget.ts';
import { wholeShares } from '../../src/delivery/hop/hop-share.ts';
import { type DueRecipient, newJob, type Task } from '../../src/delivery/job.ts';
import type { MxRoute, SmarthostRoute } from '../../src/delivery/settings.ts';
import { smarthostHops } from '../../src/delivery/smarthost.ts';
import type { NextHop, RecipientResult } from '../../src/delivery/smtp/smtp-client.ts';
import { defaultTimeouts } from '../../src/delivery/smtp/smtp-transaction.ts';
import { SmtpTransport } from '../../src/delivery/smtp-transport.ts';
import type { NextHops } from '../../src/delivery/transport.ts';
import { TransportShare } from '../../src/delivery/transport-share.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { logLines } from '../support/log-lines.ts';
import { spoolEntry } from '../support/spool-entry.ts';

type SmtpTransportParts = ConstructorParameters<typeof SmtpTransport>[0];

const waiting = { timeout: 15_000, interval: 10 };
const route: SmarthostRoute = {
  name: 'out',
  type: 'smarthost',
  host: '127.0.0.1',
  port: 1,
  tls: 'none',
  tlsVerify: false,
  connections: 2,
  platformSignature: true,
};
const share = new TransportShare(route, { name: 'out', transports: 1, contentBytes: 1000 });
let closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
});

async function startSink(greeting?: string): Promise<FaultSink> {
  const sink = await FaultSink.start(greeting === undefined ? {} : { greeting });
  closers.push(() => sink.close());
  return sink;
}

async function hopTo(key: string, port: number): Promise<NextHop> {
  const own = { hostname: 'gateway.test', timeouts: defaultTimeouts, clock: systemClock, random: Math.random };
  const hop = await smarthostHops({ ...route, port }, own).find('', undefined, 'dev');
  if ('kind' in hop) throw new Error('no hop');
  return { key, label: `out (${key})`, connect: (request) => hop.connect(request) };
}

function taskTo(address: string): Task {
  const takenAt = { wall: 0, monotonic: 0 };
  const recipients: DueRecipient[] = [{ address, attempts: 0 }];
  const entry = spoolEntry({ recipients: [address] });
  const job = newJob({ entry, share, size: 1, recipientCount: 1, isClaimed: false, takenAt, claimEndsAt: 0 });
  job.content = { head: entry.head, body: entry.body };
  return { job, recipients, deadConnections: 0 };
}

function transportOver(hops: NextHops, connections = 100, own: Partial<SmtpTransportParts> = {}) {
  const told: string[] = [];
  const transport = new SmtpTransport({
    route,
    hops,
    shares: wholeShares,
    host: { load: () => false, isStale: () => false, giveBack: () => undefined },
    events: {
      finish: (task: Task, results: readonly RecipientResult[], host: string) =>
        told.push(
          `${task.recipients[0]?.address} ${results[0]?.kind} ${results[0]?.reply.code} ${host.replace('127.0.0.1:', '')}`,
        ),
      unreached: (task, { reply, host }) => told.push(`${task.recipients[0]?.address} unreached ${reply.code} ${host}`),
      troubled: () => undefined,
      giveBack: (task: Task) => told.push(`${task.recipients[0]?.address} given back`),
    },
    limits: { connections: 2, messagesPerConnection: 100, backoffSeconds: 60 },
    limitsOf: () => undefined,
    budget: new ConnectionBudget(connections),
    room: () => 100,
    clock: { monotonic: () => performance.now() },
    log: logLines().log,
    ...own,
  });
  closers.push(() => transport.abort());
  return { transport, told };
}

test('each next hop has its own connections, and one that is down holds up none of the others', async () => {
  const [first, second] = [await startSink(), await startSink()];
  const down = await startSink('421 4.3.2 Not today');
  const hops = new Map([
    ['a.test', await hopTo('first', first.port)],
    // Two domains of the same hosts share their connections.
    ['b.test', await hopTo('second', second.port)],
    ['c.test', await hopTo('second', second.port)],
    ['down.test', await hopTo('down', down.port)],
  ]);
  const none: RecipientResult = { kind: 'failed', reply: { code: 556, enhanced: '5.1.10', text: 'Null MX' } };
  const { transport, told } = transportOver({ find: async (domain) => hops.get(domain) ?? none });
  const addresses = ['x@down.test', 'x@a.test', 'x@b.test', 'x@c.test', 'y@b.test', 'y@c.test', 'x@null.test'];
  for (const address of addresses) transport.push(taskTo(address));
  await expect.poll(() => told.length, waiting).toBe(7);
  expect(told.toSorted()).toEqual([
    `x@a.test delivered 250 out (${first.port})`,
    `x@b.test delivered 250 out (${second.port})`,
    `x@c.test delivered 250 out (${second.port})`,
    'x@down.test unreached 451 out (down)',
    'x@null.test failed 556 out',
    `y@b.test delivered 250 out (${second.port})`,
    `y@c.test delivered 250 out (${second.port})`,
  ]);
  expect(second.connections).toBeLessThanOrEqual(2);
});

test('a lookup that fails defers with its words', async () => {
  const { transport, told } = transportOver({ find: () => Promise.reject(new Error('no resolver')) });
  transport.push(taskTo('x@a.test'));
  await expect.poll(() => told, waiting).toEqual(['x@a.test deferred 451 out']);
});

test('a transport that stops gives back what looks for its next hop, once', async () => {
  const found = Promise.withResolvers<NextHop>();
  const { transport, told } = transportOver({ find: () => found.promise });
  transport.push(taskTo('x@a.test'));
  transport.stop();
  expect(told).toEqual(['x@a.test given back']);
  found.resolve(await hopTo('late', 1));
  await new Promise((resolve) => setImmediate(resolve));
  expect(told).toHaveLength(1);
  expect(transport.connections).toBe(0);
});

test('mail for a thousand next hops opens no more connections than allowed over all, and all of it arrives', async () => {
  const sink = await startSink();
  const hops = new Map<string, NextHop>();
  for (let count = 0; count < 1000; count += 1) hops.set(`d${count}.test`, await hopTo(`hop${count}`, sink.port));
  const none: RecipientResult = { kind: 'failed', reply: { code: 556, text: 'none' } };
  const { transport, told } = transportOver({ find: async (domain) => hops.get(domain) ?? none }, 20);
  for (const domain of hops.keys()) transport.push(taskTo(`x@${domain}`));
  let most = 0;
  await expect
    .poll(() => {
      most = Math.max(most, transport.connections);
      return told.length;
    }, waiting)
    .toBe(1000);
  expect(told.filter((line) => !line.includes(' delivered 250 '))).toEqual([]);
  expect(sink.messages).toHaveLength(1000);
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(20);
});

const byMx: MxRoute = {
  ...{ name: 'out', type: 'mx', port: 25, tls: { mode: 'none', verify: false }, tlsByDomain: new Map() },
  ...{ mtaSts: false, allowPrivate: [], connections: 2, platformSignature: true },
};

test('a domain whose next hop is slow to be found has a few messages in hand, and leaves room for the others', async () => {
  const found = Promise.withResolvers<NextHop>();
  const { transport, told } = transportOver({ find: () => found.promise }, 100, { route: byMx, room: () => 20 });
  for (let count = 0; count < 5; count += 1) transport.push(taskTo(`x${count}@slow.test`));
  expect(transport.admits('slow.test')).toEqual({ messages: 3 });
  for (let count = 0; count < 3; count += 1) transport.push(taskTo(`y${count}@slow.test`));
  expect(transport.admits('slow.test')).toMatchObject({ messages: 0, isDown: false });
  expect(transport.admits('other.test')).toEqual({ messages: 8 });
  for (let count = 0; count < 12; count += 1) transport.push(taskTo(`x@d${count}.test`));
  // As many look for their next hop as may be claimed beside them.
  expect(transport.admits('other.test')).toMatchObject({ messages: 0, isDown: false });
  transport.stop();
  expect(told).toHaveLength(20);
});

test('the strictest limits of the domains of a next hop count, whichever came first', async () => {
  const sink = await startSink();
  const hop = await hopTo('shared', sink.port);
  const limits = { messagesPerConnection: 100, backoffSeconds: 60 };
  const own = new Map([
    ['few.test', { ...limits, connections: 5 }],
    ['fewer.test', { ...limits, connections: 3 }],
  ]);
  const { transport, told } = transportOver({ find: async () => hop }, 100, {
    route: byMx,
    limitsOf: (domain) => own.get(domain),
  });
  const mostAfter = async (domain: string): Promise<number | undefined> => {
    const before = told.length;
    transport.push(taskTo(`x@${domain}`));
    await expect.poll(() => told.length, waiting).toBe(before + 1);
    return transport.destinations()[0]?.most;
  };
  expect(await mostAfter('any.test')).toBe(2);
  expect(await mostAfter('few.test')).toBe(5);
  expect(await mostAfter('fewer.test')).toBe(3);
  expect(await mostAfter('few.test')).toBe(3);
  expect(transport.destinations()).toMatchObject([{ key: 'shared', domains: ['any.test', 'fewer.test', 'few.test'] }]);
});

test('what looks for its next hop is given back where it falls under a hold', async () => {
  const found = Promise.withResolvers<NextHop>();
  const { transport, told } = transportOver({ find: () => found.promise }, 100, { route: byMx });
  for (const address of ['x@a.test', 'x@b.test']) transport.push(taskTo(address));
  transport.giveBackWhere((task) => task.recipients[0]?.address === 'x@a.test');
  expect(told).toEqual(['x@a.test given back']);
  found.resolve(await hopTo('up', (await startSink()).port));
  await expect.poll(() => told.length, waiting).toBe(2);
  expect(told[1]).toMatch(/^x@b\.test delivered/);
});

test('room for a connection that is not needed any more goes to the next hop behind it', async () => {
  const sink = await startSink();
  const hops = new Map([
    ['a.test', await hopTo('first', sink.port)],
    ['b.test', await hopTo('second', sink.port)],
  ]);
  const none: RecipientResult = { kind: 'failed', reply: { code: 556, text: 'none' } };
  const { transport, told } = transportOver({ find: async (domain) => hops.get(domain) ?? none }, 1);
  // The first one has the only connection and waits for another, the second one waits behind it.
  for (const address of ['slow@a.test', 'x@a.test']) transport.push(taskTo(address));
  await expect.poll(() => transport.active, waiting).toBe(1);
  transport.push(taskTo('x@b.test'));
  await expect.poll(() => transport.destinations()[1]?.waits, waiting).toBe('room');
  transport.giveBackWhere((task) => task.recipients[0]?.address === 'x@a.test');
  await expect.poll(() => told.length, waiting).toBe(2);
  expect(told.at(-1)).toMatch(/^x@b\.test delivered/);
});

test('of more connections than a next hop may have from now on, only the surplus is closed', async () => {
  const sink = await startSink();
  const hop = await hopTo('shared', sink.port);
  const limits = { connections: 4, messagesPerConnection: 100, backoffSeconds: 60 };
  const { transport, told } = transportOver({ find: async () => hop }, 100, {
    ...{ route: byMx, limits },
    limitsOf: (domain) => (domain === 'few.test' ? { ...limits, connections: 3 } : undefined),
  });
  for (let count = 0; count < 4; count += 1) transport.push(taskTo('slow@any.test'));
  await expect.poll(() => transport.active, waiting).toBe(4);
  for (let count = 0; count < 8; count += 1) transport.push(taskTo('slow@few.test'));
  await expect.poll(() => told.length, waiting).toBe(12);
  expect([sink.connections, transport.connections]).toEqual([4, 3]);
});
