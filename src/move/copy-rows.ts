// Copies the rows of a table, some at a time: while the server writes some, the next are read.

import type { Damaged } from './damaged-rows.ts';
import type { MovedTable } from './moved-tables.ts';
import { readableRows } from './readable-rows.ts';
import type { SentTable } from './row-sum.ts';
import type { SourceFile, SourceValue } from './source-file.ts';
import { TableWriter } from './table-writer.ts';
import type { TargetDatabase } from './target-database.ts';

/** What copying needs besides a table. */
export interface Copying {
  readonly source: SourceFile;
  readonly target: TargetDatabase;
  /** Milliseconds that are added to times that the spool stores. */
  readonly shift: number;
  /** What is left behind. */
  readonly left: Damaged;
  readonly signal: AbortSignal;
  /** Told of rows and octets that were copied since the last call. */
  readonly onCopied: (table: string, rows: number, octets: number) => void;
}

/** The question for a table's rows. @throws Error where the table has other columns than the target's */
async function questionOf({ name, select }: MovedTable, { source, target }: Copying): Promise<string> {
  if (select !== undefined) return select;
  const types = await target.types(name);
  const columns = source.columns(name);
  if (columns.length !== types.size || columns.some((column) => !types.has(column)))
    throw new Error(`Table ${name} has other columns in the target: the two databases are of different releases`);
  return `SELECT ${columns.map((column) => `"${column}"`).join(', ')} FROM "${name}"`;
}

/** Tells which rows of a table are left behind. */
function leftRows({ message, entry }: MovedTable, columns: readonly string[], { left }: Copying) {
  const [messageAt, entryAt] = [columns.indexOf(message ?? ''), columns.indexOf(entry ?? '')];
  return (row: readonly SourceValue[]): boolean =>
    (messageAt >= 0 && left.messages.has(String(row[messageAt]))) ||
    (entryAt >= 0 && left.entries.has(Number(row[entryAt])));
}

/** Copies a table. @returns what was sent */
export async function copyRows(table: MovedTable, copying: Copying): Promise<SentTable> {
  const { source, target, shift, signal, onCopied } = copying;
  const question = await questionOf(table, copying);
  const found = source.read(question, question.includes(':shift') ? { shift } : {});
  const types = await target.types(table.name);
  const { from, names = [], of } = table.computed ?? {};
  const columns = [...found.columns, ...names].map((name) => ({ name, type: types.get(name) ?? '' }));
  const unknown = columns.find(({ type }) => type === '');
  if (unknown) throw new Error(`The target's ${table.name} has no column ${unknown.name}`);
  const writer = new TableWriter(table.name, target, columns);
  const isLeft = leftRows(table, found.columns, copying);
  const fromAt = found.columns.indexOf(from ?? '');
  for (const row of readableRows(found, { table: table.name, file: source.file })) {
    if (isLeft(row)) continue;
    if (!writer.add(of ? [...row, ...of(String(row[fromAt]))] : row)) continue;
    signal.throwIfAborted();
    const sent = await writer.send();
    onCopied(table.name, sent.rows, sent.octets);
  }
  const sent = await writer.send();
  onCopied(table.name, sent.rows, sent.octets);
  await writer.end();
  return { columns, sum: writer.sum };
}
