// Whether a live row fits the filters of a list, and where it belongs: the newest first. Ids begin with the time.

import type { Filters } from './filters.ts';

interface Named {
  readonly id: string;
}

/** Parts rows by a question: those of which it is true, and the others. */
export function parted<Row>(
  rows: readonly Row[],
  isOf: (row: Row) => boolean,
): readonly [readonly Row[], readonly Row[]] {
  return [rows.filter(isOf), rows.filter((row) => !isOf(row))];
}

/** Whether a row is newer than all of a list. */
export function isNewer(rows: readonly Named[], { id }: Named): boolean {
  const [first] = rows;
  return first === undefined || id > first.id;
}

/** Puts a row in its place, or in that of the same message. @param hasMore older rows follow: an older one is left out */
export function withRow<Row extends Named>(rows: readonly Row[], row: Row, hasMore: boolean): readonly Row[] {
  const known = rows.findIndex(({ id }) => id === row.id);
  if (known !== -1) return rows.with(known, row);
  const at = rows.findIndex(({ id }) => id < row.id);
  if (at !== -1) return rows.toSpliced(at, 0, row);
  return hasMore ? rows : [...rows, row];
}

/** Puts rows in their places, as `withRow` does with one. */
export function withRows<Row extends Named>(
  rows: readonly Row[],
  come: readonly Row[],
  hasMore: boolean,
): readonly Row[] {
  return come.reduce((list, row) => withRow(list, row, hasMore), rows);
}

/** Rows that have come while the reader looks at older ones. */
export interface Waiting<Row> {
  /** The newest of them, the newest first. */
  readonly rows: readonly Row[];
  readonly count: number;
}

/** Adds rows that are newer than the list to those that wait. @param most rows that are kept; beyond it they are counted alone */
export function withWaiting<Row extends Named>(
  { rows, count }: Waiting<Row>,
  come: readonly Row[],
  most: number,
): Waiting<Row> {
  const oldest = rows.at(-1);
  const known = new Set(rows.map(({ id }) => id));
  // One that was counted and is not kept any more has changed.
  const isLeftOut = ({ id }: Row): boolean => count > rows.length && oldest !== undefined && id < oldest.id;
  const kept = come.filter((row) => !isLeftOut(row));
  const added = kept.filter(({ id }) => !known.has(id)).length;
  return { rows: withRows(rows, kept, false).slice(0, most), count: count + added };
}

interface FilteredRow {
  readonly outcome: string;
  readonly shadow?: boolean;
  readonly credential?: string | null;
  readonly client?: string | null;
  readonly subject?: string | null;
  readonly sender?: string | null;
  readonly recipients: readonly string[];
  readonly codes: readonly string[];
  readonly fields: readonly string[];
}

/** Words of a text in lower case: runs of letters and digits. */
function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** Whether every word of a search begins a word of the row's subject and addresses. */
function isFound(search: string, { subject, sender, recipients }: FilteredRow): boolean {
  const words = wordsOf([subject ?? '', sender ?? '', ...recipients].join(' '));
  return wordsOf(search).every((wanted) => words.some((word) => word.startsWith(wanted)));
}

/** Whether a row fits the filters; those about time do not matter to a row that has just come. */
export function fitsFilters(row: FilteredRow, filters: Filters): boolean {
  const { outcome, credential, client, code, field, shadow, q } = filters;
  if (outcome !== undefined && row.outcome !== outcome) return false;
  if (shadow !== undefined && (row.shadow ?? false) !== (shadow === 'true')) return false;
  if (credential !== undefined && row.credential !== credential) return false;
  if (client !== undefined && row.client !== client) return false;
  if (code !== undefined && !row.codes.includes(code)) return false;
  if (field !== undefined && !row.fields.some((name) => name.toLowerCase() === field.toLowerCase())) return false;
  return q === undefined || isFound(q, row);
}
