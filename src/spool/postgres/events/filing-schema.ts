// What gateways need that write beside one another without waiting (D90, D91). The tables have an owner of their own: a gateway of
// the release before does not know it, and so it starts and works on the same database.

import type { Migrations } from '../../../base/database/database.ts';

/** Migrations of it; those of the spool come first. */
export const filingMigrations: Migrations = {
  owner: 'filing',
  steps: [],
  postgres: [
    `
    -- What transactions tell readers: events, rows of the journal, what accounts have more or less. A row for each transaction,
    -- until somebody files it (event-filer.ts). Where one follows from another, its number is greater.
    CREATE TABLE spool_unfiled (
      seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      told BYTEA NOT NULL
    );
    ALTER TABLE spool_unfiled ALTER COLUMN told SET STORAGE EXTERNAL;

    -- The number of the last transaction of each way to write of a process, by which it finds out what became of one whose end it
    -- did not hear of.
    CREATE TABLE spool_fences (
      process BIGINT NOT NULL REFERENCES spool_processes (id) ON DELETE CASCADE,
      way SMALLINT NOT NULL,
      batch BIGINT NOT NULL,
      PRIMARY KEY (process, way)
    );

    -- 1: the process files what it tells, and waits for nobody. NULL, of an earlier release: it expects that one writes at a time.
    ALTER TABLE spool_processes ADD COLUMN form SMALLINT;
    `,
    `
    -- Octets of up to 8 KB, as they are compressed, stay in their row: pieces beside it cost an entry of an index and a removal each.
    ALTER TABLE spool_octets ALTER COLUMN octets SET STORAGE MAIN;
    `,
  ],
};
