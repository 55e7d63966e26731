// What the pages of the console cost while much waits: what waits by destination, pages of messages of an account that has few beside one
// that has many, an action on many, and the overview of a day. `npm run bench:console -- --rows 1000000`.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../src/base/clock.ts';
import { openDatabase } from '../src/base/database/sqlite-database.ts';
import { openSqliteFile } from '../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { encodeEvent } from '../src/spool/encoded-event.ts';
import { openFigureStore } from '../src/spool/figures/figure-store.ts';
import type { Spool, SpoolEntry } from '../src/spool/spool.ts';
import { acceptedEvent } from '../src/spool/spool-events.ts';
import { SpoolLock } from '../src/spool/sqlite/file/sqlite-lock.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { SqliteStore, type WriteOperation } from '../src/spool/sqlite/sqlite-store.ts';
import { actOnSelection } from '../src/web/admin/queue/queue-actions.ts';
import { createQueueLines } from '../src/web/admin/queue/queue-groups.ts';
import { findSelected } from '../src/web/admin/queue/queue-selection.ts';

const { values } = parseArgs({ options: { rows: { type: 'string', default: '100000' } } });
const rows = Number(values.rows);
const folder = mkdtempSync(join(tmpdir(), 'postern-bench-console-'));
const file = join(folder, 'postern.db');
const head = Buffer.from('From: alice@example.com\r\n\r\n');
const body = Buffer.from('x\r\n');

function added(account: string, index: number): WriteOperation {
  const id = uuidv7(Date.now());
  const domain = `d${index % 100}.test`;
  const entry: SpoolEntry = {
    ...{ id, account, credential: 'default', sessionId: 'bench', messageId: `<${id}@platform.example>` },
    ...{ reversePath: 'b@bounces.platform.example', senderPath: 'a@example.com', smtputf8: false, requireTls: false },
    ...{ recipients: [`a@${domain}`], transports: [`out#1/${domain}`], acceptedAt: Date.now() },
    ...{ expiresAt: Date.now() + 432_000_000, head, body },
  };
  const { head: _, body: _body, ...meta } = entry;
  const octets = { head: new Uint8Array(head), body: new Uint8Array(body) };
  return {
    kind: 'add',
    args: [{ entry: meta, event: encodeEvent(acceptedEvent(entry)), claimUntil: 0, size: 100, ...octets }],
  };
}

function fill(): void {
  const database = openSqliteFile(file);
  const lock = new SpoolLock(file);
  const store = new SqliteStore({ database, lock, bodies: `${file}-bodies` });
  for (let done = 0; done < rows; done += 2000) {
    store.write(Array.from({ length: Math.min(2000, rows - done) }, (_, index) => added('many', done + index)));
  }
  store.write(Array.from({ length: 100 }, (_, index) => added('few', index)));
  database.close();
  lock.close();
}

/** The times of some calls in milliseconds: the middle one and the longest. */
async function timed(name: string, turns: number, work: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  for (let turn = 0; turn < turns; turn += 1) {
    const begun = performance.now();
    await work();
    times.push(performance.now() - begun);
  }
  times.sort((one, other) => one - other);
  const told = [times[times.length >> 1], times.at(-1)].map((ms = 0) => ms.toFixed(1));
  process.stdout.write(`${name}: p50 ${told[0]} ms, longest ${told[1]} ms\n`);
}

async function queue(spool: Spool): Promise<void> {
  const routeOf = (): string => 'out';
  const parts = { spool, routeOf };
  await timed('what waits, by line', 5, () => spool.waiting(10_000));
  const many = { account: 'many' };
  await timed('a page of 50 of the account with many', 50, () => findSelected(parts, many, { limit: 50 }));
  let requests = 0;
  const begun = performance.now();
  let after: string | undefined;
  do {
    requests += 1;
    const page = await findSelected(parts, { account: 'few' }, { limit: 50, after });
    after = page.selected.length > 0 ? undefined : page.next;
  } while (after !== undefined);
  const all = performance.now() - begun;
  process.stdout.write(
    `the first page of the account with few, behind the many: ${requests} requests, ${(all / requests).toFixed(1)} ms each\n`,
  );
  const lines = createQueueLines(spool, systemClock);
  const acting = {
    ...parts,
    lines,
    clock: systemClock,
    newTimes: () => ({ now: Date.now(), expiresAt: Date.now() + 1e8 }),
  };
  const actor = { account: 'many', isOperator: false, by: 'console many/bench' };
  const { done } = await actOnSelection('retry', { destination: 'd7.test' }, { parts: acting, actor });
  process.stdout.write(`one request to retry a hundredth of them: ${done} messages\n`);
}

async function overview(): Promise<void> {
  const database = await openDatabase(join(folder, 'figures.db'));
  const store = await openFigureStore(database);
  for (let minute = 0; minute < 1440; minute += 1) {
    await store.add(
      Array.from({ length: 60 }, (_, index) => ({ account: 'dev', minute, name: `latency ${index}`, count: 1 })),
    );
  }
  await timed('figures of an hour', 50, () => store.read({ account: 'dev', since: 1380, step: 1 }));
  await timed('figures of a day', 20, () => store.read({ account: 'dev', since: 0, step: 12 }));
  await timed('writing 60 figures', 50, () =>
    store.add(
      Array.from({ length: 60 }, (_, index) => ({ account: 'dev', minute: 1440, name: `latency ${index}`, count: 1 })),
    ),
  );
  await database.close();
}

try {
  fill();
  const spool = await SqliteSpool.open({ file });
  await queue(spool);
  await spool.close();
  await overview();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
