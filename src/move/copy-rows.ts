// Copies the rows of a table, some at a time: while the server writes some, the next are read.

import { storableText } from '../base/database/postgres-pool.ts';
import { errorMessage, Unavailable } from '../base/errors.ts';
import type { MovedTable } from './moved-tables.ts';
import type { SourceFile, SourceRows, SourceValue } from './source-file.ts';
import type { TargetDatabase } from './target-database.ts';

/** Rows and octets of one statement, at most; a single row may have more octets. */
const rowsAtOnce = 1000;
const octetsAtOnce = 1024 * 1024;

/** What copying needs besides a table. */
export interface Copying {
  readonly source: SourceFile;
  readonly target: TargetDatabase;
  /** Milliseconds that are added to times that the spool stores. */
  readonly shift: number;
  /** Messages that are left behind, by id. */
  readonly left: ReadonlyMap<string, string>;
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

function octetsOf(value: SourceValue): number {
  return typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
}

function kept(value: SourceValue): SourceValue {
  if (typeof value === 'string') return storableText(value);
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
}

/** Writes rows of one table. */
class TableWriter {
  readonly #sql: string;
  readonly #table: string;
  readonly #target: TargetDatabase;
  #columns: SourceValue[][];
  #octets = 0;
  #sending: Promise<unknown> = Promise.resolve();
  rows = 0;

  constructor(
    table: string,
    target: TargetDatabase,
    columns: readonly { readonly name: string; readonly type: string }[],
  ) {
    this.#table = table;
    this.#target = target;
    this.#columns = columns.map(() => []);
    const names = columns.map(({ name }) => `"${name}"`).join(', ');
    const arrays = columns.map(({ type }, at) => `$${at + 1}::${type}[]`).join(', ');
    // Numbers that the server gives otherwise are those that SQLite has given.
    this.#sql = `INSERT INTO "${table}" (${names}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest(${arrays})`;
  }

  /** Adds a row. @returns whether the rows that wait are enough for a statement */
  add(row: readonly SourceValue[]): boolean {
    for (const [at, value] of row.entries()) {
      this.#columns[at]?.push(kept(value));
      this.#octets += octetsOf(value);
    }
    this.rows += 1;
    return (this.#columns[0]?.length ?? 0) >= rowsAtOnce || this.#octets >= octetsAtOnce;
  }

  /** Sends the rows that wait, once those before are written. @returns rows and octets that were sent */
  async send(): Promise<{ readonly rows: number; readonly octets: number }> {
    const [columns, octets] = [this.#columns, this.#octets];
    const rows = columns[0]?.length ?? 0;
    this.#columns = columns.map(() => []);
    this.#octets = 0;
    await this.#sending;
    if (rows === 0) return { rows, octets };
    const last = this.rows;
    this.#sending = this.#target.query(this.#sql, columns).catch((thrown: unknown) => {
      if (thrown instanceof Unavailable) throw thrown;
      throw new Error(
        `The target refuses rows ${last - rows + 1} to ${last} of ${this.#table}: ${errorMessage(thrown)}`,
        {
          cause: thrown,
        },
      );
    });
    this.#sending.catch(() => undefined);
    return { rows, octets };
  }

  async end(): Promise<void> {
    await this.#sending;
  }
}

/** Hands rows on, and says where a damaged file cannot be read. */
export function* readableRows(
  { rows }: SourceRows,
  { table, file }: { readonly table: string; readonly file: string },
) {
  let read = 0;
  try {
    for (const row of rows) {
      yield row;
      read += 1;
    }
  } catch (thrown) {
    throw new Error(`"${file}" is damaged: ${table} cannot be read after row ${read}: ${errorMessage(thrown)}`, {
      cause: thrown,
    });
  }
}

/** Copies a table. @returns how many rows were written */
export async function copyRows(table: MovedTable, copying: Copying): Promise<number> {
  const { source, target, shift, left, signal, onCopied } = copying;
  const question = await questionOf(table, copying);
  const found = source.read(question, question.includes(':shift') ? { shift } : {});
  const types = await target.types(table.name);
  const columns = found.columns.map((name) => ({ name, type: types.get(name) ?? '' }));
  const unknown = columns.find(({ type }) => type === '');
  if (unknown) throw new Error(`The target's ${table.name} has no column ${unknown.name}`);
  const writer = new TableWriter(table.name, target, columns);
  const messageAt = table.message === undefined ? -1 : found.columns.indexOf(table.message);
  for (const row of readableRows(found, { table: table.name, file: source.file })) {
    if (messageAt >= 0 && left.has(String(row[messageAt]))) continue;
    if (!writer.add(row)) continue;
    signal.throwIfAborted();
    const sent = await writer.send();
    onCopied(table.name, sent.rows, sent.octets);
  }
  const sent = await writer.send();
  onCopied(table.name, sent.rows, sent.octets);
  await writer.end();
  return writer.rows;
}
