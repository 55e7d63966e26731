// What events cost with very many of them: written, searched, and told to a webhook. node bench/events.ts [EVENTS]
// Prints microseconds for an event written, milliseconds for each search at the size and at a hundredth of it, and how fast
// and with how much memory an endpoint takes 100,000 of them.

import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/base/clock.ts';
import { openDatabase } from '../src/base/database/sqlite-database.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { silentLog } from '../src/base/log.ts';
import { defaultEventLimits, type EventSearch } from '../src/events/event-store.ts';
import type { SpoolEntry } from '../src/spool/spool.ts';
import { outcomeEvent } from '../src/spool/spool-events.ts';
import { openSqliteSpool, type SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { LeaseStore } from '../src/webhooks/lease-store.ts';
import { createPoster } from '../src/webhooks/post.ts';
import { makeSecret } from '../src/webhooks/secret.ts';
import { WebhookSender } from '../src/webhooks/sender.ts';
import { openWebhookStore } from '../src/webhooks/webhook-store.ts';
import { createAddressGuard } from '../src/webhooks/webhook-url.ts';

const wanted = Number(process.argv[2] ?? 1_000_000);
const account = 'a1'.repeat(16);
const host = 'default (mx.example:25)';
const folder = mkdtempSync(join(tmpdir(), 'postern-bench-'));
const file = join(folder, 'postern.db');
const batch = 250;

function entryOf(number: number): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return {
    ...{ id, account: 'dev', credential: 'default', sessionId: id.slice(-12), messageId: `<${id}@platform.example>` },
    ...{ clientMessageId: `<${number}@client.example>`, reversePath: 'b+token@bounces.platform.example' },
    ...{
      senderPath: `sender-${number % 50}@example.com`,
      recipients: [`user-${(number * 7919) % 300_000}@example.net`],
    },
    ...{ smtputf8: false, requireTls: false, acceptedAt: now, expiresAt: now + 432_000_000 },
    ...{ head: Buffer.from('Subject: bench\r\n\r\n'), body: Buffer.from('Hello.\r\n') },
  };
}

/** Adds messages, each with its delivery. @returns microseconds for each event */
async function fill(spool: SqliteSpool, from: number, events: number): Promise<number> {
  const began = performance.now();
  for (let number = from; number < from + events / 2; number += batch) {
    const entries = Array.from({ length: batch }, (_, at) => entryOf(number + at));
    await Promise.all(entries.map((entry) => spool.add(entry, 0)));
    const outcomes = entries.map((entry, at) => {
      const kind = (number + at) % 1000 === 0 ? 'failed' : 'delivered';
      const outcome = { kind, reply: { code: kind === 'failed' ? 550 : 250, text: 'ok' }, host } as const;
      const recipient = entry.recipients[0] ?? '';
      return outcomeEvent(entry, { recipient, outcome, at: Date.now(), route: 'default', attempts: 1, size: 26 });
    });
    await spool.record(outcomes);
  }
  return ((performance.now() - began) * 1000) / events;
}

async function median(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 21; round += 1) {
    const began = performance.now();
    await work();
    times.push(performance.now() - began);
  }
  return times.toSorted((left, right) => left - right)[10] ?? 0;
}

async function searches(spool: SqliteSpool, began: number): Promise<Record<string, number>> {
  const middle = began + (Date.now() - began) / 2;
  const queries: Record<string, Partial<EventSearch>> = {
    newest: {},
    'failed, newest': { kinds: ['failed'] },
    recipient: { recipient: `user-${(77 * 7919) % 300_000}@example.net` },
    'client Message-ID': { clientMessageId: '77@client.example' },
    sender: { sender: 'sender-7@example.com' },
    'from the middle in time': { since: middle, order: 'oldest' },
    'of nobody': { recipient: 'nobody@example.net' },
  };
  const found: Record<string, number> = {};
  for (const [name, query] of Object.entries(queries)) {
    const time = await median(() => spool.events.search({ account: 'dev', order: 'newest', limit: 100, ...query }));
    found[name] = Math.round(time * 100) / 100;
  }
  return found;
}

async function tell(spool: SqliteSpool, events: number): Promise<Record<string, number>> {
  let got = 0;
  let most = 0;
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      got += 1;
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const database = await openDatabase(file);
  const store = await openWebhookStore(database, systemClock);
  const cursor = (await spool.events.newest()) - events;
  await store.create(
    { account, url: `http://127.0.0.1:${port}/`, kinds: undefined, note: '', secret: makeSecret() },
    cursor,
  );
  const sender = new WebhookSender({
    leases: new LeaseStore(database, 'bench'),
    changes: database.changes,
    events: spool.events,
    poster: createPoster({ refuse: createAddressGuard({ allowNetworks: ['127.0.0.0/8'] }), timeoutMs: 10_000 }),
    accountName: () => 'dev',
    fileSecrets: () => undefined,
    clock: systemClock,
    log: silentLog,
  });
  const rssBefore = process.memoryUsage.rss();
  const began = performance.now();
  await sender.start();
  const isTold = (): boolean => got >= events;
  while (!isTold()) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    most = Math.max(most, process.memoryUsage.rss());
  }
  const seconds = (performance.now() - began) / 1000;
  await sender.stop(1000);
  await database.close();
  server.closeAllConnections();
  server.close();
  return { perSecond: Math.round(events / seconds), rssGrowthMiB: Math.round((most - rssBefore) / 1_048_576) };
}

const began = Date.now();
const spool = await openSqliteSpool({ file, eventLimits: { ...defaultEventLimits, mail: wanted * 2 } });
try {
  const first = await fill(spool, 0, wanted / 100);
  const few = await searches(spool, began);
  const rest = await fill(spool, wanted / 200, wanted - wanted / 100);
  const many = await searches(spool, began);
  const megabytes = Math.round(statSync(file).size / 1e6);
  const told = await tell(spool, Math.min(100_000, wanted / 2));
  console.log(
    JSON.stringify(
      { events: wanted, usPerEvent: { first, rest }, megabytes, msPerSearch: { few, many }, told },
      null,
      1,
    ),
  );
} finally {
  await spool.close();
  rmSync(folder, { recursive: true, force: true });
}
