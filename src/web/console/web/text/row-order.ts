// Whether a live row fits the filters of a list, and where it belongs: the newest first. Ids begin with the time.

import type { Filters } from './filters.ts';

interface Named {
  readonly id: string;
}

/** Puts rows in their places, or in those of the same messages. @param hasMore older rows follow: those older than all are left out */
export function withRows<Row extends Named>(
  rows: readonly Row[],
  come: readonly Row[],
  hasMore: boolean,
): readonly Row[] {
  const oldest = hasMore ? rows.at(-1)?.id : undefined;
  const all = new Map([...rows, ...come].map((row) => [row.id, row]));
  return [...all.values()]
    .filter(({ id }) => oldest === undefined || id >= oldest)
    .toSorted((one, two) => (one.id < two.id ? 1 : -1));
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
