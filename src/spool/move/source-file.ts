// The SQLite file that is moved. Nobody else can open it meanwhile, so that nothing changes behind the copy.

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Migrations, SqlValue } from '../../base/database/database.ts';
import { isBusy } from '../../base/database/sqlite-errors.ts';
import {
  cannotOpen,
  type DatabaseSync,
  migrateSqlite,
  movedMark,
  openNamed,
  requireDatabase,
  tablesOf,
} from '../../base/database/sqlite-file.ts';
import { errorMessage, unlessCode } from '../../base/errors.ts';
import { faultOfRow } from '../journal/journal-faults.ts';
import { SqliteJournal } from '../journal/writer/journal-tables.ts';
import { searchColumns } from '../journal/writer/postgres-journal.ts';
import { fileEvents } from '../sqlite/event-follower.ts';
import { unsettle } from '../sqlite/file/settled-octets.ts';
import { isServed } from '../sqlite/file/sqlite-lock.ts';
import { spreadAll } from '../sqlite/in-flight.ts';

/** How long to wait for the end of another command that has the file open, in milliseconds. */
const patienceMs = 2000;

/** A row by the order of its columns; whole numbers beyond 2^53 stay exact. */
export type SourceRow = readonly SqlValue[];

/** Opens a file for this process alone, until it is closed. @throws Error where there is none, or another program has it open */
export function openSource(file: string): DatabaseSync {
  requireDatabase(file);
  if (isServed(file))
    throw new Error(
      `A gateway works on "${file}": stop it first. What clients send meanwhile they keep, and send once it is back`,
    );
  const database = openNamed(file, { timeout: patienceMs });
  try {
    // In this mode SQLite lets nobody else open the file, from the first question to the end of this connection
    // (https://www.sqlite.org/pragma.html#pragma_locking_mode).
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL; BEGIN IMMEDIATE; COMMIT');
    return database;
  } catch (thrown) {
    database.close();
    if (!isBusy(thrown)) throw cannotOpen(file, thrown);
    throw new Error(`Another command has "${file}" open: wait for its end, and run this again`, { cause: thrown });
  }
}

/** Brings the tables up to date, with what is made behind the commits. @throws Error where they are newer than this program */
export function bringUpToDate(source: DatabaseSync, migrations: readonly Migrations[]): void {
  for (const one of migrations) migrateSqlite(source, one);
  unsettle(source);
  fileEvents(source, new SqliteJournal(source));
  spreadAll(source, false);
}

/** Makes the functions by which `movedTables` asks: what the target searches in a row of the journal, and what is not left behind. */
export function defineFunctions(source: DatabaseSync, { messages, entries }: Damaged): void {
  for (const column of ['keys', 'words'] as const)
    source.function(`searched_${column}`, (facts) => searchColumns(String(facts))[column]);
  source.function('is_moved', (message, entry) =>
    messages.has(String(message)) || (entry !== null && entries.has(Number(entry))) ? 0 : 1,
  );
}

/** The one number that a question has for an answer. */
export function numberOf(source: DatabaseSync, sql: string): number {
  return Number(Object.values(source.prepare(sql).get() ?? {})[0] ?? 0);
}

/** Reads rows as they are asked for, with their columns. @param table what errors name where the file is damaged */
export function readRows(
  source: DatabaseSync,
  table: string,
  sql: string,
  named: Readonly<Record<string, number>> = {},
) {
  const statement = source.prepare(sql);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  const columns = statement.columns().map(({ name }) => name);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a row is an array, as was asked for above
  const rows = statement.iterate(named) as unknown as Iterable<SourceRow>;
  return { columns, rows: readable(rows, `"${source.location()}" is damaged: ${table} cannot be read`) };
}

/** Hands rows on. @throws Error that says behind which row they cannot be read */
function* readable(rows: Iterable<SourceRow>, words: string): Generator<SourceRow> {
  let read = 0;
  try {
    for (const row of rows) {
      yield row;
      read += 1;
    }
  } catch (thrown) {
    throw new Error(`${words} after row ${read}: ${errorMessage(thrown)}`, { cause: thrown });
  }
}

/** Counts rows by table, messages and their octets beside a running gateway, and reads the mark. @throws Error where it cannot */
export function lookAtSource(file: string) {
  requireDatabase(file);
  using database = openNamed(file, { readOnly: true, timeout: 5000 });
  try {
    database.exec('BEGIN');
    const count = (name: string): number => numberOf(database, `SELECT count(*) FROM "${name.replaceAll('"', '""')}"`);
    const rows = new Map(tablesOf(database).map((name) => [name, count(name)]));
    const messages = rows.get('spool_messages') ?? 0;
    const octets = messages === 0 ? 0 : numberOf(database, 'SELECT sum(size) FROM spool_messages');
    return { rows, messages, octets, mark: movedMark(database) };
  } catch (cause) {
    throw cannotOpen(file, cause);
  }
}

/** What cannot be moved. */
export interface Damaged {
  /** Messages: their ids, and why. */
  readonly messages: ReadonlyMap<string, string>;
  /** Entries of the journal: their numbers, and why, with their ids. */
  readonly entries: ReadonlyMap<number, string>;
}

/** Nothing is damaged. */
export const noDamage: Damaged = { messages: new Map(), entries: new Map() };

const all = `SELECT id, body_in_file, size - length(head) AS body, coalesce(length(body), 0) AS kept,
    EXISTS (SELECT 1 FROM spool_recipients r WHERE r.message = m.seq) AS has_recipients
  FROM spool_messages m ORDER BY seq`;

/** Looks at every message, and at the size of every body that is a file. */
export async function findDamagedMessages(source: DatabaseSync, bodiesFolder: string): Promise<Damaged['messages']> {
  const damaged = new Map<string, string>();
  for (const [idValue, inFile, body, kept, hasRecipients] of readRows(source, 'spool_messages', all).rows) {
    const id = String(idValue);
    const why = !/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/.test(id)
      ? 'its id is none of Postern'
      : Number(hasRecipients) === 0
        ? 'it has no recipients'
        : Number(inFile) === 1
          ? await faultOfFile(join(bodiesFolder, id), Number(body))
          : Number(body) === Number(kept)
            ? undefined
            : `its body has ${String(kept)} octets of ${String(body)}`;
    if (why !== undefined) damaged.set(id, why);
  }
  return damaged;
}

/** Looks at every entry of the journal, and for content that belongs to none. */
export function findDamagedEntries(source: DatabaseSync): Damaged['entries'] {
  const damaged = new Map<number, string>();
  const rows = 'SELECT seq, id, outcome, waiting, facts, more FROM journal ORDER BY seq';
  for (const [seq, id, outcome, waiting, facts, more] of readRows(source, 'journal', rows).rows) {
    const stored = { outcome: Number(outcome), waiting: Number(waiting), facts: String(facts), more: String(more) };
    const why = faultOfRow(stored);
    if (why !== undefined) damaged.set(Number(seq), `${String(id)}: ${why}`);
  }
  const lost = 'SELECT seq FROM journal_content WHERE seq NOT IN (SELECT seq FROM journal) ORDER BY seq';
  for (const [seq] of readRows(source, 'journal_content', lost).rows)
    damaged.set(Number(seq), 'it has content, and no row');
  return damaged;
}

async function faultOfFile(file: string, octets: number): Promise<string | undefined> {
  const found = await stat(file).catch(unlessCode('ENOENT'));
  if (!found) return `its body "${file}" is missing`;
  return found.size === octets ? undefined : `its body "${file}" has ${found.size} octets of ${octets}`;
}
