// Rows of the source, with an error that says what is damaged.

import { errorMessage } from '../base/errors.ts';
import type { SourceRows, SourceValue } from './source-file.ts';

/** Hands rows on, and says where a damaged file cannot be read. */
export function* readableRows(
  { rows }: SourceRows,
  { table, file }: { readonly table: string; readonly file: string },
): Generator<readonly SourceValue[]> {
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
