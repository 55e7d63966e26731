// What one account can take of what all share, with mail for next hops that take connections and say nothing for minutes, and
// for domains whose name servers are silent: the mail of another account is delivered meanwhile.

import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { DnsName } from '../../support/dns-server.ts';
import { FaultSink } from '../../support/fault-sink.ts';
import { type MxDeliveryChanges, runMxDelivery } from '../../support/mx-delivery.ts';
import { spoolEntry } from '../../support/spool-entry.ts';

/** A server at 127.0.0.2 that takes connections and says nothing; one at 127.0.0.3, at the same port, that works. */
async function peers() {
  const held = new Set<Socket>();
  const silent = createServer((socket) => {
    held.add(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.2', resolve));
  onTestFinished(() => {
    for (const socket of held) socket.destroy();
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;
  const sink = await FaultSink.start({ host: '127.0.0.3', port });
  onTestFinished(() => sink.close());
  return { held, sink, port };
}

/** Domains whose exchangers say nothing, each a next hop of its own; and `good.test`. */
function domains(count: number): Record<string, DnsName> {
  const names: Record<string, DnsName> = { 'good.test': { a: ['127.0.0.3'] } };
  for (let at = 0; at < count; at += 1) names[`hang${at}.test`] = { a: ['127.0.0.2'] };
  return names;
}

async function start(count: number, changes: Partial<MxDeliveryChanges> = {}) {
  const { held, sink, port } = await peers();
  const run = await runMxDelivery(domains(count), { port, mtaSts: false, clockRuns: true, ...changes });
  const delivered = (): number => run.events.filter(({ kind }) => kind === 'delivered').length;
  return { ...run, held, sink, delivered };
}

/** A message that waits in the spool, due at once, and in nobody's hand. */
async function queue({ spool }: Pick<Awaited<ReturnType<typeof start>>, 'spool'>, account: string, domain: string) {
  const now = Date.now();
  await spool.add(
    spoolEntry({ account, acceptedAt: now, expiresAt: now + 432_000_000, recipients: [`a@${domain}`] }),
    0,
  );
}

test('of the messages that are taken from the spool', async () => {
  const run = await start(700, { allConnections: 1000 });
  for (let at = 0; at < 700; at += 1) await queue(run, 'greedy', `hang${at}.test`);
  await run.delivery.start();
  await expect.poll(() => run.held.size, { timeout: 10_000 }).toBeGreaterThan(300);
  await expect.poll(() => run.delivery.metrics().inHand, { timeout: 10_000 }).toBeGreaterThan(400);
  await queue(run, 'other', 'good.test');
  await expect.poll(run.delivered, { timeout: 10_000 }).toBe(1);
});

test('of the connections to all next hops', async () => {
  const run = await start(60, { allConnections: 20 });
  for (let at = 0; at < 60; at += 1) await run.send([`a@hang${at}.test`], { account: 'greedy' });
  await expect.poll(() => run.held.size).toBeGreaterThanOrEqual(18);
  await run.send(['a@good.test'], { account: 'other' });
  await expect.poll(run.delivered, { timeout: 10_000 }).toBe(1);
  expect(run.held.size).toBeLessThan(60);
});

test('of the memory for what is read from the spool', async () => {
  const run = await start(10, { contentBytes: 1 });
  const body = Buffer.alloc(16 * 1024 * 1024 - 2000, 'x');
  for (let at = 0; at < 4; at += 1) await run.send([`a@hang${at}.test`], { account: 'greedy', body });
  await expect.poll(() => run.held.size).toBeGreaterThan(1);
  await run.send(['a@good.test'], { account: 'other', body: Buffer.alloc(20_000, 'y') });
  await expect.poll(run.delivered, { timeout: 10_000 }).toBe(1);
});

test('of the questions to name servers', async () => {
  const run = await start(0);
  for (let at = 0; at < 400; at += 1) {
    run.dns.names.set(`silent${at}.test`, { fails: 'silence' });
    await run.send([`a@silent${at}.test`], { account: 'greedy' });
  }
  // The questions of one account for a domain are not those of another for the same domain.
  await run.send(['b@good.test'], { account: 'greedy' });
  await run.send(['a@good.test'], { account: 'other' });
  const delivered = () => run.events.some(({ kind, account }) => kind === 'delivered' && account === 'other');
  await expect.poll(delivered, { timeout: 15_000 }).toBe(true);
  // Nobody had to wait until the silent ones were given up.
  expect(run.events.filter(({ kind }) => kind === 'deferred').length).toBeLessThan(400);
});
