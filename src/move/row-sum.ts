// The sum of a table's rows, counted once here from what is sent and once in the target from what it has: a row that is missing,
// twice there or changed makes another sum, whatever the order of the rows.

import { hash } from 'node:crypto';
import type { Row } from '../base/database/database.ts';
import type { SourceValue } from './source-file.ts';

/** A column of the target with its type. */
export interface TargetColumn {
  readonly name: string;
  readonly type: string;
}

/** What stands between the values of a row, and for NULL. */
const [between, none] = ['\u{1f}', '\u{1e}'];

/** The value of a column as the target tells it. */
function shown({ name, type }: TargetColumn): string {
  const column = `"${name}"`;
  if (type === 'bytea') return `encode(sha256(${column}), 'hex')`;
  return type === 'uuid' ? `replace(${column}::text, '-', '')` : `${column}::text`;
}

/** The question to the target for the number of a table's rows (`rows`) and their sum (`sum`). */
export function sumQuestion(table: string, columns: readonly TargetColumn[]): string {
  const values = columns.map((column) => `coalesce(${shown(column)}, chr(${none.charCodeAt(0)}))`).join(', ');
  const digest = `sha256(convert_to(concat_ws(chr(${between.charCodeAt(0)}), ${values}), 'UTF8'))`;
  const number = `('x' || encode(substring(${digest} FROM 1 FOR 4), 'hex'))::bit(32)::bigint`;
  return `SELECT count(*) AS rows, coalesce(sum(${number}), 0)::text AS sum FROM "${table}"`;
}

/** A value as `shown` tells it. */
function textOf(value: SourceValue, type: string): string {
  if (value === null) return none;
  if (value instanceof Uint8Array) return hash('sha256', value, 'hex');
  return type === 'uuid' ? String(value).replaceAll('-', '').toLowerCase() : String(value);
}

/** Counts rows that are sent, and adds them up. */
export class RowSum {
  rows = 0;
  #sum = 0n;

  /** Adds a row. @param values as they are sent, in the order of the columns */
  add(values: readonly SourceValue[], columns: readonly TargetColumn[]): void {
    const text = values.map((value, at) => textOf(value, columns[at]?.type ?? '')).join(between);
    this.#sum += BigInt(Number.parseInt(hash('sha256', text, 'hex').slice(0, 8), 16));
    this.rows += 1;
  }

  /** @throws Error where the target's answer to `sumQuestion` is another */
  compare(table: string, told: Row | undefined): void {
    const rows = Number(told?.['rows']);
    if (rows !== this.rows) throw new Error(`The target has ${rows} rows of ${table}, and ${this.rows} were sent`);
    if (told?.['sum'] !== String(this.#sum))
      throw new Error(`The target has rows of ${table} that are not as they were sent`);
  }
}
