// A lock that another process holds, seen from the thread that serves everybody.

import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openServingDatabase } from '../../../src/base/database/sqlite-file.ts';
import { Unavailable } from '../../../src/base/errors.ts';
import { holdLock } from '../../support/lock-holder.ts';
import { scratchFolder } from '../../support/scratch.ts';

test('a lock of another process is waited for once, then nobody waits, and after it all goes on', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const database = openServingDatabase(file);
  onTestFinished(() => database.close());
  database.exec('CREATE TABLE numbers (n INTEGER)');
  const add = database.prepare('INSERT INTO numbers VALUES (1)');
  // SQLite answers it when it is prepared, with what the last statement had.
  const patience = (): unknown => database.prepare('PRAGMA busy_timeout').get()?.['timeout'];
  database.serve(true);
  add.run();
  expect(patience()).toBe(250);

  const holder = await holdLock(file);
  onTestFinished(() => holder.release());
  expect(() => add.run()).toThrow(Unavailable);
  expect(() => database.exec('BEGIN IMMEDIATE')).toThrow('Another program holds the lock');
  expect(patience()).toBe(0);
  expect(database.prepare('SELECT count(*) AS count FROM numbers').get()).toEqual({ count: 1 });
  await holder.release();
  add.run();
  expect(database.prepare('SELECT count(*) AS count FROM numbers').get()).toEqual({ count: 2 });
  database.serve(false);
  add.run();
  expect(patience()).toBe(5000);
});
