// The thread's work on a SQLite file: thousands of changes that wait leave room for questions and for other processes.

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import type { DatabaseReply, DatabaseRequest } from '../../../src/base/database/sqlite-database.ts';
import { SqliteExecutor } from '../../../src/base/database/sqlite-executor.ts';
import { scratchFolder } from '../../support/scratch.ts';

test('changes that follow one another give others the lock, and questions an answer, before the last of them', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const replies: DatabaseReply[] = [];
  const executor = new SqliteExecutor({ file, isDurable: false, patienceMs: 60_000, transactionMs: 10_000 }, (more) =>
    replies.push(...more),
  );
  onTestFinished(() => executor.close());
  const table = { owner: 'test', steps: ['CREATE TABLE numbers (n INTEGER)'] };
  executor.receive([{ id: 1, kind: 'migrate', migrations: table }]);
  await expect.poll(() => replies).toEqual([{ id: 1, value: undefined }]);

  const many = 60_000;
  const change = (id: number): DatabaseRequest => ({
    ...{ id, kind: 'write', wanted: 'changes' },
    ...{ sql: 'INSERT INTO numbers VALUES ($1)', params: [id] },
  });
  executor.receive(Array.from({ length: many }, (_, at) => change(at + 2)));
  const answered = replies.length - 1;
  expect(answered).toBeGreaterThan(0);
  expect(answered).toBeLessThan(many);

  // The file is between two changes now, and free.
  const other = new DatabaseSync(file, { timeout: 0 });
  onTestFinished(() => other.close());
  other.exec('INSERT INTO numbers VALUES (0)');
  executor.receive([{ id: 0, kind: 'read', sql: 'SELECT count(*) AS count FROM numbers', params: [] }]);
  expect(replies[1 + answered]).toEqual({ id: 0, value: [{ count: answered + 1 }] });

  await expect.poll(() => replies.length).toBe(1 + many + 1);
  expect(replies.filter((reply) => 'failure' in reply)).toEqual([]);
});
