// The table in PostgreSQL that names the moves which came to it. A row is kept in the transaction that keeps everything else.

import type { Migrations } from '../base/database/database.ts';

/** The table; only a target of a move has it. */
export const moveMigrations: Migrations = {
  owner: 'move',
  steps: ['CREATE TABLE moved_here (id TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL) STRICT'],
};
