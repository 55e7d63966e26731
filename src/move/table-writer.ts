// Writes rows of one table to the target, some at a time: while the server writes some, the next are gathered.

import { storableText } from '../base/database/postgres-pool.ts';
import { errorMessage, Unavailable } from '../base/errors.ts';
import type { Damaged } from './damaged-rows.ts';
import { RowSum, type TargetColumn } from './row-sum.ts';
import type { SourceFile, SourceValue } from './source-file.ts';
import type { TargetDatabase, TargetValue } from './target-database.ts';

/** Rows and octets of one statement, at most; a single row may have more octets. */
const rowsAtOnce = 1000;
const octetsAtOnce = 1024 * 1024;

function octetsOf(value: SourceValue): number {
  return typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
}

/** One column of the rows that wait. */
interface Gathered {
  readonly type: string;
  /** What becomes of the column in the statement: a value of `new`, or a part of all octets. */
  readonly taken: string;
  /** Types and names of its columns in `new`. */
  readonly arrays: readonly (readonly [type: string, name: string])[];
}

// The octets of all rows come in one value, because octets in an array would be sent as text. Counted from 1; 0: NULL.
function gatheredOf({ type }: TargetColumn, at: number): Gathered {
  if (type !== 'bytea') return { type, taken: `new.c${at}`, arrays: [[type, `c${at}`]] };
  const part = `substring($1::bytea FROM new.c${at} FOR new.l${at})`;
  return {
    ...{ type, taken: `CASE WHEN new.c${at} > 0 THEN ${part} END` },
    arrays: [
      ['integer', `c${at}`],
      ['integer', `l${at}`],
    ],
  };
}

function hasOctets(gathered: readonly Gathered[]): boolean {
  return gathered.some(({ type }) => type === 'bytea');
}

function insertOf(table: string, columns: readonly TargetColumn[], gathered: readonly Gathered[]): string {
  const names = columns.map(({ name }) => `"${name}"`).join(', ');
  const arrays = gathered.flatMap((one) => one.arrays);
  const first = hasOctets(gathered) ? 2 : 1;
  const lists = arrays.map(([type], at) => `$${at + first}::${type}[]`).join(', ');
  // Numbers that the server gives otherwise are those that SQLite has given.
  return `INSERT INTO "${table}" (${names}) OVERRIDING SYSTEM VALUE
    SELECT ${gathered.map(({ taken }) => taken).join(', ')} FROM unnest(${lists}) AS new (${arrays.map(([, name]) => name).join(', ')})`;
}

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

/** What was sent to a table. */
export interface SentTable {
  readonly columns: readonly TargetColumn[];
  readonly sum: RowSum;
  /** Octets of its columns that are octets. */
  readonly octets: number;
}

/** Writes rows of one table: while the server writes some, the next are gathered. */
export class TableWriter {
  readonly #sum = new RowSum();
  readonly #sql: string;
  readonly #table: string;
  readonly #copying: Copying;
  readonly #columns: readonly TargetColumn[];
  readonly #gathered: readonly Gathered[];
  #lists: SourceValue[][] = [];
  #pieces: Uint8Array[] = [];
  #pieceOctets = 0;
  #octets = 0;
  #allOctets = 0;
  #sending: Promise<unknown> = Promise.resolve();

  /** @throws Error where the target's table has no such column */
  static async open(table: string, names: readonly string[], copying: Copying): Promise<TableWriter> {
    const types = await copying.target.types(table);
    const columns = names.map((name) => ({ name, type: types.get(name) ?? '' }));
    const unknown = columns.find(({ type }) => type === '');
    if (unknown) throw new Error(`The target's ${table} has no column ${unknown.name}`);
    return new TableWriter(table, columns, copying);
  }

  private constructor(table: string, columns: readonly TargetColumn[], copying: Copying) {
    this.#table = table;
    this.#copying = copying;
    this.#columns = columns;
    this.#gathered = columns.map(gatheredOf);
    this.#sql = insertOf(table, columns, this.#gathered);
    this.#clear();
  }

  #clear(): void {
    this.#lists = this.#gathered.flatMap(({ arrays }) => arrays.map(() => []));
    this.#pieces = [];
    this.#pieceOctets = 0;
    this.#octets = 0;
  }

  /** The values of one column's lists. */
  #valuesOf(value: SourceValue, type: string): readonly SourceValue[] {
    if (type !== 'bytea') return [value];
    if (!(value instanceof Uint8Array)) return [0, 0];
    const start = this.#pieceOctets + 1;
    this.#pieces.push(value);
    this.#pieceOctets += value.length;
    return [start, value.length];
  }

  /** Adds a row, whose octets must not change any more, and sends the rows that wait once they are enough for a statement. */
  async add(row: readonly SourceValue[]): Promise<void> {
    const kept = row.map((value) => (typeof value === 'string' ? storableText(value) : value));
    let list = 0;
    for (const [at, { type }] of this.#gathered.entries()) {
      const value = kept[at] ?? null;
      this.#octets += octetsOf(value);
      for (const one of this.#valuesOf(value, type)) {
        this.#lists[list]?.push(one);
        list += 1;
      }
    }
    this.#sum.add(kept, this.#columns);
    if ((this.#lists[0]?.length ?? 0) >= rowsAtOnce || this.#octets >= octetsAtOnce) await this.#send();
  }

  /** Sends the rows that wait, once those before are written. */
  async #send(): Promise<void> {
    const { signal, target, onCopied } = this.#copying;
    signal.throwIfAborted();
    const [lists, pieces, length, octets] = [this.#lists, this.#pieces, this.#pieceOctets, this.#octets];
    const rows = lists[0]?.length ?? 0;
    this.#clear();
    await this.#sending;
    if (rows === 0) return;
    const last = this.#sum.rows;
    const values: readonly TargetValue[] = [
      ...(hasOctets(this.#gathered) ? [Buffer.concat(pieces, length)] : []),
      ...lists,
    ];
    this.#sending = target.query(this.#sql, values).catch((thrown: unknown) => {
      if (thrown instanceof Unavailable) throw thrown;
      throw new Error(
        `The target refuses rows ${last - rows + 1} to ${last} of ${this.#table}: ${errorMessage(thrown)}`,
        { cause: thrown },
      );
    });
    this.#sending.catch(() => undefined);
    this.#allOctets += length;
    onCopied(this.#table, rows, octets);
  }

  /** Sends what waits, and waits until everything is written. @throws Error where the target refuses it */
  async end(): Promise<SentTable> {
    await this.#send();
    await this.#sending;
    return { columns: this.#columns, sum: this.#sum, octets: this.#allOctets };
  }
}
