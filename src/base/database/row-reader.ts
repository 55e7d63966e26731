// Reads rows into values whose members are named as the columns are, in camel case.

import type { Row } from './database.ts';

type Readers = Readonly<Record<string, (column: unknown) => unknown>>;

/** Makes what reads a row: `{ createdAt: Number }` takes the column created_at. Columns without a reader are left out. */
export function rowReader<Members extends Readers>(
  readers: Members,
): (row: Row) => { readonly [Name in keyof Members]: ReturnType<Members[Name]> } {
  const columns = Object.entries(readers).map(
    ([name, read]) => [name, name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), read] as const,
  );
  return (row) => {
    const value: Record<string, unknown> = {};
    for (const [name, column, read] of columns) value[name] = read(row[column]);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each member is what its reader gave
    return value as { readonly [Name in keyof Members]: ReturnType<Members[Name]> };
  };
}

/** Reads a column that may be NULL, which gives undefined. */
export function orNull<Value>(read: (column: unknown) => Value): (column: unknown) => Value | undefined {
  return (column) => (column === null || column === undefined ? undefined : read(column));
}
