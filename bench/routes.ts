// Whether routes stand on their own: what a claim costs beside a long queue of another route, and how long an honest
// message takes from its acceptance to the next hop's 250 while one next hop refuses connections and another never
// greets. `npm run bench:routes -- --help` tells the options.

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../src/base/clock.ts';
import { openSqliteFile } from '../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { silentLog } from '../src/base/log.ts';
import { Delivery } from '../src/delivery/delivery.ts';
import { transportOf } from '../src/delivery/router.ts';
import type { Route } from '../src/delivery/settings.ts';
import { encodeEvent } from '../src/spool/encoded-event.ts';
import type { SpoolEntry } from '../src/spool/spool.ts';
import { acceptedEvent } from '../src/spool/spool-events.ts';
import { leaseMilliseconds } from '../src/spool/spool-limits.ts';
import { SpoolLock } from '../src/spool/sqlite/file/sqlite-lock.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { SqliteStore } from '../src/spool/sqlite/sqlite-store.ts';
import { FaultSink } from '../test/support/fault-sink.ts';

const head = Buffer.from(`From: alice@example.com\r\nSubject: ${'x'.repeat(900)}\r\n\r\n`);
const body = Buffer.alloc(3000, 'A line of text.\r\n');

function entryTo(address: string, transport: string): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return {
    ...{ id, account: 'dev', credential: 'default', sessionId: 'bench', messageId: `<${id}@platform.example>` },
    ...{
      reversePath: 'b@bounces.platform.example',
      senderPath: 'alice@example.com',
      smtputf8: false,
      requireTls: false,
    },
    ...{ recipients: [address], transports: [transport], acceptedAt: now, expiresAt: now + 432_000_000, head, body },
  };
}

function percentile(sorted: readonly number[], part: number): string {
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0).toFixed(1);
}

function fresh(): { readonly folder: string; readonly file: string; readonly remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-routes-'));
  return { folder, file: join(folder, 'postern.db'), remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** A claim of ten messages of one transport, and of the next 256 of another in which so many wait. */
function claims(queued: number): void {
  const { folder, file, remove } = fresh();
  const database = openSqliteFile(file);
  const lock = new SpoolLock(file);
  const store = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
  const add = (count: number, transport: string): void => {
    for (let done = 0; done < count; done += 5000) {
      const entries = Array.from({ length: Math.min(5000, count - done) }, () => entryTo('a@x.test', transport));
      store.write(
        entries.map((entry) => ({
          kind: 'add',
          args: [
            {
              entry,
              event: encodeEvent(acceptedEvent(entry)),
              claimUntil: 0,
              size: 100,
              head: new Uint8Array(9),
              body: new Uint8Array(9),
            },
          ],
        })),
      );
    }
  };
  add(queued, 'dead');
  add(200, 'live');
  const time = (transport: string, limit: number): string => {
    const times = Array.from({ length: 20 }, () => {
      const began = performance.now();
      const now = Date.now();
      store.write([
        { kind: 'claimDue', args: [{ transport, account: 'dev', limit, now, claimUntil: now + leaseMilliseconds }] },
      ]);
      return performance.now() - began;
    }).toSorted((left, right) => left - right);
    return percentile(times, 0.5);
  };
  const [live, dead, nobody] = [time('live', 10), time('dead', 256), time('nobody', 256)];
  const began = performance.now();
  store.write([{ kind: 'strays', args: [{ now: Date.now(), limit: 1000, transports: ['live'] }] }]);
  const strays = (performance.now() - began).toFixed(1);
  process.stdout.write(`| ${queued.toLocaleString('en')} | ${live} | ${dead} | ${nobody} | ${strays} |\n`);
  database.close();
  lock.close();
  remove();
}

async function silentHop(): Promise<{ readonly port: number; readonly close: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { port: typeof address === 'object' && address ? address.port : 0, close };
}

/** Milliseconds from the call that adds an honest message to its next hop's 250, one message after another. */
async function latency(queued: number, honest: number): Promise<void> {
  const { folder, file, remove } = fresh();
  const [sink, silent] = [await FaultSink.start(), await silentHop()];
  const to = (name: string, port: number, domain?: string): Route => ({
    ...{ name, type: 'smarthost', host: '127.0.0.1', port, tls: 'none', tlsVerify: false, connections: 10 },
    ...{ platformSignature: true, ...(domain ? { match: { recipientDomains: [domain] } } : {}) },
  });
  const routes = [to('dead', 1, 'dead.test'), to('silent', silent.port, 'silent.test'), to('honest', sink.port)];
  const name = transportOf({ routes });
  const entry = (address: string): SpoolEntry => entryTo(address, name({ account: 'dev', address }));
  const spool = await SqliteSpool.open({ file, bodiesFolder: join(folder, 'bodies') });
  for (const address of ['a@dead.test', 'a@silent.test']) {
    for (let done = 0; done < queued; done += 5000) {
      await Promise.all(Array.from({ length: Math.min(5000, queued - done) }, () => spool.add(entry(address), 0)));
    }
  }
  const waiting = new Map<string, () => void>();
  const delivery = new Delivery({
    settings: {
      ...{ hostname: 'bench.test', routes },
      retry: { firstDelaySeconds: 60, maxDelaySeconds: 14_400, jitter: 0.2, expireAfterSeconds: 432_000 },
    },
    ...{ spool, clock: systemClock, log: silentLog },
  });
  spool.events.listen((event) => {
    if (event.kind === 'delivered') waiting.get(event.queueId)?.();
  });
  await delivery.start();
  // Fresh mail to the silent one besides, more than its share.
  for (let count = 0; count < Math.min(queued, 5000); count += 1) {
    const more = entry('a@silent.test');
    await spool.add(more, Date.now() + leaseMilliseconds);
    delivery.deliverNow(more);
  }
  const times: number[] = [];
  for (let count = 0; count < honest; count += 1) {
    const message = entry('bob@honest.test');
    const began = performance.now();
    const done = new Promise<void>((resolve) => waiting.set(message.id, resolve));
    await spool.add(message, Date.now() + leaseMilliseconds);
    delivery.deliverNow(message);
    await done;
    times.push(performance.now() - began);
    waiting.delete(message.id);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  times.sort((left, right) => left - right);
  const { inHand, deferred, delivered } = delivery.metrics();
  const figures = [percentile(times, 0.5), percentile(times, 0.99), percentile(times, 1), inHand, delivered, deferred];
  process.stdout.write(`| ${queued.toLocaleString('en')} | ${figures.join(' | ')} |\n`);
  await delivery.drain(0);
  await spool.close();
  await sink.close();
  silent.close();
  remove();
}

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000,100000,1000000' },
    queued: { type: 'string', default: '0,100000' },
    honest: { type: 'string', default: '300' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(
    '--rows 10000,...  rows of another transport   --queued 0,...  due for each bad hop   --honest N  messages\n',
  );
} else {
  process.stdout.write(
    '| rows of another transport | claim of 10 ms | claim of 256 from the long one ms | empty claim ms | strays ms |\n',
  );
  process.stdout.write('|---|---|---|---|---|\n');
  for (const rows of values.rows.split(',').filter(Boolean)) claims(Number(rows));
  process.stdout.write('\n| due for each bad hop | p50 ms | p99 ms | longest ms | in hand | delivered | deferred |\n');
  process.stdout.write('|---|---|---|---|---|---|---|\n');
  for (const queued of values.queued.split(',').filter(Boolean)) await latency(Number(queued), Number(values.honest));
}
