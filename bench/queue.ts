// What a long queue costs while its next hop is down: inserts and claims beside it, memory, the start, and what is drained when
// the next hop is back; and how long one account's message takes beside another's burst. Wants smtp-sink (Debian package postfix).
// `npm run bench:queue -- --help` tells the options. Costs are CPU time of this process, so that others on the machine count
// as little as possible; the memory is that of a Postern of its own.

import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../src/base/clock.ts';
import { openSqliteFile } from '../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { silentLog } from '../src/base/log.ts';
import { createDelivery, type Delivery } from '../src/deliver/delivery.ts';
import { transportOf } from '../src/deliver/router.ts';
import type { Route } from '../src/deliver/settings.ts';
import { leaseMilliseconds } from '../src/spool/lease.ts';
import { packEvent } from '../src/spool/packed-event.ts';
import type { Spool, SpoolEntry } from '../src/spool/spool.ts';
import { acceptedEvent } from '../src/spool/spool-events.ts';
import { SpoolLock } from '../src/spool/sqlite/file/sqlite-lock.ts';
import type { WriteOperation } from '../src/spool/sqlite/sqlite-protocol.ts';
import { openSqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { SqliteStore } from '../src/spool/sqlite/sqlite-store.ts';
import { FaultSink } from '../test/support/fault-sink.ts';
import { drainedRoute, measureOutage } from './queue-drain.ts';

const head = Buffer.from(`From: alice@example.com\r\nSubject: ${'x'.repeat(200)}\r\n\r\n`);
const body = Buffer.alloc(500, 'A line of text.\r\n');

function routeTo(port: number): Route {
  return {
    ...{ name: drainedRoute, type: 'smarthost', host: '127.0.0.1', port, tls: 'none', tlsVerify: false },
    ...{ connections: 10, platformSignature: true },
  };
}

const lane = transportOf([routeTo(1)])({ account: 'dev', address: 'a@x.test' });

function entryOf(account: string): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return {
    ...{ id, account, credential: 'default', sessionId: 'bench', messageId: `<${id}@platform.example>` },
    ...{ reversePath: 'b@bounces.platform.example', senderPath: 'alice@example.com', smtputf8: false },
    ...{ requireTls: false, recipients: ['a@x.test'], transports: [lane], acceptedAt: now },
    ...{ expiresAt: now + 432_000_000, head, body },
  };
}

function addOf(entry: SpoolEntry, claimUntil: number): WriteOperation {
  const { head: _, body: _body, ...meta } = entry;
  const octets = { head: new Uint8Array(head), body: new Uint8Array(body) };
  return { kind: 'add', entry: meta, event: packEvent(acceptedEvent(entry)), claimUntil, size: 700, ...octets };
}

/** CPU time in microseconds for each of so many pieces of work. */
function cost(pieces: number, work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / pieces;
}

function openStore(file: string): { readonly store: SqliteStore; readonly close: () => void } {
  const database = openSqliteFile(file);
  database.exec('PRAGMA wal_autocheckpoint = 4000');
  const lock = new SpoolLock(`${file}-spool.lock`);
  const store = new SqliteStore({ database, lock, bodies: `${file}-bodies` });
  return {
    store,
    close: () => {
      database.close();
      lock.close();
    },
  };
}

/** Puts so many messages of one account into the queue, all due. */
function fill(file: string, count: number): void {
  const { store, close } = openStore(file);
  for (let done = 0; done < count; done += 2000) {
    const size = Math.min(2000, count - done);
    store.write(Array.from({ length: size }, () => addOf(entryOf('many'), 0)));
  }
  close();
}

/** The CPU cost of an insert, in groups of fifty, and of a claimed message, in claims of 256. */
function storeCosts(file: string): { readonly insert: number; readonly claim: number; readonly turns: number } {
  const { store, close } = openStore(file);
  const groups = 100;
  const insert = cost(groups * 50, () => {
    for (let group = 0; group < groups; group += 1) {
      store.write(Array.from({ length: 50 }, () => addOf(entryOf('few'), Date.now() + leaseMilliseconds)));
    }
  });
  const now = Date.now();
  const claims = 16;
  const claim = cost(claims * 256, () => {
    for (let count = 0; count < claims; count += 1) {
      const query = { transport: lane, account: 'many', limit: 256, now, claimUntil: now + leaseMilliseconds };
      store.write([{ kind: 'claimDue', ...query }]);
    }
  });
  const turns = cost(1000, () => {
    for (let count = 0; count < 1000; count += 1) store.write([{ kind: 'turns', transport: lane, now, limit: 256 }]);
  });
  close();
  return { insert, claim, turns };
}

function deliveryTo(spool: Spool, port: number): Delivery {
  const retry = { firstDelaySeconds: 60, factor: 2, maxDelaySeconds: 14_400, jitter: 0.2, expireAfterSeconds: 432_000 };
  const settings = { hostname: 'bench.test', routes: [routeTo(port)], retry };
  return createDelivery({ spool, settings, clock: systemClock, log: silentLog });
}

function delivered(spool: Spool, onDelivered: (queueId: string) => void): void {
  spool.events.listen((event) => {
    if (event.kind === 'delivered') onDelivered(event.queueId);
  });
}

/** How long one account's single messages take, alone and beside another's burst. */
async function fairness(burst: number, singles: number, slowMilliseconds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-queue-'));
  const spool = await openSqliteSpool({ file: join(folder, 'postern.db') });
  const sink = await FaultSink.start({ slowMilliseconds });
  const delivery = deliveryTo(spool, sink.port);
  await delivery.start();
  const waiting = new Map<string, () => void>();
  delivered(spool, (queueId) => waiting.get(queueId)?.());
  const send = async (entry: SpoolEntry): Promise<void> => {
    await spool.add(entry, Date.now() + leaseMilliseconds);
    delivery.deliverNow(entry);
  };
  const slow = (account: string): SpoolEntry => ({ ...entryOf(account), recipients: ['slow@x.test'] });
  const single = async (): Promise<number> => {
    const entry = slow('few');
    const began = performance.now();
    const done = new Promise<void>((resolve) => waiting.set(entry.id, resolve));
    await send(entry);
    await done;
    return performance.now() - began;
  };
  const measure = async (): Promise<string> => {
    const times: number[] = [];
    for (let count = 0; count < singles; count += 1) {
      times.push(await single());
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    times.sort((left, right) => left - right);
    const at = (part: number): string => (times[Math.floor((times.length - 1) * part)] ?? 0).toFixed(0);
    return `p50 ${at(0.5)} ms, p90 ${at(0.9)} ms`;
  };
  await single();
  const alone = await measure();
  for (let done = 0; done < burst; done += 500)
    await Promise.all(Array.from({ length: 500 }, () => send(slow('many'))));
  const beside = await measure();
  const { queued } = await spool.counts();
  process.stdout.write(`one message alone: ${alone}; beside ${queued} of another account: ${beside}\n`);
  await delivery.drain(0);
  await spool.close();
  await sink.close();
  rmSync(folder, { recursive: true, force: true });
}

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000,1000000' },
    drained: { type: 'string', default: '20000' },
    burst: { type: 'string', default: '50000' },
    singles: { type: 'string', default: '30' },
    slow: { type: 'string', default: '50' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(
    '--rows 10000,...  messages queued   --drained N  delivered once the next hop is back   --burst N  of another account ' +
      '(0: not measured)   --singles N  messages beside it   --slow MS  that the next hop takes for each\n',
  );
} else {
  process.stdout.write(
    '| queued | insert µs | claim µs | turns µs | index built anew s | database MiB |\n|---|---|---|---|---|---|\n',
  );
  for (const rows of values.rows.split(',').filter(Boolean)) {
    const folder = mkdtempSync(join(tmpdir(), 'postern-bench-queue-'));
    const file = join(folder, 'data/postern.db');
    mkdirSync(join(folder, 'data'));
    fill(file, Number(rows));
    const { insert, claim, turns } = storeCosts(file);
    const database = openSqliteFile(file);
    const began = performance.now();
    // The step that brings an older database up to date does this, and nothing else that grows with the queue.
    database.exec(`DROP INDEX spool_due; CREATE INDEX spool_due
      ON spool_recipients (line, attempts > 0, max(next_attempt_at, claimed_until)) WHERE state = 0`);
    const indexSeconds = (performance.now() - began) / 1000;
    database.close();
    const mebibytes = Math.round(statSync(file).size / 2 ** 20);
    const figures = [insert.toFixed(0), claim.toFixed(0), turns.toFixed(1), indexSeconds.toFixed(2), mebibytes];
    process.stdout.write(`| ${Number(rows).toLocaleString('en')} | ${figures.join(' | ')} |\n`);
    await measureOutage(folder, Math.min(Number(values.drained), Number(rows)));
  }
  if (Number(values.burst) > 0) await fairness(Number(values.burst), Number(values.singles), Number(values.slow));
}
