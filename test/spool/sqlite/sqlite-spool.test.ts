// The spool in SQLite under the contract, and what only it has: durability, other processes, files, failures.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { openSqliteJournal } from '../../../src/spool/journal/store/sqlite-journal-store.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { eventsContract } from '../../contract/events.ts';
import { expectedMessagesContract } from '../../contract/expected-messages.ts';
import { journalContract } from '../../contract/journal.ts';
import { reportsContract } from '../../contract/reports.ts';
import { spoolContract } from '../../contract/spool.ts';
import { threadsContract } from '../../contract/threads.ts';
import { turnsContract } from '../../contract/turns.ts';
import { claimAny } from '../../support/claim-any.ts';
import { countsOf } from '../../support/spool-counts.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

let folder = '';
const lease = someTime + 3_600_000;
const large = Buffer.alloc(300 * 1024, 'large\r\n');

function newFolder(): string {
  folder = mkdtempSync(join(tmpdir(), 'postern-spool-'));
  return folder;
}

function removeFolder(): void {
  rmSync(folder, { recursive: true, force: true });
}

function openHere(): Promise<SqliteSpool> {
  return SqliteSpool.open({ file: join(folder, 'postern.db') });
}

const byText = (left: string, right: string): number => (left < right ? -1 : 1);
const bodies = (): string[] => readdirSync(join(folder, 'bodies')).toSorted(byText);

spoolContract('SQLite spool', {
  open: (clock) => SqliteSpool.open({ file: join(newFolder(), 'postern.db'), clock }),
  another: (clock) => SqliteSpool.open({ file: join(folder, 'postern.db'), clock }),
  clean: async () => removeFolder(),
});

expectedMessagesContract('SQLite spool', (onCommitted) => {
  onTestFinished(removeFolder);
  return SqliteSpool.open({ file: join(newFolder(), 'postern.db'), onCommitted });
});

eventsContract('SQLite spool', {
  open: (clock, eventLimits) => SqliteSpool.open({ file: join(newFolder(), 'postern.db'), clock, eventLimits }),
  another: (clock) => SqliteSpool.open({ file: join(folder, 'postern.db'), clock }),
  clean: async () => removeFolder(),
});

journalContract('SQLite spool', {
  open: async (clock, limits, options) => {
    const file = join(newFolder(), 'postern.db');
    const spool = await SqliteSpool.open({ file, clock, ...options });
    const caughtUp = () => spool.events.caughtUp();
    return { spool, journal: openSqliteJournal(await openDatabase(file), limits, { caughtUp }) };
  },
  clean: async () => removeFolder(),
});

reportsContract('SQLite spool', {
  open: (clock, reportLimits) => SqliteSpool.open({ file: join(newFolder(), 'postern.db'), clock, reportLimits }),
  clean: async () => removeFolder(),
});

threadsContract('SQLite spool', {
  open: (clock) => SqliteSpool.open({ file: join(newFolder(), 'postern.db'), clock }),
  clean: async () => removeFolder(),
});

turnsContract('SQLite spool', {
  open: (clock) => SqliteSpool.open({ file: join(newFolder(), 'postern.db'), clock }),
  clean: async () => removeFolder(),
});

describe('SQLite spool on disk', () => {
  beforeEach(() => void newFolder());
  afterEach(removeFolder);

  test('has everything again after it was opened anew', async () => {
    const [small, big] = [spoolEntry(), spoolEntry({ body: large })];
    const first = await openHere();
    await first.add(small, lease);
    await first.add(big, lease);
    await first.close();
    const second = await openHere();
    expect(await second.recover()).toBe(2);
    expect((await second.load(small.id))?.body.equals(small.body)).toBe(true);
    expect((await second.load(big.id))?.body.equals(large)).toBe(true);
    expect(await claimAny(second, { now: someTime, limit: 10, claimUntil: lease })).toHaveLength(2);
    await second.close();
  });

  test('keeps large bodies in files and deletes them with their message', async () => {
    const spool = await openHere();
    const entries = [spoolEntry({ body: large }), spoolEntry({ body: large }), spoolEntry()];
    for (const entry of entries) await spool.add(entry, lease);
    const [delivered, dropped] = entries;
    expect(bodies()).toEqual([delivered?.id ?? '', dropped?.id ?? ''].toSorted(byText));
    const outcome = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host: 'default' } as const;
    if (delivered) await spool.record([attemptOf(delivered, outcome)]);
    await spool.drop(dropped?.id ?? '');
    await spool.close();
    expect(bodies()).toEqual([]);
  });

  test('gives the many recipients of a message back in one look at them', async () => {
    const spool = await openHere();
    const entry = spoolEntry({ recipients: Array.from({ length: 50_000 }, (_, index) => `user-${index}@example.org`) });
    await spool.add(entry, lease);
    // A look for each would be 2,500,000,000 rows: more than the test's time.
    await spool.release(entry.id, entry.recipients);
    const [claimed] = await claimAny(spool, { now: someTime, limit: 1, claimUntil: lease });
    expect(claimed?.due).toHaveLength(50_000);
    await spool.close();
  });

  test('removes orphaned bodies at start, and no other', async () => {
    const spool = await openHere();
    const entry = spoolEntry({ body: large });
    await spool.add(entry, lease);
    writeFileSync(join(folder, 'bodies', 'left-over'), 'half a bod');
    mkdirSync(join(folder, 'bodies', 'lost+found'));
    await spool.recover();
    expect(bodies()).toEqual([entry.id, 'lost+found']);
    await spool.close();
  });

  test('says so when a body is missing that should be there', async () => {
    const spool = await openHere();
    const entry = spoolEntry({ body: large });
    await spool.add(entry, lease);
    rmSync(join(folder, 'bodies', entry.id));
    await expect(spool.load(entry.id)).rejects.toThrow(`body of message ${entry.id} is missing`);
    await spool.close();
  });

  test('refuses the same large message twice and keeps the first', async () => {
    const spool = await openHere();
    const entry = spoolEntry({ body: large });
    await spool.add(entry, lease);
    await expect(spool.add(entry, lease)).rejects.toThrow('EEXIST');
    expect((await spool.load(entry.id))?.body.length).toBe(large.length);
    await spool.close();
  });

  test('leaves no file behind when the row cannot be written', async () => {
    const spool = await openHere();
    const entry = spoolEntry();
    await spool.add(entry, lease);
    await expect(spool.add({ ...entry, body: large }, lease)).rejects.toThrow('UNIQUE');
    await spool.close();
    expect(bodies()).toEqual([]);
  });

  test('rejects, and goes on, when a body cannot be written', async () => {
    const spool = await openHere();
    writeFileSync(join(folder, 'bodies'), 'a file where the folder should be');
    await expect(spool.add(spoolEntry({ body: large }), lease)).rejects.toThrow(/EEXIST|ENOTDIR/);
    rmSync(join(folder, 'bodies'));
    await spool.add(spoolEntry({ body: large }), lease);
    await spool.close();
  });

  test('gives the room of messages that are gone back to the file system by itself', async () => {
    const spool = await openHere();
    const entries = Array.from({ length: 40 }, () => spoolEntry({ body: Buffer.alloc(200_000, 'x') }));
    await Promise.all(entries.map((entry) => spool.add(entry, lease)));
    await Promise.all(entries.map((entry) => spool.drop(entry.id)));
    const pages = (): number => {
      const database = new DatabaseSync(join(folder, 'postern.db'));
      const count = Number(database.prepare('PRAGMA page_count').get()?.['page_count']);
      database.close();
      return count;
    };
    expect(pages()).toBeGreaterThan(1900);
    await expect.poll(pages, { timeout: 15_000 }).toBeLessThan(350);
    await spool.close();
  });

  test('never makes a path of an id that is none', async () => {
    const spool = await openHere();
    await expect(spool.add(spoolEntry({ id: '../outside', body: large }), lease)).rejects.toThrow('no message id');
    await spool.close();
  });

  test('notices what a command does to the same file', async () => {
    const [server, command] = [await openHere(), await openHere()];
    const [waiting, dropped] = [spoolEntry({ acceptedAt: lease }), spoolEntry()];
    await server.add(waiting, 0);
    await server.add(dropped, 0);
    expect(await command.retryMany([{ id: waiting.id }], { now: someTime, expiresAt: lease })).toMatchObject({
      messages: 1,
    });
    expect(await command.drop(dropped.id)).toBe(true);
    expect(await countsOf(server)).toEqual({ queued: 1, failed: 0 });
    const claimed = await claimAny(server, { now: someTime, limit: 10, claimUntil: lease });
    expect(claimed.map((message) => message.entry.id)).toEqual([waiting.id]);
    await command.close();
    await server.close();
  });

  test('fails with the path when the database cannot be opened', async () => {
    mkdirSync(join(folder, 'postern.db'));
    await expect(openHere()).rejects.toThrow(`Cannot open database "${join(folder, 'postern.db')}"`);
  });

  test('rejects what is under way and all that follows when its thread dies', async () => {
    const workers: Worker[] = [];
    process.once('worker', (worker) => workers.push(worker));
    const lost: string[] = [];
    const onLost = ({ message }: Error): unknown => lost.push(message);
    const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), onLost });
    const pending = spool.add(spoolEntry(), lease);
    await workers[0]?.terminate();
    // Its commit may have been told before the thread ended.
    await Promise.allSettled([pending]);
    const reason = expect.stringContaining("The spool's thread ended unexpectedly");
    await expect(spool.add(spoolEntry(), lease)).rejects.toMatchObject({ name: 'Unavailable', message: reason });
    await expect(spool.add(spoolEntry({ body: large }), lease)).rejects.toThrow("The spool's thread ended");
    await expect(claimAny(spool, { now: 0, limit: 1, claimUntil: 1 })).rejects.toThrow("The spool's thread ended");
    await spool.close();
    expect(lost).toEqual(["The spool's thread ended unexpectedly"]);
  });

  test('is not lost when it is closed', async () => {
    const lost: unknown[] = [];
    const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), onLost: (error) => lost.push(error) });
    await spool.close();
    expect(lost).toEqual([]);
  });

  test('is readable by its owner alone, whatever the folder lets others', async () => {
    chmodSync(folder, 0o755);
    const spool = await openHere();
    await spool.add(spoolEntry({ body: large }), lease);
    const files = readdirSync(folder).filter((name) => name.startsWith('postern.db'));
    expect(files.map((name) => [name, statSync(join(folder, name)).mode & 0o077])).toEqual(
      files.map((name) => [name, 0]),
    );
    expect(files).toContain('postern.db-wal');
    expect(statSync(join(folder, 'bodies')).mode & 0o077).toBe(0);
    await spool.close();
  });
});

describe('SQLite spool and other processes', () => {
  let child: ChildProcess | undefined;
  beforeEach(() => void newFolder());
  afterEach(async () => {
    if (child && child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    removeFolder();
  });

  function start(mode: 'add' | 'work' | 'hold'): {
    readonly process: ChildProcess;
    readonly lines: string[];
    next(): Promise<unknown>;
  } {
    const script = join(import.meta.dirname, '../../support/spool-process.ts');
    const spawned = spawn(process.execPath, [script, mode, join(folder, 'postern.db')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child = spawned;
    const lines: string[] = [];
    const reader = createInterface({ input: spawned.stdout });
    reader.on('line', (line) => lines.push(line));
    return { process: spawned, lines, next: () => once(reader, 'line') };
  }

  test('has every message that it said it has after a kill -9', async () => {
    const other = start('add');
    for (let count = 0; count < 60; count += 1) await other.next();
    other.process.kill('SIGKILL');
    await once(other.process, 'close');
    const spool = await openHere();
    const kept = await countsOf(spool);
    const queued = await spool.recover();
    expect(kept).toEqual({ queued, failed: 0 });
    // A line cut short by the kill names no message.
    const promised = other.lines.filter((line) => /^\S{36} \d+$/.test(line)).map((line) => line.split(' '));
    expect(promised.length).toBeGreaterThanOrEqual(60);
    expect(queued).toBeGreaterThanOrEqual(promised.length);
    for (const [id = '', length] of promised) {
      expect((await spool.load(id))?.body.length).toBe(Number(length));
    }
    const claimed = await claimAny(spool, { now: Date.now(), limit: 100_000, claimUntil: lease });
    expect(claimed).toHaveLength(queued);
    expect(bodies()).toHaveLength(claimed.filter((message) => message.size > 256 * 1024).length);
    await spool.close();
  });

  test('has exactly one event of everything that it holds, and nothing without one, after a kill -9', async () => {
    const count = new Map<string, number>();
    for (let round = 0; round < 3; round += 1) {
      const other = start('work');
      for (let lines = 0; lines < 40; lines += 1) await other.next();
      other.process.kill('SIGKILL');
      await once(other.process, 'close');
    }
    const spool = await openHere();
    for (let after = 0, hasMore = true; hasMore; ) {
      const page = await spool.events.read({ after, limit: 1000 });
      for (const event of page.events) {
        if (!('queueId' in event)) continue;
        const key = `${event.queueId} ${event.kind}`;
        count.set(key, (count.get(key) ?? 0) + 1);
      }
      ({ next: after, hasMore } = page);
    }
    expect([...count.values()].filter((times) => times !== 1)).toEqual([]);
    const ids = (kind: string): string[] =>
      [...count.keys()].filter((key) => key.endsWith(` ${kind}`)).map((key) => key.split(' ', 1)[0] ?? '');
    const { items } = await spool.list({ limit: 100_000 });
    const kept = items.map(({ entry }) => entry.id);
    expect(kept.length).toBeGreaterThan(30);
    expect([...kept, ...ids('delivered')].toSorted(byText)).toEqual(ids('accepted').toSorted(byText));
    const attempted = items.filter(({ recipients }) => recipients[0]?.attempts === 1).map(({ entry }) => entry.id);
    expect([...attempted, ...ids('delivered')].toSorted(byText)).toEqual(ids('deferred').toSorted(byText));
    await spool.close();
  });

  test('leaves what a living process holds alone, and takes it over when that has ended', async () => {
    const other = start('hold');
    await other.next();
    const spool = await openHere();
    mkdirSync(join(folder, 'bodies'));
    writeFileSync(join(folder, 'bodies', 'being-written'), 'half a bod');
    expect(await spool.recover()).toBe(1);
    expect(await claimAny(spool, { now: Date.now(), limit: 10, claimUntil: lease })).toEqual([]);
    expect(bodies()).toEqual(['being-written']);
    other.process.kill('SIGKILL');
    await once(other.process, 'exit');
    expect(await spool.recover()).toBe(1);
    expect(await claimAny(spool, { now: Date.now(), limit: 10, claimUntil: lease })).toHaveLength(1);
    expect(bodies()).toEqual([]);
    await spool.close();
  });
});

test('content that comes faster than the index is filled does not pile up', async () => {
  const file = join(newFolder(), 'postern.db');
  const spool = await SqliteSpool.open({ file });
  const database = await openDatabase(file);
  const journal = openSqliteJournal(database, { keepDays: 30, maxOctets: 250, refusals: 10_000, copies: 10_000 });
  const octets = Buffer.from('From: alice@example.com\r\n\r\nHello.\r\n');
  const details = {
    content: 'full' as const,
    fields: [{ name: 'From', rawBytes: Buffer.from(' alice@example.com') }],
    verdicts: 'l',
    octets,
    body: octets.subarray(-8),
    timings: {},
    maxBodyOctets: 262_144,
  };
  await Promise.all(
    Array.from({ length: 1024 }, () => spool.add(spoolEntry({ acceptedAt: someTime, journal: details }), someTime)),
  );
  const counted = async (): Promise<number> => {
    const [row] = await database.query('SELECT count(*) AS n FROM journal_content');
    return Number(row?.['n']);
  };
  expect(await counted()).toBe(1024);
  // Each has its turn, in slices that grow while they are quick: 64 rows are in the index, and most of them have gone.
  for (let slice = 0; slice < 6; slice += 1) await journal.tend(someTime);
  expect(await counted()).toBeLessThan(970);
  const { waiting, octets: kept } = await journal.state();
  expect(waiting).toBeGreaterThan(0);
  while (await journal.tend(someTime));
  expect(await journal.state()).toEqual({ octets: expect.any(Number), waiting: 0 });
  expect((await journal.state()).octets).toBeLessThan(Math.min(kept, 500));
  await journal.close();
  await spool.close();
  removeFolder();
});

test('old rows of the journal go although the clock was a year ahead while those before them were written, which stay', async () => {
  const file = join(newFolder(), 'postern.db');
  const spool = await SqliteSpool.open({ file });
  const day = 86_400_000;
  const details = { content: 'none', fields: [], verdicts: '', timings: {}, maxBodyOctets: 262_144 } as const;
  const add = async (at: number): Promise<string> => {
    const entry = spoolEntry({ acceptedAt: at, journal: details });
    await spool.add(entry, someTime);
    return entry.id;
  };
  /** The rows that are left at a time. */
  const left = async (now: number): Promise<readonly string[]> => {
    const journal = openSqliteJournal(await openDatabase(file), {
      keepDays: 10,
      maxOctets: 0,
      refusals: 10_000,
      copies: 10_000,
    });
    while (await journal.tend(now));
    const { items } = await journal.list({ limit: 10 });
    await journal.close();
    return items.map(({ id }) => id);
  };
  const ahead = [await add(someTime + 365 * day), await add(someTime + 365 * day + 1)];
  await add(someTime + 9 * day);
  expect(await left(someTime + 10 * day)).toHaveLength(3);
  const last = await add(someTime + 20 * day);
  expect(await left(someTime + 20 * day)).toEqual([last, ...ahead.toReversed()]);
  expect(await left(someTime + 376 * day)).toEqual([last]);
  await spool.close();
  removeFolder();
});
