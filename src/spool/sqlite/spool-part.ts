// What everything shares that works on the spool's tables: one connection, and one time for a whole transaction.

import { type DatabaseSync, migrateSqlite } from '../../base/database/sqlite-file.ts';
import { SqliteThreads } from '../threads/sqlite-threads.ts';
import { SettledOctets } from './file/settled-octets.ts';
import { stepsOn } from './file/sqlite-steps.ts';
import { MessagesInFlight } from './in-flight.ts';
import { SpoolClock } from './sqlite-clock.ts';
import { Ledger } from './sqlite-ledger.ts';
import { Lines } from './sqlite-lines.ts';
import { idempotencyMigrations, spoolMigrations } from './sqlite-schema.ts';
import { prepareStatements } from './sqlite-statements.ts';

/** Brings the tables of a database up to date, all but those of events and the journal. */
export function tablesOf(database: DatabaseSync) {
  migrateSqlite(database, spoolMigrations);
  migrateSqlite(database, idempotencyMigrations);
  const [clock, lines] = [new SpoolClock(database), new Lines(database)];
  return {
    ...{ statements: prepareStatements(database), clock, lines, ledger: new Ledger(database) },
    ...{ inFlight: new MessagesInFlight(database, { clock, lines }), settled: new SettledOctets(database) },
    ...{ threads: new SqliteThreads(database), steps: stepsOn(database) },
  };
}

/** What is shared. */
export type SpoolTables = ReturnType<typeof tablesOf>;

/** A part of the store that works on the tables of one database. */
export abstract class SpoolPart {
  protected readonly statements: SpoolTables['statements'];
  protected readonly clock: SpoolTables['clock'];
  protected readonly ledger: SpoolTables['ledger'];
  protected readonly lines: SpoolTables['lines'];
  protected readonly inFlight: SpoolTables['inFlight'];
  protected readonly tables: SpoolTables;

  constructor(tables: SpoolTables) {
    this.tables = tables;
    this.statements = tables.statements;
    this.clock = tables.clock;
    this.ledger = tables.ledger;
    this.lines = tables.lines;
    this.inFlight = tables.inFlight;
  }
}
