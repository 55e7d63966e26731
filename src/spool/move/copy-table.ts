// Copies rows to tables of the target, some at a time. Of each table the rows are counted and added up, here as they are sent and later in the target: a row that is missing, twice there or changed makes another sum.

import { hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import type { SqlValue } from '../../base/database/database.ts';
import { storableText } from '../../base/database/postgres-pool.ts';
import type { DatabaseSync } from '../../base/database/sqlite-file.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import { Part } from '../../base/part.ts';
import { partOctets } from '../postgres/added-messages.ts';
import type { MovedTable } from './moved-tables.ts';
import { readRows, type SourceRow } from './source-file.ts';
import type { TargetDatabase } from './target-database.ts';

/** Rows and octets of one statement, at most; a single row may have more octets. */
const rowsAtOnce = 1000;
const octetsAtOnce = 1024 * 1024;

/** What copying needs besides a table. */
export interface Copying {
  readonly source: DatabaseSync;
  readonly target: TargetDatabase;
  /** Milliseconds that are added to times that the spool stores. */
  readonly shift: number;
  readonly signal: AbortSignal;
  /** Told of rows and octets that were copied since the last call. */
  readonly onCopied: (table: string, rows: number, octets: number) => void;
}

/** What stands between the values of a row, and for NULL, where rows are added up. */
const [between, none] = ['\u{1f}', '\u{1e}'];

type Column = Readonly<Record<'name' | 'type', string>>;

/** The value of a column as the target tells it where rows are added up; `textOf` tells it alike. */
function shown({ name, type }: Column): string {
  if (type === 'bytea') return `encode(sha256("${name}"), 'hex')`;
  return type === 'uuid' ? `replace("${name}"::text, '-', '')` : `"${name}"::text`;
}

function textOf(value: SqlValue, type: string | undefined): string {
  if (value === null) return none;
  if (value instanceof Uint8Array) return hash('sha256', value, 'hex');
  return type === 'uuid' ? String(value).replaceAll('-', '').toLowerCase() : String(value);
}

class SentTable extends Part<{ readonly name: string; readonly columns: readonly Column[] }> {
  readonly name = this.parts.name;
  rows = 0;
  /** Those of its columns that are octets. */
  octets = 0;
  #sum = 0n;

  /** Adds a row. @param values as they are sent, in the order of the columns */
  add(values: SourceRow): void {
    const text = values.map((value, at) => textOf(value, this.parts.columns[at]?.type)).join(between);
    this.#sum += BigInt(Number.parseInt(hash('sha256', text, 'hex').slice(0, 8), 16));
    this.rows += 1;
    for (const value of values) if (value instanceof Uint8Array) this.octets += value.length;
  }

  /** @throws Error where the target has other rows */
  async verify(target: TargetDatabase): Promise<void> {
    const values = this.parts.columns
      .map((column) => `coalesce(${shown(column)}, chr(${none.charCodeAt(0)}))`)
      .join(', ');
    const digest = `sha256(convert_to(concat_ws(chr(${between.charCodeAt(0)}), ${values}), 'UTF8'))`;
    const number = `('x' || encode(substring(${digest} FROM 1 FOR 4), 'hex'))::bit(32)::bigint`;
    const question = `SELECT count(*) AS rows, coalesce(sum(${number}), 0)::text AS sum FROM "${this.name}"`;
    const [told] = await target.query(question, [], { isLong: true });
    const rows = Number(told?.['rows']);
    if (rows !== this.rows) throw new Error(`The target has ${rows} rows of ${this.name}, and ${this.rows} were sent`);
    if (told?.['sum'] !== String(this.#sum))
      throw new Error(`The target has rows of ${this.name} that are not as they were sent`);
  }
}

/** A value in the JSON of a statement, in the form that the server reads for a column of any type. */
function jsonOf(value: SqlValue): string | number | null {
  if (value instanceof Uint8Array)
    return `\\x${Buffer.from(value.buffer, value.byteOffset, value.length).toString('hex')}`;
  return typeof value === 'bigint' ? String(value) : value;
}

/** Writes rows to a table. @throws Error where the target has no such column, or refuses a row */
async function writeRows(
  table: string,
  names: readonly string[],
  rows: Iterable<SourceRow> | AsyncIterable<SourceRow>,
  { target, signal, onCopied }: Copying,
): Promise<SentTable> {
  const types = await target.types(table);
  const unknown = names.find((name) => !types.has(name));
  if (unknown !== undefined) throw new Error(`The target's ${table} has no column ${unknown}`);
  const columns = names.map((name) => ({ name, type: types.get(name) ?? '' }));
  const sent = new SentTable({ name: table, columns });
  const list = names.map((name) => `"${name}"`).join(', ');
  // Numbers that the server gives otherwise are those that SQLite has given.
  const sql = `INSERT INTO "${table}" (${list}) OVERRIDING SYSTEM VALUE
    SELECT ${list} FROM json_populate_recordset(NULL::"${table}", $1::json)`;
  let [waiting, octets]: [string[], number] = [[], 0];
  const send = async (): Promise<void> => {
    signal.throwIfAborted();
    if (waiting.length === 0) return;
    try {
      await target.query(sql, [`[${waiting.join(',')}]`]);
    } catch (thrown) {
      if (thrown instanceof Unavailable) throw thrown;
      const which = `rows ${sent.rows - waiting.length + 1} to ${sent.rows} of ${table}`;
      throw new Error(`The target refuses ${which}: ${errorMessage(thrown)}`, { cause: thrown });
    }
    onCopied(table, waiting.length, octets);
    [waiting, octets] = [[], 0];
  };
  for await (const row of rows) {
    // JSON could tell of half a character, which neither the server nor UTF-8 has.
    const kept = row.map((value) => (typeof value === 'string' ? storableText(value).toWellFormed() : value));
    sent.add(kept);
    waiting.push(JSON.stringify(Object.fromEntries(kept.map((value, at) => [names[at], jsonOf(value)]))));
    for (const value of kept) octets += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
    if (waiting.length >= rowsAtOnce || octets >= octetsAtOnce) await send();
  }
  await send();
  return sent;
}

/** The question for a table's rows. @throws Error where the table has other columns than the target's */
async function questionOf(table: MovedTable, { source, target }: Copying): Promise<string> {
  const { name, select, times = [], made = {}, left = [], where = 'true' } = table;
  if (select !== undefined) return select;
  const columns = [...(await target.types(name)).keys()];
  const { columns: stored } = readRows(source, name, `SELECT * FROM "${name}"`);
  const own = new Set([...stored, ...Object.keys(made)]).difference(new Set(left));
  if (own.size !== columns.length || columns.some((column) => !own.has(column)))
    throw new Error(`Table ${name} has other columns in the target: the two databases are of different releases`);
  const values = columns.map((column) => made[column] ?? `"${column}"${times.includes(column) ? ' + :shift' : ''}`);
  return `SELECT ${columns.map((column, at) => `${values[at]} AS "${column}"`).join(', ')} FROM "${name}" WHERE ${where}`;
}

/** Copies a table, without the rows that are left behind. */
export async function copyRows(table: MovedTable, copying: Copying): Promise<SentTable> {
  const { source, shift } = copying;
  const question = await questionOf(table, copying);
  const found = readRows(source, table.name, question, question.includes(':shift') ? { shift } : {});
  return await writeRows(table.name, found.columns, found.rows, copying);
}

const messages = 'SELECT id, body_in_file, size, head, body FROM spool_messages WHERE is_moved(id, NULL) ORDER BY seq';

function bytes(value: SqlValue | undefined): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array(0);
}

/** The octets of the messages: heads, bodies in the database, and bodies that are files, of which a few parts are in memory at a time. */
async function* octetsOf({ source }: Copying, bodiesFolder: string): AsyncGenerator<SourceRow> {
  for (const row of readRows(source, 'spool_messages', messages).rows) {
    const id = String(row[0]);
    const [head, body] = [bytes(row[3]), bytes(row[4])];
    if (head.length + body.length > 0) yield [id, 0, Buffer.concat([head, body])];
    if (Number(row[1]) === 0) continue;
    let [part, read] = [0, 0];
    const file = join(bodiesFolder, id);
    const pieces: AsyncIterable<Buffer> = createReadStream(file, { highWaterMark: partOctets });
    for await (const piece of pieces) {
      read += piece.length;
      yield [id, (part += 1), piece];
    }
    if (read !== Number(row[2]) - head.length) throw new Error(`The body "${file}" has changed while it was copied`);
  }
}

/** Copies the octets of every message that is not left behind. */
export async function copyOctets(copying: Copying, bodiesFolder: string): Promise<SentTable> {
  const names = ['message', 'part', 'octets'];
  return await writeRows('spool_octets', names, octetsOf(copying, bodiesFolder), copying);
}
