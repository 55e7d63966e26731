// The embedded database under the contract of engines, and what belongs to SQLite on a thread of its own: locks of other
// programs, a full disk, transactions that do not end, the end of the thread.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { openSqliteFile } from '../../../src/base/database/sqlite-file.ts';
import { Unavailable } from '../../../src/base/errors.ts';
import { databaseContract } from '../../contract/database.ts';
import { engines, openTestDatabase } from '../../support/engines.ts';
import { holdLock } from '../../support/lock-holder.ts';
import { scratchFolder } from '../../support/scratch.ts';

for (const engine of engines) databaseContract(engine);

const tables = { owner: 'test', steps: ['CREATE TABLE numbers (n INTEGER)'] };
const add = 'INSERT INTO numbers VALUES ($1)';
const count = 'SELECT count(*) AS count FROM numbers';

test('a lock of another process holds changes up for the patience, and neither questions nor this thread', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const database = await openTestDatabase(file, { patienceMs: 300 });
  await database.migrate(tables);
  await database.run(add, [1]);
  const holder = await holdLock(file);
  onTestFinished(() => holder.release());

  const order: string[] = [];
  const refused = [
    database.run(add, [2]),
    database.transaction((one) => one.run(add, [3])),
    database.run(add, [4]),
  ].map(async (asked) => {
    const error: unknown = await asked.catch((thrown: unknown) => thrown);
    order.push('put off');
    return error;
  });
  let answered = 0;
  while (order.length === 0) {
    expect(await database.query(count)).toEqual([{ count: 1 }]);
    answered += 1;
  }
  for (const error of await Promise.all(refused)) {
    expect(error).toBeInstanceOf(Unavailable);
    expect(error).toMatchObject({ reason: 'store', message: 'Another program holds the lock on the database' });
  }
  // One that waited for the lock would be answered when the first change is put off, and no other before that.
  expect(answered).toBeGreaterThan(2);
  expect(order).toEqual(['put off', 'put off', 'put off']);
  expect(holder.isHolding()).toBe(true);

  const waiting = database.run(add, [5]);
  await holder.release();
  expect(await waiting).toBe(1);
  expect(await database.query(count)).toEqual([{ count: 2 }]);
});

test.each(['', '-wal', '-shm'])(
  'no change is answered that is lost with this process: postern.db%s',
  async (ending) => {
    const file = join(scratchFolder(), 'postern.db');
    const database = await openTestDatabase(file);
    await database.migrate(tables);
    await database.run(add, [1]);
    expect(await database.query(count)).toEqual([{ count: 1 }]);
    renameSync(`${file}${ending}`, `${file}.aside`);
    const removed = { reason: 'store', message: expect.stringContaining(`postern.db${ending}" `) };
    await expect(database.run(add, [2])).rejects.toMatchObject(removed);
    await expect(database.transaction((one) => one.run(add, [3]))).rejects.toMatchObject(removed);
    await expect(database.runWith({ sql: add, params: [4] }, [])).rejects.toMatchObject(removed);
    expect(database.unavailable).toBeInstanceOf(Unavailable);
    expect(await database.query(count)).toEqual([{ count: 1 }]);

    renameSync(`${file}.aside`, `${file}${ending}`);
    await expect.poll(() => database.unavailable, { timeout: 10_000 }).toBeUndefined();
    expect(await database.run(add, [5])).toBe(1);

    // It goes while a transaction is open: what is committed then is not answered as kept.
    const committed = database.transaction(async (one) => {
      await one.run(add, [6]);
      rmSync(`${file}${ending}`);
    });
    await expect(committed).rejects.toMatchObject(removed);
  },
);

test('a file that is damaged in one place makes the database unavailable until what is there can be read', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const database = await openTestDatabase(file);
  await database.migrate({ owner: 'test', steps: ['CREATE TABLE numbers (n INTEGER)', 'CREATE TABLE texts (t TEXT)'] });
  await database.run('INSERT INTO texts VALUES ($1)', ['x'.repeat(100_000)]);
  new DatabaseSync(file).exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const whole = readFileSync(file);
  // It stays open: closing it would release the locks of this process.
  const descriptor = openSync(file, 'r+');
  const texts = 'SELECT t FROM texts';
  writeSync(descriptor, Buffer.alloc(whole.length - 40_960, 1), 0, null, 40_960);
  const damaged = { reason: 'store', message: expect.stringMatching(/malformed: stop Postern, .*postern db check/) };
  await expect(database.query(texts)).rejects.toMatchObject(damaged);
  expect(database.unavailable).toMatchObject(damaged);
  // Another table can be changed meanwhile, which does not end it.
  expect(await database.run(add, [1])).toBe(1);
  await new Promise((wait) => setTimeout(wait, 600));
  expect(database.unavailable).toMatchObject(damaged);

  writeSync(descriptor, whole, 0, null, 0);
  await expect.poll(() => database.unavailable, { timeout: 10_000 }).toBeUndefined();
  expect(await database.query(texts)).toEqual([{ t: 'x'.repeat(100_000) }]);
});

test('a wrong index of a search fails the search, and stops nothing else', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const database = await openTestDatabase(file);
  await database.migrate({ owner: 'test', steps: ['CREATE VIRTUAL TABLE words USING fts5(word)'] });
  await database.run('INSERT INTO words VALUES ($1)', ['hello']);
  const other = new DatabaseSync(file, { defensive: false });
  other.exec('DELETE FROM words_content');
  await expect(database.query("SELECT word FROM words WHERE words MATCH 'hello'")).rejects.toThrow(Unavailable);
  expect(database.unavailable).toBeUndefined();
});

test('while another process holds the lock the database is unavailable to whoever was refused, and no longer', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const database = await openTestDatabase(file, { patienceMs: 300 });
  await database.migrate(tables);
  const holder = await holdLock(file);
  onTestFinished(() => holder.release());
  expect(database.unavailable).toBeUndefined();
  const known = database.run(add, [1]).catch(() => database.unavailable);
  expect(await known).toMatchObject({ name: 'Unavailable', reason: 'store' });
  const seen = new Set<boolean>();
  for (let turn = 0; turn < 20; turn += 1) {
    seen.add(database.unavailable === undefined);
    await new Promise((wait) => setTimeout(wait, 50));
  }
  expect(seen).toEqual(new Set([false]));
  await holder.release();
  await vi.waitFor(() => expect(database.unavailable).toBeUndefined(), 5000);
  expect(await database.query(count)).toEqual([{ count: 0 }]);
});

test('a transaction that does not end is undone, what it asks for then is refused, and the next one begins', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const database = await openTestDatabase(file, { transactionMs: 500, patienceMs: 5000 });
  await database.migrate(tables);
  let late: Promise<number> | undefined;
  const gate = Promise.withResolvers<void>();
  const endless = database.transaction(async (transaction) => {
    await transaction.run(add, [1]);
    await gate.promise;
    late = transaction.run(add, [2]);
    await late;
  });
  const next = database.transaction((transaction) => transaction.run(add, [3]));
  await expect(endless).rejects.toThrow('A transaction took longer than 500 ms and was undone');
  expect(await next).toBe(1);
  gate.resolve();
  await vi.waitFor(() => expect(late).toBeDefined());
  await expect(late).rejects.toThrow('The transaction has ended');
  expect(await database.query('SELECT n FROM numbers')).toEqual([{ n: 3 }]);
});

test('what waits behind a transaction for longer than the patience is put off', async () => {
  const database = await openTestDatabase(join(scratchFolder(), 'postern.db'), { patienceMs: 100 });
  await database.migrate(tables);
  const gate = Promise.withResolvers<void>();
  const first = database.transaction(() => gate.promise);
  const error: unknown = await database.run(add, [1]).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(Unavailable);
  expect(error).toMatchObject({ reason: 'store', message: 'Other changes of the database took too long' });
  gate.resolve();
  await first;
  expect(await database.run(add, [1])).toBe(1);
});

test('a full database refuses changes as room that is missing, and takes them again once there is room', async () => {
  const database = await openTestDatabase(join(scratchFolder(), 'postern.db'));
  await database.migrate({ owner: 'test', steps: ['CREATE TABLE texts (t TEXT)'] });
  // SQLite's own bound gives the very error of a full disk.
  const [pages] = await database.query('PRAGMA page_count');
  await database.query(`PRAGMA max_page_count = ${Number(pages?.['page_count']) + 2}`);
  const insert = 'INSERT INTO texts VALUES ($1)';
  const large = 'x'.repeat(100_000);
  const single: unknown = await database.run(insert, [large]).catch((thrown: unknown) => thrown);
  expect(single).toBeInstanceOf(Unavailable);
  expect(single).toMatchObject({ reason: 'room', message: expect.stringContaining('full') });
  const several = await Promise.allSettled([database.run(insert, ['a']), database.run(insert, [large])]);
  expect(several[1]).toMatchObject({ status: 'rejected', reason: { reason: 'room' } });
  const whole = database.transaction(async (transaction) => {
    await transaction.run(insert, ['b']);
    await transaction.run(insert, [large]).catch(() => undefined);
    await transaction.run(insert, ['c']);
  });
  // SQLite may have undone it all by then: then nothing may be kept, else everything but the large one.
  const isKept = await whole.then(
    () => true,
    () => false,
  );
  await database.query('PRAGMA max_page_count = 100000');
  const kept = (await database.query('SELECT t FROM texts ORDER BY t')).map(({ t }) => t);
  const a = several[0]?.status === 'fulfilled' ? ['a'] : [];
  expect(kept).toEqual([...a, ...(isKept ? ['b', 'c'] : [])]);
  expect(await database.run(insert, [large])).toBe(1);
});

test('the end of the thread is told once, fails what is under way and everything after it', async () => {
  const lost: Error[] = [];
  const started = once(process, 'worker');
  const database = await openDatabase(join(scratchFolder(), 'postern.db'), { onLost: (error) => lost.push(error) });
  await database.migrate(tables);
  await database.run(add, [1]);
  const gate = Promise.withResolvers<void>();
  const transaction = database.transaction(() => gate.promise);
  await database.query(count);
  const asked = [transaction, database.run(add, [2])].map((one) => expect(one).rejects.toThrow('thread ended'));
  const [worker]: unknown[] = await started;
  if (!(worker instanceof Worker)) throw new Error('No thread was started');
  await worker.terminate();
  await Promise.all(asked);
  await expect(database.query(count)).rejects.toThrow("The database's thread ended unexpectedly");
  expect(lost).toMatchObject([{ message: "The database's thread ended unexpectedly" }]);
  await database.close();
  const again = await openTestDatabase(join(scratchFolder(), 'postern.db'));
  await again.migrate(tables);
  expect(await again.query(count)).toEqual([{ count: 0 }]);
});

const asNobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
const withoutRight = {
  'the folder, in which nothing may be written': { modes: [0o555, 0o600], names: 'data' },
  'the file, which may not be written': { modes: [0o755, 0o444], names: 'data/postern.db' },
  'the file, which may not be read': { modes: [0o755, 0o200], names: 'data/postern.db' },
  'the log beside it, which somebody else has made': { modes: [0o755, 0o600, 0o000], names: 'data/postern.db-wal' },
} as const;

test.each(Object.entries(withoutRight))('a database is not opened for want of a right to %s', (_, { modes, names }) => {
  const parent = scratchFolder();
  const places = ['data', 'data/postern.db', 'data/postern.db-wal'].map((name) => join(parent, name));
  const [folder = '', file = ''] = places;
  openSqliteFile(file).close();
  if (modes.length > 2) writeFileSync(`${file}-wal`, '');
  const { uid, gid } = asNobody;
  for (const place of [parent, ...places.slice(0, modes.length)]) if (uid !== undefined) chownSync(place, uid, gid);
  for (const [at, mode] of [...modes.entries()].toReversed()) chmodSync(places[at] ?? '', mode);
  const open = 'const { [process.argv[1]]: use } = await import(process.argv[2]); use(process.argv[3])';
  const users = { openSqliteFile: 'base/database/sqlite-file.ts', lookAtSource: 'spool/move/source-file.ts' };
  // What is moved may be looked at where it cannot be written, but for its folder.
  const all = Object.entries(users).slice(0, names === 'data' ? 2 : 1);
  const ends = all.map(([name, path]) => {
    const source = new URL(`../../../src/${path}`, import.meta.url).href;
    return spawnSync(process.execPath, ['-e', open, name, source, file], { ...asNobody, encoding: 'utf8' });
  });
  chmodSync(folder, 0o755);
  const told = `Cannot open (?:database )?".*postern.db": .*; this user \\(uid \\d+\\) may not (?:read|write) ".*/${names}" \\(EACCES\\)\n`;
  for (const { status, stderr } of ends) expect([status, stderr]).toEqual([1, expect.stringMatching(new RegExp(told))]);
});

test('of a damaged database no right is told that is missing to write it', () => {
  const folder = scratchFolder();
  const file = join(folder, 'postern.db');
  openSqliteFile(file).close();
  const octets = readFileSync(file);
  octets.fill(0xff, 100);
  writeFileSync(file, octets);
  const { uid, gid } = asNobody;
  for (const place of [folder, file]) if (uid !== undefined) chownSync(place, uid, gid);
  chmodSync(file, 0o444);
  const look = 'const { lookAtSource } = await import(process.argv[1]); lookAtSource(process.argv[2])';
  const source = new URL('../../../src/spool/move/source-file.ts', import.meta.url).href;
  const { status, stderr } = spawnSync(process.execPath, ['-e', look, source, file], {
    ...asNobody,
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([1, expect.stringMatching(/Cannot open ".*postern.db": .*malformed.*\n/)]);
  expect(stderr).not.toContain('may not');
});

test('a file that cannot be opened is named, and the file made is for its owner alone', async () => {
  const folder = scratchFolder();
  await expect(openDatabase(folder)).rejects.toThrow(`Cannot open database "${folder}"`);
  const file = join(folder, 'data', 'postern.db');
  const database = await openTestDatabase(file);
  await database.migrate(tables);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(`${file}-wal`).mode & 0o777).toBe(0o600);
});

test('a commit waits for the disk, and does not where what is written need not be durable', async () => {
  const synced = async (options: object): Promise<unknown> => {
    const database = await openTestDatabase(join(scratchFolder(), 'postern.db'), options);
    await database.migrate(tables);
    expect(await database.runWith({ sql: add, params: [1] }, [])).toBeGreaterThanOrEqual(0);
    expect(await database.query(count)).toEqual([{ count: 1 }]);
    return await database.transaction((connection) => connection.query('PRAGMA synchronous'));
  };
  expect(await synced({})).toEqual([{ synchronous: 2 }]); // FULL
  expect(await synced({ isDurable: false })).toEqual([{ synchronous: 1 }]); // NORMAL
});
