// A route whose mail goes to several next hops: each has its own connections, and one that is down holds up none of the others.

import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { DueRecipient, Task } from '../../src/deliver/job.ts';
import { newJob } from '../../src/deliver/job.ts';
import type { NextHop, NextHops } from '../../src/deliver/next-hop.ts';
import type { SmarthostRoute } from '../../src/deliver/settings.ts';
import { smarthostHops } from '../../src/deliver/smarthost.ts';
import type { RecipientResult } from '../../src/deliver/smtp/smtp-client.ts';
import { defaultTimeouts } from '../../src/deliver/smtp/smtp-timeouts.ts';
import { SmtpTransport } from '../../src/deliver/smtp-transport.ts';
import { TransportShare } from '../../src/deliver/transport-share.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { logLines } from '../support/log-lines.ts';
import { spoolEntry } from '../support/spool-entry.ts';

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
  const hop = await smarthostHops({ ...route, port }, own).find('');
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

function transportOver(hops: NextHops) {
  const told: string[] = [];
  const transport = new SmtpTransport({
    route,
    hops,
    host: { load: () => false, isStale: () => false, giveBack: () => undefined },
    events: {
      finish: (task: Task, results: readonly RecipientResult[], host: string) =>
        told.push(
          `${task.recipients[0]?.address} ${results[0]?.kind} ${results[0]?.reply.code} ${host.replace('127.0.0.1:', '')}`,
        ),
      giveBack: (task: Task) => told.push(`${task.recipients[0]?.address} given back`),
    },
    clock: { monotonic: () => performance.now() },
    log: logLines().log,
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
    'x@down.test deferred 451 out (down)',
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
