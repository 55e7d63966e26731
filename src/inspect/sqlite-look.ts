// Looks at a SQLite file, which it only reads. A large file takes long to read, and SQLite cannot be interrupted from outside, so
// this is a process of its own, which is ended when its time is over. What it has found by then, it has sent.

import { existsSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import type { Row } from '../base/database/database.ts';
import { movedMark } from '../base/database/moved-mark.ts';
import { errorMessage } from '../base/errors.ts';
import { SpoolLock } from '../spool/sqlite/file/sqlite-lock.ts';
import { inFlightRows } from '../spool/sqlite/in-flight.ts';
import type { DatabaseReport, TableSize } from './database-report.ts';

/** What is found, one after another: what takes longest comes last. */
export type SqliteFinding =
  | ({
      readonly kind: 'facts';
      readonly isServed: boolean;
      readonly movedTo: string | undefined;
      readonly now: number;
    } & Pick<DatabaseReport, 'facts' | 'queue'> & {
        readonly owners: readonly { readonly owner: string; readonly version: number }[];
      })
  | { readonly kind: 'tables'; readonly tables: readonly TableSize[] }
  /** Lines of SQLite; none where all is well. */
  | { readonly kind: 'integrity'; readonly faults: readonly string[] }
  | { readonly kind: 'failure'; readonly message: string };

function number(row: Row | undefined, column: string): number | null {
  const value = row?.[column];
  return typeof value === 'number' ? value : null;
}

function hasTable(database: DatabaseSync, name: string): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(name) !== undefined;
}

/** Whether a gateway works on the file. */
function isServed(file: string): boolean {
  const lockFile = `${file}-spool.lock`;
  if (!existsSync(lockFile)) return false;
  const lock = new SpoolLock(lockFile);
  try {
    return !lock.whileAlone(() => undefined);
  } finally {
    lock.close();
  }
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

/** The lesser of two numbers, of which either may be missing. */
function least(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

function queueOf(database: DatabaseSync): DatabaseReport['queue'] {
  if (!hasTable(database, 'spool_lines')) return null;
  const offset = number(database.prepare('SELECT max(offset) AS offset FROM spool_clock').get(), 'offset') ?? 0;
  const counts = database
    .prepare('SELECT sum(queued_recipients) AS queued, sum(failed_messages) AS failed FROM spool_counts')
    .get();
  const turn = number(database.prepare('SELECT min(ready_at) AS at FROM spool_lines WHERE hold = 0').get(), 'at');
  const oldest = database
    .prepare(`SELECT m.accepted_at AS at FROM spool_recipients r JOIN spool_messages m ON m.seq = r.message
      WHERE r.state = 0 ORDER BY r.message LIMIT 1`)
    .get();
  const claims = database
    .prepare(
      'SELECT count(*) AS claims, min(claimed_until) AS until FROM spool_recipients WHERE state = 0 AND claimed_until > 0',
    )
    .get();
  // Recipients of messages in flight are claimed as well.
  const flying = hasTable(database, 'spool_in_flight')
    ? database
        .prepare(`SELECT sum(json_array_length(envelope, '$.to')) AS claims, min(accepted_at) AS at,
        min(envelope ->> 'until') AS until FROM ${inFlightRows}`)
        .get()
    : undefined;
  const until = least(number(claims, 'until'), number(flying, 'until'));
  return {
    queuedRecipients: number(counts, 'queued') ?? 0,
    failedMessages: number(counts, 'failed') ?? 0,
    claimed: (number(claims, 'claims') ?? 0) + (number(flying, 'claims') ?? 0),
    oldestClaimUntil: until === null ? null : until + offset,
    oldestAcceptedAt: least(number(oldest, 'at'), number(flying, 'at')),
    oldestTurnAt: turn === null ? null : turn + offset,
  };
}

/** What can be read of a file that may be damaged; null where it cannot. The check tells what is wrong. */
function whereReadable<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

function tablesOf(database: DatabaseSync): readonly TableSize[] {
  // An index counts for its table.
  const rows = database
    .prepare(`SELECT coalesce(s.tbl_name, d.name) AS name, sum(d.pgsize) AS octets
      FROM dbstat d LEFT JOIN sqlite_schema s ON s.name = d.name GROUP BY 1 ORDER BY octets DESC`)
    .all();
  return rows.map((row) => ({
    name: String(row['name']),
    octets: number(row, 'octets') ?? 0,
    ...{ rows: null, deadRows: null, partitions: 0, oldestPartition: null, newestPartition: null, rowsOutside: null },
  }));
}

/** Looks at a file and hands on what it finds. @param isFull whether indexes are compared with their tables, which takes longer */
function lookAtSqlite(file: string, isFull: boolean, send: (finding: SqliteFinding) => void): void {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  try {
    const mark = movedMark(database);
    const versions = hasTable(database, 'migrations')
      ? database.prepare('SELECT owner, version FROM migrations ORDER BY owner').all()
      : [];
    send({
      ...{
        kind: 'facts',
        facts: factsOf(database, file),
        queue: whereReadable(() => queueOf(database)),
        movedTo: mark?.target,
      },
      ...{ isServed: isServed(file), now: Date.now() },
      // A mark raises the version of the spool's tables.
      owners: versions.flatMap((row) =>
        mark && row['owner'] === 'spool' ? [] : [{ owner: String(row['owner']), version: number(row, 'version') ?? 0 }],
      ),
    });
    send({ kind: 'tables', tables: tablesOf(database) });
    const check = isFull ? 'integrity_check' : 'quick_check';
    const lines = database
      .prepare(`PRAGMA ${check}(20)`)
      .all()
      .map((row) => String(Object.values(row)[0]));
    const orphans = isFull ? database.prepare('PRAGMA foreign_key_check').all() : [];
    const broken = orphans
      .slice(0, 20)
      .map((row) => `a row of ${String(row['table'])} names a row of ${String(row['parent'])} that is not there`);
    send({ kind: 'integrity', faults: [...lines.filter((line) => line !== 'ok'), ...broken] });
  } finally {
    database.close();
  }
}

const [, , file, isFull] = process.argv;
if (process.send && file !== undefined) {
  try {
    lookAtSqlite(file, isFull === 'full', (finding) => process.send?.(finding));
  } catch (thrown) {
    process.send({ kind: 'failure', message: errorMessage(thrown) } satisfies SqliteFinding);
  }
  process.disconnect();
}
