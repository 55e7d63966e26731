// The mark that a move to PostgreSQL leaves in the SQLite file that it came from. Nothing may open such a file as its database:
// what was queued there would be sent a second time.

import type { DatabaseSync } from 'node:sqlite';

/** Where a file's contents were moved to. */
export interface MovedMark {
  /** The move, which its target knows by the same id. */
  readonly id: string;
  /** Host, port and name of the target, for people. */
  readonly target: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Whether it is known that the target has kept everything; else the end of the move was not heard of. */
  readonly isDone: boolean;
}

/**
 * Added to the version of the spool's tables in a marked file. A release that does not know of marks takes the tables for those
 * of a later release and refuses them as well.
 */
const raised = 1_000_000;

const make = `CREATE TABLE moved_away (
  one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, target TEXT NOT NULL, at INTEGER NOT NULL, done INTEGER NOT NULL
) STRICT`;
const raise = `UPDATE migrations SET version = version + ${raised} WHERE owner = 'spool' AND version < ${raised}`;
const lower = `UPDATE migrations SET version = version - ${raised} WHERE owner = 'spool' AND version >= ${raised}`;

/** Reads the mark of a file; undefined where it has none. */
export function movedMark(database: DatabaseSync): MovedMark | undefined {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'moved_away'").get();
  const row = table && database.prepare('SELECT id, target, at, done FROM moved_away').get();
  if (!row) return undefined;
  return { id: String(row['id']), target: String(row['target']), at: Number(row['at']), isDone: row['done'] === 1 };
}

/** Writes the mark, or what is new of it, in the caller's transaction. */
export function writeMovedMark(database: DatabaseSync, { id, target, at, isDone }: MovedMark): void {
  if (!movedMark(database)) database.exec(`DROP TABLE IF EXISTS moved_away; ${make}`);
  database.prepare('INSERT OR REPLACE INTO moved_away VALUES (1, ?, ?, ?, ?)').run(id, target, at, isDone ? 1 : 0);
  database.exec(raise);
}

/** Takes the mark off, in the caller's transaction. */
export function removeMovedMark(database: DatabaseSync): void {
  database.exec(`DROP TABLE IF EXISTS moved_away; ${lower}`);
}

/** @throws Error that says what to do, where a file is marked */
export function refuseMoved(database: DatabaseSync): void {
  const mark = movedMark(database);
  if (!mark) return;
  const { target, at, isDone } = mark;
  const day = new Date(at).toISOString();
  throw new Error(
    isDone
      ? `it was moved to ${target} at ${day}: name that in database.url; postern migrate --undo takes this one back`
      : `a move to ${target} began at ${day} and its end is not known: run the same postern migrate again, which finds out`,
  );
}
