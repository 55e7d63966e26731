// The store under the thread: one transaction a batch, failures of the disk, the lock.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type DatabaseSync, migrateSqlite, openSqliteFile } from '../../../src/base/database/sqlite-file.ts';
import { encodeEvent } from '../../../src/spool/encoded-event.ts';
import type { QueuePage } from '../../../src/spool/spool.ts';
import { acceptedEvent } from '../../../src/spool/spool-events.ts';
import { type SpoolLimits, unlimited } from '../../../src/spool/spool-limits.ts';
import { SpoolLock } from '../../../src/spool/sqlite/file/sqlite-lock.ts';
import type { AddCall, EncodedOutcome } from '../../../src/spool/sqlite/sqlite-messages.ts';
import { SqliteStore, type WriteOperation } from '../../../src/spool/sqlite/sqlite-store.ts';
import { spoolMigrations } from '../../../src/spool/sqlite/sqlite-tables.ts';
import { type AccountTally, totalOf } from '../../../src/spool/tally.ts';
import { plain } from '../../support/plain-call.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

let folder = '';
let database: DatabaseSync;
let lock: SpoolLock;
let store: SqliteStore;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-store-'));
  database = openSqliteFile(join(folder, 'postern.db'));
  lock = new SpoolLock(join(folder, 'lock'));
  store = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
});

afterEach(() => {
  database.close();
  lock.close();
  rmSync(folder, { recursive: true, force: true });
});

function add(bodyLength: number, id?: string): WriteOperation {
  const made = spoolEntry(id === undefined ? {} : { id });
  const { head, body: _, ...entry } = made;
  const event = encodeEvent(acceptedEvent(made));
  return { kind: 'add', args: [{ entry, event, claimUntil: 0, size: 0, head, body: new Uint8Array(bodyLength) }] };
}

/** A failure for the one recipient of a message. */
function failed(id: string): EncodedOutcome {
  const outcome = { kind: 'failed', reply: { code: 550, text: 'no' }, host: 'default' } as const;
  const event = attemptOf(spoolEntry({ id }), outcome);
  return { queueId: id, recipient: event.recipient, ...outcome, event: encodeEvent(event) };
}

function tallies(): readonly AccountTally[] {
  const outcome = store.read({ kind: 'tallies', args: [] });
  if ('error' in outcome) throw new Error(outcome.error.message);
  return outcome.value as readonly AccountTally[];
}

const counts = () => totalOf(tallies()).messages;

test('a batch is one transaction', () => {
  const statements: string[] = [];
  const exec = database.exec.bind(database);
  database.exec = (sql) => {
    statements.push(sql);
    exec(sql);
  };
  const { outcomes } = store.write([
    add(10),
    add(10),
    { kind: 'claimDue', args: [{ transport: 'out', account: 'dev', now: someTime, limit: 5, claimUntil: 1 }] },
  ]);
  expect(outcomes.every((outcome) => 'value' in outcome)).toBe(true);
  expect(statements).toEqual(['BEGIN IMMEDIATE', 'COMMIT']);
});

test('an operation that fails leaves nothing of itself, and the others whole', () => {
  const twice = add(10, 'a-message-that-comes-twice');
  const { outcomes } = store.write([add(10), twice, twice, add(10)]);
  expect(outcomes.map((outcome) => 'value' in outcome)).toEqual([true, true, false, true]);
  expect(counts()).toEqual({ queued: 3, failed: 0 });
});

test('a full disk refuses what does not fit and takes what does, then and later', () => {
  const pages = Number(database.prepare('PRAGMA page_count').get()?.['page_count']);
  database.exec(`PRAGMA max_page_count = ${pages + 12}`);
  const { outcomes } = store.write([add(20_000), add(200_000), add(100)]);
  expect(outcomes[1]).toEqual({
    error: { message: 'database or disk is full', code: 'ERR_SQLITE_ERROR', unavailable: 'room' },
  });
  expect('value' in (outcomes[0] ?? {}) && 'value' in (outcomes[2] ?? {})).toBe(true);
  expect(counts()).toEqual({ queued: 2, failed: 0 });
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
  const other = openSqliteFile(join(folder, 'postern.db'));
  other.exec('BEGIN IMMEDIATE');
  const { outcomes, isBusy } = store.write([add(10), add(10), add(10)]);
  other.exec('ROLLBACK');
  other.close();
  const locked = { error: { message: 'database is locked', code: 'ERR_SQLITE_ERROR', unavailable: 'store' } };
  expect(isBusy).toBe(true);
  expect(outcomes).toEqual([locked, locked, locked]);
  expect(begun).toBe(1);
  expect('value' in (store.write([add(10)]).outcomes[0] ?? {})).toBe(true);
});

test('a question that fails is an error, not a crash', () => {
  database.exec('DROP TABLE spool_recipients');
  expect(store.read(plain('list', { limit: 1 }))).toMatchObject({ error: { code: 'ERR_SQLITE_ERROR' } });
});

test('the lock tells the lone worker from others', () => {
  const other = new SpoolLock(join(folder, 'lock'));
  let ran = 0;
  const work = (): void => void (ran += 1);
  expect(lock.whileAlone(work)).toBe(true);
  other.take();
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

test('the numbers of the accounts are read without a look at a message', () => {
  store.write([add(10), add(10)]);
  const plan = database.prepare('EXPLAIN QUERY PLAN SELECT * FROM spool_counts ORDER BY account').all();
  expect(plan.map(({ detail }) => detail)).toEqual(['SCAN spool_counts']);
  // With the messages gone they still tell what they were told.
  database.exec('PRAGMA foreign_keys = OFF; DELETE FROM spool_recipients; DELETE FROM spool_messages');
  expect(counts()).toEqual({ queued: 2, failed: 0 });
});

test('numbers that another program has made wrong are put right at the start', () => {
  store.write([add(10), add(10), add(10)]);
  const right = tallies();
  database.exec("UPDATE spool_counts SET queued_messages = 7 WHERE account = 'dev'");
  store.write([{ kind: 'recover', args: [someTime] }]);
  expect(tallies()).toEqual(right);
  database.exec('DELETE FROM spool_recipients WHERE message = 1; DELETE FROM spool_messages WHERE seq = 1');
  expect(counts()).toEqual({ queued: 3, failed: 0 });
  expect(store.write([{ kind: 'recover', args: [someTime] }]).outcomes).toEqual([{ value: 2 }]);
  expect(counts()).toEqual({ queued: 2, failed: 0 });
});

test('a database of a version that no release had is refused, and stays as it is', () => {
  const database = openSqliteFile(join(folder, 'between.db'));
  migrateSqlite(database, { ...spoolMigrations, steps: [spoolMigrations.steps[0] ?? '', ''] });
  expect(() => migrateSqlite(database, spoolMigrations)).toThrow('no such column: claimed_by');
  expect(database.prepare("SELECT version FROM migrations WHERE owner = 'spool'").get()).toEqual({ version: 2 });
  database.close();
});

test('a database of before the numbers were kept gets them when it is brought up to date', () => {
  store.write([add(10), add(10)]);
  const [queued, failed] = [1, 2];
  const old = openSqliteFile(join(folder, 'old.db'));
  migrateSqlite(old, { ...spoolMigrations, steps: spoolMigrations.steps.slice(0, 1) });
  const columnsOf = (table: string): string =>
    old
      .prepare('SELECT name FROM pragma_table_info(?)')
      .all(table)
      .map((row) => row['name'])
      .join(', ');
  old.exec(`ATTACH '${join(folder, 'postern.db')}' AS now;
    INSERT INTO main.spool_messages SELECT ${columnsOf('spool_messages')} FROM now.spool_messages;
    INSERT INTO main.spool_recipients SELECT ${columnsOf('spool_recipients')} FROM now.spool_recipients;
    UPDATE main.spool_recipients SET state = 2, ended_at = 5 WHERE message = ${failed};
    DETACH now`);
  const upToDate = new SqliteStore({ database: old, lock, bodies: join(folder, 'bodies') });
  expect(upToDate.read({ kind: 'tallies', args: [] })).toEqual({
    value: [
      {
        account: 'dev',
        messages: { queued, failed: 1 },
        octets: { queued: 0, failed: 0 },
        recipients: { queued: 1, delivered: 0, failed: 1 },
      },
    ],
  });
  expect(old.prepare('SELECT message, ended_at FROM spool_failures').all()).toEqual([{ message: 2, ended_at: 5 }]);
  old.close();
});

test('a page of a list looks at a bounded number of messages, and the pages together at all', () => {
  for (let batch = 0; batch < 5; batch += 1) store.write(Array.from({ length: 900 }, () => add(1)));
  store.write([
    {
      kind: 'record',
      args: [
        [database.prepare('SELECT id FROM spool_messages ORDER BY id DESC LIMIT 1').get()].map((row) =>
          failed(String(row?.['id'])),
        ),
        someTime,
      ],
    },
  ]);
  const pages: QueuePage[] = [];
  do {
    const after = pages.at(-1)?.next;
    const outcome = store.read(plain('list', { state: 'failed', limit: 10, ...(after ? { after } : {}) }));
    pages.push((outcome as { readonly value: QueuePage }).value);
  } while (pages.at(-1)?.next !== undefined);
  expect(pages.map(({ items }) => items.length)).toEqual([0, 0, 1]);
});

function entryOf(operation: WriteOperation): AddCall['entry'] {
  if (operation.kind !== 'add') throw new Error('no message');
  return operation.args[0].entry;
}

function limited(limits: Partial<SpoolLimits>): SqliteStore {
  return new SqliteStore({ database, lock, bodies: join(folder, 'bodies'), limits: { ...unlimited, ...limits } });
}

function ofSize(account: string, size: number): WriteOperation {
  const made = spoolEntry({ account });
  const { head: _h, body: _b, ...entry } = made;
  const event = encodeEvent(acceptedEvent(made));
  return {
    kind: 'add',
    args: [{ entry, event, claimUntil: 0, size, head: new Uint8Array(1), body: new Uint8Array(1) }],
  };
}

function fail(operations: readonly WriteOperation[], now: number): WriteOperation {
  return { kind: 'record', args: [operations.map((operation) => failed(entryOf(operation).id)), now] };
}

test('an account over its share of the queue is refused without undoing the batch, others are not', () => {
  const own = limited({ queuedMessages: 2, queuedBytes: 100 });
  const statements: string[] = [];
  const exec = database.exec.bind(database);
  database.exec = (sql) => {
    statements.push(sql);
    exec(sql);
  };
  const batch = [ofSize('dev', 60), ofSize('dev', 41), ofSize('dev', 40), ofSize('dev', 0), ofSize('other', 100)];
  const { outcomes } = own.write(batch);
  expect(outcomes.map((outcome) => 'value' in outcome)).toEqual([true, false, true, false, true]);
  expect(outcomes[1]).toMatchObject({ error: { unavailable: 'share' } });
  expect(statements).toEqual(['BEGIN IMMEDIATE', 'COMMIT']);
  own.write([{ kind: 'drop', args: [entryOf(batch[0] ?? add(1)).id, someTime] }]);
  expect('value' in (own.write([ofSize('dev', 60)]).outcomes[0] ?? {})).toBe(true);
});

test('an account’s share is its own, whatever another has queued before', () => {
  const own = limited({ queuedMessages: 1 });
  const taken = ['dev', 'other', 'dev', 'other'].map(
    (account) => 'value' in (own.write([ofSize(account, 1)]).outcomes[0] ?? {}),
  );
  expect(taken).toEqual([true, true, false, false]);
});

test('of the messages kept as failed the oldest of the account go first, told by account, messages and octets', () => {
  const own = limited({ failedMessages: 3, failedBytes: 1000 });
  const batch = Array.from({ length: 5 }, () => ofSize('dev', 10));
  const other = ofSize('other', 10);
  own.write([...batch, other]);
  for (const [index, operation] of [other, ...batch.slice(0, 3)].entries())
    expect(own.write([fail([operation], someTime + index)]).removed).toEqual([]);
  const { removed } = own.write([fail(batch.slice(3), someTime + 9)]);
  expect(removed).toEqual([{ account: 'dev', messages: 2, octets: 20 }]);
  const left = database.prepare('SELECT id FROM spool_messages ORDER BY seq').all();
  expect(left.map(({ id }) => id)).toEqual([...batch.slice(2), other].map((operation) => entryOf(operation).id));
  const large = ofSize('dev', 985);
  own.write([large]);
  expect(own.write([fail([large], someTime + 10)]).removed).toEqual([{ account: 'dev', messages: 2, octets: 20 }]);
  expect(totalOf(tallies()).messages).toEqual({ queued: 0, failed: 3 });
});

test('a limit that was lowered is kept from the next start on', () => {
  const batch = Array.from({ length: 5 }, () => ofSize('dev', 10));
  store.write([...batch, fail(batch, someTime)]);
  const { removed } = limited({ failedMessages: 1 }).write([{ kind: 'recover', args: [someTime] }]);
  expect(removed).toEqual([{ account: 'dev', messages: 4, octets: 40 }]);
});

test('what is too old is removed also where the clock was set back since it was last removed', () => {
  const claim = (now: number): void => {
    store.write([{ kind: 'claimDue', args: [{ transport: 'out', account: 'dev', now, limit: 1, claimUntil: now }] }]);
  };
  const day = 86_400_000;
  claim(someTime + 3000 * day);
  database.exec(`INSERT INTO idempotency_keys (account, key, digest, message_id, recipients, created_at)
    VALUES ('dev', 'order-1', '', '', '[]', ${someTime - 2 * day})`);
  claim(someTime);
  expect(database.prepare('SELECT key FROM idempotency_keys').all()).toEqual([]);
});
