// Reads and removes the rows of messages whose body is a file (D94), in a copy of the database.

import type { DatabaseSync } from 'node:sqlite';
import type { Row } from '../../base/database/database.ts';
import { hasTable, inTransaction } from '../../base/database/sqlite-file.ts';
import { rebuildLedger } from '../sqlite/sqlite-ledger.ts';
import { integer, text } from '../stored-rows.ts';

/** A message whose body is a file. */
export interface BodyRow {
  readonly id: string;
  /** Size of the body in octets. */
  readonly octets: number;
}

/** The messages of a database whose bodies are files; none where it has no spool yet. */
export function bodyRows(database: DatabaseSync): BodyRow[] {
  if (!hasTable(database, 'spool_messages')) return [];
  return database
    .prepare('SELECT id, size - length(head) AS octets FROM spool_messages WHERE body_in_file = 1 ORDER BY id')
    .all()
    .map((row: Row) => ({ id: text(row, 'id'), octets: integer(row, 'octets') }));
}

/** How many messages the spool of a database has. */
export function countMessages(database: DatabaseSync): number {
  if (!hasTable(database, 'spool_messages')) return 0;
  return integer(database.prepare('SELECT count(*) AS messages FROM spool_messages').get() ?? {}, 'messages');
}

/** Whether a database has a message. */
export function hasMessage(database: DatabaseSync, id: string): boolean {
  return (
    hasTable(database, 'spool_messages') &&
    database.prepare('SELECT 1 FROM spool_messages WHERE id = ?').get(id) !== undefined
  );
}

/** Removes messages from a database that nobody else has open, and counts the accounts' totals again. */
export function forgetMessages(database: DatabaseSync, ids: readonly string[]): void {
  if (ids.length === 0) return;
  inTransaction(database, () => {
    for (const table of ['spool_recipients', 'spool_failures'].filter((name) => hasTable(database, name))) {
      const seq = '(SELECT seq FROM spool_messages WHERE id = ?)';
      const forget = database.prepare(`DELETE FROM ${table} WHERE message = ${seq}`);
      for (const id of ids) forget.run(id);
    }
    const forget = database.prepare('DELETE FROM spool_messages WHERE id = ?');
    for (const id of ids) forget.run(id);
    // A database of an older release lacks this table. It is migrated, and counted, when a server opens it.
    if (hasTable(database, 'spool_counts')) database.exec(rebuildLedger);
  });
}

/**
 * The owner of tables that are of a release after this one; undefined where there are none.
 * @param known the version of each owner's tables in this release
 */
export function ownerOfNewerTables(database: DatabaseSync, known: ReadonlyMap<string, number>): string | undefined {
  if (!hasTable(database, 'migrations')) return undefined;
  const rows = database.prepare('SELECT owner, version FROM migrations ORDER BY owner').all();
  const newer = rows.find((row) => integer(row, 'version') > (known.get(text(row, 'owner')) ?? 0));
  return newer && text(newer, 'owner');
}
