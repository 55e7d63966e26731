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
import { silentLog } from '../src/base/log.ts';
import { Delivery } from '../src/delivery/delivery.ts';
import type { Spool, SpoolEntry } from '../src/spool/spool.ts';
import { leaseMilliseconds } from '../src/spool/spool-limits.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { FaultSink } from '../test/support/fault-sink.ts';
import { countsOf } from '../test/support/spool-counts.ts';
import { measureOutage } from './queue-drain.ts';
import { entryOf, fillQueue, routeTo, storeCosts } from './queue-store.ts';

function deliveryTo(spool: Spool, port: number): Delivery {
  const retry = { firstDelaySeconds: 60, maxDelaySeconds: 14_400, jitter: 0.2, expireAfterSeconds: 432_000 };
  const settings = { hostname: 'bench.test', routes: [routeTo(port)], retry };
  return new Delivery({ spool, settings, clock: systemClock, log: silentLog });
}

function delivered(spool: Spool, onDelivered: (queueId: string) => void): void {
  spool.events.listen((event) => {
    if (event.kind === 'delivered') onDelivered(event.queueId);
  });
}

/** How long one account's single messages take, alone and beside another's burst. */
async function fairness(burst: number, singles: number, slowMilliseconds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-queue-'));
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db') });
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
  const { queued } = await countsOf(spool);
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
    fillQueue(file, Number(rows));
    const { insert, claim, turns } = storeCosts(file, Number(rows));
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
