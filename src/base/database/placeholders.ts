// Parameters of statements that take many rows at once.

/** Writes `($1, $2), ($3, $4)` for so many rows. @param first number of the first parameter */
export function placeholders(rows: number, columns: number, first = 1): string {
  const row = (at: number): string =>
    `(${Array.from({ length: columns }, (_, column) => `$${at * columns + column + first}`).join(', ')})`;
  return Array.from({ length: rows }, (_, at) => row(at)).join(', ');
}
