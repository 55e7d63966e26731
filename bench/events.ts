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
import { silentLog } from '../src/base/log.ts';
import { LeaseStore } from '../src/delivery/webhooks/lease-store.ts';
import { Poster } from '../src/delivery/webhooks/post.ts';
import { makeSecret } from '../src/delivery/webhooks/secret.ts';
import { WebhookSender } from '../src/delivery/webhooks/sender.ts';
import { openWebhookStore } from '../src/delivery/webhooks/webhook-store.ts';
import { createAddressGuard } from '../src/delivery/webhooks/webhook-url.ts';
import { defaultEventLimits } from '../src/spool/events/event-store.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { fillEvents, searches } from './events-store.ts';

const wanted = Number(process.argv[2] ?? 1_000_000);
const account = 'a1'.repeat(16);
const folder = mkdtempSync(join(tmpdir(), 'postern-bench-'));
const file = join(folder, 'postern.db');
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
    leases: new LeaseStore({ database, holder: 'bench' }),
    changes: database.changes,
    events: spool.events,
    poster: new Poster({ refuse: createAddressGuard({ allowNetworks: ['127.0.0.0/8'] }), timeoutMs: 10_000 }),
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
const spool = await SqliteSpool.open({ file, eventLimits: { ...defaultEventLimits, mail: wanted * 2 } });
try {
  const first = await fillEvents(spool, 0, wanted / 100);
  const few = await searches(spool, began);
  const rest = await fillEvents(spool, wanted / 200, wanted - wanted / 100);
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
