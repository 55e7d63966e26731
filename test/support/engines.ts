// The engines that stores run on, for the contract suites: each suite runs on every one of them.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Database } from '../../src/base/database/database.ts';
import { type OpenDatabaseOptions, openDatabase } from '../../src/base/database/sqlite-database.ts';
import { testPatienceMs } from './database-patience.ts';

/** An engine under a contract. */
export interface Engine {
  readonly name: string;
  /** Makes an empty database that goes when the test ends. @returns what opens connections to it, closed with it */
  make(): () => Promise<Database>;
  /** Makes an empty database whose own time the test sets, in milliseconds since 1970; absent: stores go by the clock that they are given. */
  timed?(): Promise<{ readonly database: Database; setTime(ms: number): Promise<void> }>;
  /** Whether a second connection sees the same data. */
  readonly isShared: boolean;
}

/** Opens a database that is closed when the test ends. */
export async function openTestDatabase(file: string, options: OpenDatabaseOptions = {}): Promise<Database> {
  const database = await openDatabase(file, { patienceMs: testPatienceMs, ...options });
  onTestFinished(() => database.close());
  return database;
}

/** All engines. */
export const engines: readonly Engine[] = [
  {
    name: 'SQLite in a file',
    isShared: true,
    make() {
      const folder = mkdtempSync(join(tmpdir(), 'postern-engine-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      return () => openTestDatabase(join(folder, 'postern.db'));
    },
  },
  { name: 'SQLite in memory', isShared: false, make: () => () => openTestDatabase(':memory:') },
];
