// Copies the rows of a table.

import type { MovedTable } from './moved-tables.ts';
import type { SourceValue } from './source-file.ts';
import { type Copying, type SentTable, TableWriter } from './table-writer.ts';

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
  const { source, shift } = copying;
  const question = await questionOf(table, copying);
  const found = source.read(table.name, question, question.includes(':shift') ? { shift } : {});
  const { from = '', names = [], of = () => [] } = table.computed ?? {};
  const writer = await TableWriter.open(table.name, [...found.columns, ...names], copying);
  const isLeft = leftRows(table, found.columns, copying);
  const fromAt = found.columns.indexOf(from);
  for (const row of found.rows)
    if (!isLeft(row)) await writer.add(fromAt < 0 ? row : [...row, ...of(String(row[fromAt]))]);
  return await writer.end();
}
