// The store under the thread: one transaction a batch, failures of the disk, the lock.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type DatabaseSync, openDatabase } from '../../src/base/database.ts';
import { SpoolLock } from '../../src/spool/sqlite-lock.ts';
import type { WriteOperation } from '../../src/spool/sqlite-protocol.ts';
import { SqliteStore } from '../../src/spool/sqlite-store.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

let folder = '';
let database: DatabaseSync;
let lock: SpoolLock;
let store: SqliteStore;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-store-'));
  database = openDatabase(join(folder, 'postern.db'));
  lock = new SpoolLock(join(folder, 'lock'));
  store = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
});

afterEach(() => {
  database.close();
  lock.close();
  rmSync(folder, { recursive: true, force: true });
});

function add(bodyLength: number, id?: string): WriteOperation {
  const { head, body: _, ...entry } = spoolEntry(id === undefined ? {} : { id });
  return { kind: 'add', entry, claimUntil: 0, size: 0, head, body: new Uint8Array(bodyLength) };
}

const counts = () => store.read({ kind: 'counts' });

test('a batch is one transaction', () => {
  const statements: string[] = [];
  const exec = database.exec.bind(database);
  database.exec = (sql) => {
    statements.push(sql);
    exec(sql);
  };
  const { outcomes } = store.write([add(10), add(10), { kind: 'claimDue', now: someTime, limit: 5, claimUntil: 1 }]);
  expect(outcomes.every((outcome) => 'value' in outcome)).toBe(true);
  expect(statements).toEqual(['BEGIN IMMEDIATE', 'COMMIT']);
});

test('an operation that fails leaves nothing of itself, and the others whole', () => {
  const twice = add(10, 'a-message-that-comes-twice');
  const { outcomes } = store.write([add(10), twice, twice, add(10)]);
  expect(outcomes.map((outcome) => 'value' in outcome)).toEqual([true, true, false, true]);
  expect(counts()).toEqual({ value: { queued: 3, failed: 0 } });
});

test('a full disk refuses what does not fit and takes what does, then and later', () => {
  const pages = Number(database.prepare('PRAGMA page_count').get()?.['page_count']);
  database.exec(`PRAGMA max_page_count = ${pages + 12}`);
  const { outcomes } = store.write([add(20_000), add(200_000), add(100)]);
  expect(outcomes[1]).toEqual({ error: { message: 'database or disk is full', code: 'ERR_SQLITE_ERROR' } });
  expect('value' in (outcomes[0] ?? {}) && 'value' in (outcomes[2] ?? {})).toBe(true);
  expect(counts()).toEqual({ value: { queued: 2, failed: 0 } });
  database.exec(`PRAGMA max_page_count = ${pages + 1000}`);
  expect('value' in (store.write([add(200_000)]).outcomes[0] ?? {})).toBe(true);
});

test('a database that another holds for too long is waited for once, and is an error, not a crash', () => {
  database.exec('PRAGMA busy_timeout = 0');
  let begun = 0;
  const exec = database.exec.bind(database);
  database.exec = (sql) => {
    begun += Number(sql === 'BEGIN IMMEDIATE');
    exec(sql);
  };
  const other = openDatabase(join(folder, 'postern.db'));
  other.exec('BEGIN IMMEDIATE');
  const { outcomes } = store.write([add(10), add(10), add(10)]);
  other.exec('ROLLBACK');
  other.close();
  const locked = { error: { message: 'database is locked', code: 'ERR_SQLITE_ERROR' } };
  expect(outcomes).toEqual([locked, locked, locked]);
  expect(begun).toBe(1);
  expect('value' in (store.write([add(10)]).outcomes[0] ?? {})).toBe(true);
});

test('a question that fails is an error, not a crash', () => {
  database.exec('DROP TABLE spool_recipients');
  expect(counts()).toMatchObject({ error: { code: 'ERR_SQLITE_ERROR' } });
});

test('the lock tells the lone worker from others', () => {
  const other = new SpoolLock(join(folder, 'lock'));
  let ran = 0;
  const work = (): void => void (ran += 1);
  expect(lock.whileAlone(work)).toBe(true);
  other.hold();
  expect(lock.whileAlone(work)).toBe(false);
  expect(other.whileAlone(work)).toBe(false);
  other.close();
  expect(lock.whileAlone(work)).toBe(true);
  expect(ran).toBe(2);
});

test('the lock survives work that fails', () => {
  expect(() => lock.whileAlone(() => add(-1))).toThrow('Invalid typed array length');
  expect(lock.whileAlone(() => undefined)).toBe(true);
});
