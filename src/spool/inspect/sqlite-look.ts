// Looks at a SQLite file, which it only reads. A large file takes long to read, and SQLite cannot be interrupted from outside, so
// this is a process of its own, which is ended when its time is over. What it has found by then, it has sent.

import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import type { Row } from '../../base/database/database.ts';
import { hasTable, movedMark } from '../../base/database/sqlite-file.ts';
import { errorMessage } from '../../base/errors.ts';
import { isServed } from '../sqlite/file/sqlite-lock.ts';
import { inFlightRows } from '../sqlite/in-flight.ts';
import { type DatabaseReport, queueOf, sizeOf, type TableSize } from './database-report.ts';

/** What is found, part by part: what takes longest comes last. */
export interface SqliteFindings {
  readonly about: Pick<DatabaseReport, 'facts' | 'queue'> & {
    readonly isServed: boolean;
    readonly movedTo: string | undefined;
    readonly now: number;
    readonly owners: readonly { readonly owner: string; readonly version: number }[];
  };
  readonly tables: readonly TableSize[];
  /** Lines of SQLite; none where all is well. */
  readonly faults: readonly string[];
  /** Why it did not come to its end. */
  readonly failure: string;
}

function factsOf(database: DatabaseSync, file: string): DatabaseReport['facts'] {
  const pragma = (name: string): string | number => {
    const value = database.prepare(`PRAGMA ${name}`).get()?.[name];
    return typeof value === 'number' ? value : String(value);
  };
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
  return {
    version: String(database.prepare('SELECT sqlite_version() AS version').get()?.['version']),
    fileOctets: statSync(file).size,
    logOctets: log?.size ?? 0,
    pageOctets: pragma('page_size'),
    pages: pragma('page_count'),
    freePages: pragma('freelist_count'),
    journal: pragma('journal_mode'),
    givesPagesBack: pragma('auto_vacuum') === 2,
  };
}

// The question for the queue. Times of the spool are by its own clock. Recipients of messages in flight are claimed as well.
const queueQuestion = `WITH clock AS (SELECT coalesce(max(offset), 0) AS offset FROM spool_clock),
    claims AS (SELECT 1 AS recipients, claimed_until AS until, NULL AS at FROM spool_recipients
      WHERE state = 0 AND claimed_until > 0
      UNION ALL SELECT json_array_length(envelope, '$.to'), envelope ->> 'until', accepted_at FROM ${inFlightRows}),
    oldest AS (SELECT m.accepted_at AS at FROM spool_recipients r JOIN spool_messages m ON m.seq = r.message
      WHERE r.state = 0 ORDER BY r.message LIMIT 1)
    SELECT (SELECT coalesce(sum(queued_recipients), 0) FROM spool_counts) AS queued_recipients,
      (SELECT coalesce(sum(failed_messages), 0) FROM spool_counts) AS failed_messages,
      (SELECT coalesce(sum(recipients), 0) FROM claims) AS claimed,
      (SELECT min(until) FROM claims) + offset AS oldest_claim_until,
      (SELECT min(ready_at) FROM spool_lines WHERE hold = 0) + offset AS oldest_turn_at,
      (SELECT min(at) FROM (SELECT at FROM oldest UNION ALL SELECT at FROM claims)) AS oldest_accepted_at FROM clock`;

/** Reads the queue; null where there is none, or the file is damaged: the check tells what is wrong. */
function queueIn(database: DatabaseSync): DatabaseReport['queue'] {
  try {
    const row = hasTable(database, 'spool_in_flight') && database.prepare(queueQuestion).get();
    return row ? queueOf(row) : null;
  } catch {
    return null;
  }
}

// An index counts for its table.
const tablesQuestion = `SELECT coalesce(s.tbl_name, d.name) AS name, sum(d.pgsize) AS octets
  FROM dbstat d LEFT JOIN sqlite_schema s ON s.name = d.name GROUP BY 1 ORDER BY octets DESC`;

/** Looks at a file and hands on what it finds. @param isFull whether indexes are compared with their tables, which takes longer */
function lookAtSqlite(file: string, isFull: boolean, send: (found: Partial<SqliteFindings>) => void): void {
  using database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  const ask = (sql: string): readonly Row[] => database.prepare(sql).all();
  const mark = movedMark(database);
  const versions = hasTable(database, 'migrations') ? ask('SELECT owner, version FROM migrations ORDER BY owner') : [];
  send({
    about: {
      facts: factsOf(database, file),
      queue: queueIn(database),
      ...{ movedTo: mark?.target, isServed: isServed(file), now: Date.now() },
      // A mark raises the version of the spool's tables.
      owners: versions
        .filter((row) => !mark || row['owner'] !== 'spool')
        .map((row) => ({ owner: String(row['owner']), version: Number(row['version']) })),
    },
  });
  send({ tables: ask(tablesQuestion).map(sizeOf) });
  const lines = ask(`PRAGMA ${isFull ? 'integrity_check' : 'quick_check'}(20)`).map((row) =>
    String(Object.values(row)[0]),
  );
  const broken = (isFull ? ask('PRAGMA foreign_key_check') : [])
    .slice(0, 20)
    .map((row) => `a row of ${String(row['table'])} names a row of ${String(row['parent'])} that is not there`);
  send({ faults: [...lines.filter((line) => line !== 'ok'), ...broken] });
}

const [, , file, isFull] = process.argv;
if (process.send && file !== undefined) {
  try {
    lookAtSqlite(file, isFull === 'full', (found) => process.send?.(found));
  } catch (thrown) {
    process.send({ failure: errorMessage(thrown) } satisfies Partial<SqliteFindings>);
  }
  process.disconnect();
}
