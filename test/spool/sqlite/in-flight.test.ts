// Messages in flight: their recipients stand in the message's row until they are delivered, or something else becomes of them.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type DatabaseSync, openSqliteFile } from '../../../src/base/database/sqlite-file.ts';
import { encodeEvent } from '../../../src/spool/encoded-event.ts';
import type { DueMessage, Outcome, QueueItem, QueuePage, WaitingLine } from '../../../src/spool/spool.ts';
import { acceptedEvent } from '../../../src/spool/spool-events.ts';
import { SpoolLock } from '../../../src/spool/sqlite/file/sqlite-lock.ts';
import { spreadAll } from '../../../src/spool/sqlite/in-flight.ts';
import { StoredMessages } from '../../../src/spool/sqlite/sqlite-messages.ts';
import { type ReadOperation, SqliteStore, type WriteOperation } from '../../../src/spool/sqlite/sqlite-store.ts';
import type { AccountTally } from '../../../src/spool/tally.ts';
import { plain } from '../../support/plain-call.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

const lease = someTime + 3_600_000;
const to = ['ann@example.org', 'bea@example.org'];

let folder = '';
let database: DatabaseSync;
let lock: SpoolLock;
let store: SqliteStore;

function open(): void {
  database = openSqliteFile(join(folder, 'postern.db'));
  lock = new SpoolLock(join(folder, 'lock'));
  store = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
}

/** Ends the process of before, as a crash does, and starts another. @returns the number of messages queued */
function crash(): unknown {
  database.close();
  lock.close();
  open();
  return write({ kind: 'recover', args: [someTime] });
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-flight-'));
  open();
});

afterEach(() => {
  database.close();
  lock.close();
  rmSync(folder, { recursive: true, force: true });
});

function write(operation: WriteOperation): unknown {
  const [outcome] = store.write([operation]).outcomes;
  if (!outcome || 'error' in outcome) throw new Error(outcome?.error.message);
  return outcome.value;
}

function read(operation: ReadOperation): unknown {
  const outcome = store.read(operation);
  if ('error' in outcome) throw new Error(outcome.error.message);
  return outcome.value;
}

function add(id: string, recipients: readonly string[] = to, claimUntil = lease): WriteOperation {
  const made = spoolEntry({ id, recipients, transports: recipients.map(() => 'out#1') });
  const { head, body, ...entry } = made;
  return { kind: 'add', args: [{ entry, event: encodeEvent(acceptedEvent(made)), claimUntil, size: 10, head, body }] };
}

function record(id: string, kind: Outcome['kind'], recipients: readonly string[]): WriteOperation {
  const outcome = { kind, reply: { code: kind === 'delivered' ? 250 : 450, text: 'so' }, host: 'out' } as const;
  const outcomes = recipients.map((recipient) => {
    const event = encodeEvent(attemptOf(spoolEntry({ id }), outcome, { recipient }));
    return { queueId: id, recipient, ...outcome, nextAttemptAt: someTime, event };
  });
  return { kind: 'record', args: [outcomes, someTime] };
}

const rows = (): number => Number(database.prepare('SELECT count(*) AS rows FROM spool_recipients').get()?.['rows']);
/** Whether the mark is no newer than the oldest message in flight, so that a crash finds all by it. */
const isMarkSafe = (): boolean =>
  database.prepare('SELECT 1 FROM spool_messages, spool_in_flight WHERE envelope IS NOT NULL AND seq < mark').get() ===
  undefined;
const queued = () =>
  (read({ kind: 'tallies', args: [] }) as readonly AccountTally[]).map(({ recipients }) => recipients);
const claimed = (now: number) =>
  (
    write({
      kind: 'claimDue',
      args: [{ now, limit: 9, claimUntil: now + 1, transport: 'out#1', account: 'dev' }],
    }) as readonly DueMessage[]
  ).map(({ entry, due }) => [entry.id, ...due.map(({ address }) => address)]);

test('a message that is delivered at once never has a row of a recipient', () => {
  write(add('a'));
  expect([rows(), queued()]).toEqual([0, [{ queued: 2, delivered: 0, failed: 0 }]]);
  write(record('a', 'delivered', to));
  expect([rows(), queued(), read(plain('show', 'a'))]).toEqual([0, [], undefined]);
});

test('what is in flight is listed, searched for, counted and shown as what waits', () => {
  write(add('a'));
  const shown = read(plain('show', 'a')) as QueueItem;
  expect(shown.recipients.map(({ address, state }) => [address, state])).toEqual(to.map((one) => [one, 'queued']));
  for (const search of [{ search: 'BEA@' }, {}])
    expect((read(plain('list', { limit: 9, state: 'queued', ...search })) as QueuePage).items).toHaveLength(1);
  expect((read(plain('list', { limit: 9, search: 'out#1' })) as QueuePage).items).toEqual([]);
  expect((read(plain('list', { limit: 9, state: 'failed' })) as QueuePage).items).toEqual([]);
  const line = { transport: 'out#1', account: 'dev', recipients: 2, oldestAcceptedAt: someTime };
  expect(read(plain('waiting', 9)) as readonly WaitingLine[]).toEqual([line]);
  expect(read(plain('oldest'))).toBe(someTime);
  write(add('b', to, someTime));
  expect(read(plain('waiting', 9))).toEqual([{ ...line, recipients: 4 }]);
});

test.each(['deferred', 'failed'] as const)(
  'a recipient that is %s gets a row, and those delivered are not sent again',
  (kind) => {
    write(add('a'));
    write(record('a', 'delivered', ['ann@example.org']));
    expect([rows(), queued()]).toEqual([2, [{ queued: 1, delivered: 1, failed: 0 }]]);
    write(record('a', kind, ['bea@example.org']));
    expect(claimed(someTime)).toEqual(kind === 'deferred' ? [['a', 'bea@example.org']] : []);
  },
);

test('an outcome that comes twice for one recipient does not end the other', () => {
  write(add('a'));
  write(record('a', 'delivered', ['ann@example.org', 'ann@example.org']));
  expect(queued()).toEqual([{ queued: 1, delivered: 1, failed: 0 }]);
});

test('what a process that ended left in flight is due', () => {
  write(add('a'));
  write(add('b'));
  write(record('a', 'delivered', to));
  expect(crash()).toBe(1);
  const given = { transport: 'out#1', position: 0, message: 2, id: 'b', account: 'dev', address: 'ann@example.org' };
  write({ kind: 'giveTransports', args: [[given], { looked: [], now: someTime }] });
  expect(claimed(someTime)).toEqual([['b', 'ann@example.org']]);
});

test('a message is found after a crash though the rows of those before are gone, and its number is new', () => {
  write({ kind: 'recover', args: [someTime] });
  write(add('a'));
  expect(isMarkSafe()).toBe(true);
  write(record('a', 'delivered', to));
  // The mark moves with the next commit.
  database.exec('UPDATE spool_in_flight SET mark = 7');
  write(add('b'));
  expect(Number(database.prepare('SELECT seq FROM spool_messages').get()?.['seq'])).toBeGreaterThanOrEqual(7);
  expect(crash()).toBe(1);
  expect(rows()).toBe(2);
});

test('a mark that is wrong loses nothing', () => {
  write(add('a'));
  database.exec('UPDATE spool_in_flight SET mark = 900');
  expect(crash()).toBe(1);
  expect([rows(), queued()]).toEqual([2, [{ queued: 2, delivered: 0, failed: 0 }]]);
});

test('the mark stays before what an earlier process left, until that has rows', () => {
  write(add('a'));
  database.close();
  lock.close();
  open();
  write(add('b'));
  expect(isMarkSafe()).toBe(true);
  expect(crash()).toBe(2);
  expect(rows()).toBe(4);
});

test('what a transaction that is undone has added or ended is in flight as before', () => {
  write(add('a'));
  const twice = store.write([record('a', 'delivered', to), add('b'), add('b')]);
  expect(twice.outcomes.map((outcome) => 'value' in outcome)).toEqual([true, true, false]);
  expect(queued()).toEqual([{ queued: 2, delivered: 0, failed: 0 }]);
  database.exec(`CREATE TRIGGER broken BEFORE INSERT ON mail_events BEGIN SELECT raise(ABORT, 'no'); END`);
  expect(() => write(record('b', 'delivered', to))).toThrow('no');
  database.exec('DROP TRIGGER broken');
  write(record('b', 'delivered', to));
  expect([rows(), queued()]).toEqual([0, []]);
});

test('a message that a command beside the server has dropped or given rows is none of the process’s any more', () => {
  write(add('a'));
  write(add('b'));
  const beside = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
  expect(beside.write([{ kind: 'drop', args: ['a', someTime] }]).outcomes).toEqual([{ value: true }]);
  expect(
    beside.write([{ kind: 'retryMany', args: [[{ id: 'b' }], { now: someTime, expiresAt: lease }] }]).outcomes,
  ).toMatchObject([{ value: { recipients: 2 } }]);
  write(record('a', 'delivered', to));
  write(record('b', 'delivered', to));
  expect([rows(), queued()]).toEqual([0, []]);
});

test('a claim that is over lets others claim, and a release as well', () => {
  write(add('a'));
  expect(claimed(lease - 1)).toEqual([]);
  expect(claimed(lease)).toEqual([['a', ...to]]);
  write(add('b'));
  write(plain('release', 'b', ['bea@example.org']));
  expect(claimed(someTime)).toEqual([['b', 'bea@example.org']]);
});

test('a hold on a message in flight keeps it once its claim is over', () => {
  write(add('a'));
  write(plain('addHold', { kind: 'message', value: 'a', at: someTime, by: 'ops', why: '' }));
  expect(claimed(lease)).toEqual([]);
});

test('when the gateway ends in order, or its file is moved, every recipient has a row', () => {
  write(add('a'));
  write({ kind: 'settle', args: [true] });
  expect([rows(), store.inFlight.isAny]).toEqual([2, false]);
  write(add('b'));
  spreadAll(database, false);
  expect(rows()).toBe(4);
  write(record('b', 'delivered', to));
  expect(rows()).toBe(2);
});

test('NOTIFY and ORCPT are kept, and a delivery that is reported gets rows first', () => {
  const made = add('a');
  if (made.kind !== 'add') return;
  const asked = new Map([['ann@example.org', { notify: 'SUCCESS', orcpt: 'rfc822;x' }]]);
  const [call] = made.args;
  write({ kind: 'add', args: [{ ...call, entry: { ...call.entry, dsn: { recipients: asked } } }] });
  expect((read(plain('show', 'a')) as QueueItem).entry.dsn).toEqual({ recipients: asked });
  write(record('a', 'delivered', to));
  const due = read(plain('reportsDue', { now: lease, limit: 9 }));
  expect(due).toMatchObject([{ queueId: 'a', recipients: [{ address: 'ann@example.org', orcpt: 'rfc822;x' }] }]);
});

test('reads the recipients of a message once for all outcomes of a transaction', () => {
  const many = Array.from({ length: 50 }, (_, at) => `user-${at}@example.org`);
  write(add('one', many));
  const read = vi.spyOn(StoredMessages.prototype, 'read');
  write(record('one', 'delivered', many.slice(0, 40)));
  expect(read).toHaveBeenCalledTimes(1);
  read.mockRestore();
  expect(rows()).toBe(50);
});
