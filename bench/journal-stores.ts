// The stores that bench/journal.ts measures: a journal of many rows in a file of SQLite, or in a PostgreSQL of its own.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openPostgres } from '../src/base/database/postgres-database.ts';
import { openDatabase } from '../src/base/database/sqlite-database.ts';
import { openSqliteFile } from '../src/base/database/sqlite-file.ts';
import type { Journal, JournalLimits } from '../src/spool/journal/journal.ts';
import type { JournalFacts, JournalRow } from '../src/spool/journal/journal-row.ts';
import { openPostgresJournal } from '../src/spool/journal/store/postgres-journal-store.ts';
import { openSqliteJournal } from '../src/spool/journal/store/sqlite-journal-store.ts';
import { keyWords, searchText } from '../src/spool/journal/store/words.ts';
import { SqliteJournal } from '../src/spool/journal/writer/journal-tables.ts';
import { ensurePartitions } from '../src/spool/postgres/events/event-partitions.ts';
import { PostgresSpool } from '../src/spool/postgres/postgres-spool.ts';
import type { Spool } from '../src/spool/spool.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { startPostgres } from '../test/support/postgres.ts';

/** A row with its facts as values. */
export interface BenchRow {
  readonly row: JournalRow;
  readonly facts: JournalFacts;
}

/** A store under measurement. */
export interface JournalStore {
  /** Writes rows; their times lie between `since` and `until`. */
  fill(rows: Iterable<BenchRow>, span: { readonly since: number; readonly until: number }): Promise<void>;
  openJournal(limits: JournalLimits): Promise<Journal>;
  openSpool(): Promise<Spool>;
  remove(): Promise<void>;
}

const noOctets = { receivedHead: undefined, receivedBody: undefined, sentHead: undefined, sentBody: undefined };

/** A file of SQLite. */
export function sqliteStore(): JournalStore {
  const folder = mkdtempSync(join(tmpdir(), 'postern-journal-'));
  const file = join(folder, 'postern.db');
  return {
    async fill(rows) {
      const database = openSqliteFile(file);
      const journal = new SqliteJournal(database);
      database.exec('PRAGMA synchronous = OFF; BEGIN');
      for (const { row } of rows) journal.add({ row, isSameBody: false, ...noOctets });
      database.exec('COMMIT');
      database.close();
    },
    openJournal: async (limits) => openSqliteJournal(await openDatabase(file), limits),
    openSpool: () => SqliteSpool.open({ file }),
    async remove() {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const insert = `INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more, keys, words)
  SELECT id, at, account, outcome, 0, 0, facts, '{}', keys, words FROM
    unnest($1::text[], $2::bigint[], $3::text[], $4::smallint[], $5::text[], $6::text[], $7::text[])
      AS new (id, at, account, outcome, facts, keys, words)`;

/** A PostgreSQL of its own that syncs to the disk. @param isWhole without partitions */
export async function postgresStore(isWhole: boolean): Promise<JournalStore> {
  const server = await startPostgres({ fsync: true });
  const created = await server.createDatabase();
  const url = isWhole ? `${created}&options=${encodeURIComponent('-c postern.partitions=off')}` : created;
  return {
    async fill(rows, span) {
      await (await PostgresSpool.open({ url })).close();
      const client = new pg.Client(url);
      await client.connect();
      await ensurePartitions(async (sql, values = []) => (await client.query(sql, [...values])).rows, {
        ...span,
        lastEvent: 0,
      });
      await client.query('SET synchronous_commit = off');
      let columns: unknown[][] = [[], [], [], [], [], [], []];
      const send = async (): Promise<void> => {
        await client.query(insert, columns);
        columns = columns.map(() => []);
      };
      for (const { row, facts } of rows) {
        const values = [row.id, row.at, row.account, row.outcome, row.facts, keyWords(facts), searchText(facts)];
        for (const [at, value] of values.entries()) columns[at]?.push(value);
        if ((columns[0]?.length ?? 0) >= 5000) await send();
      }
      await send();
      await client.query('VACUUM ANALYZE journal');
      await client.query('CHECKPOINT');
      await client.end();
    },
    openJournal: async (limits) => openPostgresJournal(await openPostgres({ url, connections: 2 }), limits),
    openSpool: () => PostgresSpool.open({ url }),
    remove: () => server.remove(),
  };
}
