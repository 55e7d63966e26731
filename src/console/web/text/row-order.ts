// Where a row that a live stream tells of belongs in a list, the newest first. Ids begin with the time of their message.

interface Named {
  readonly id: string;
}

/** Whether a row is newer than all of a list. */
export function isNewer(rows: readonly Named[], { id }: Named): boolean {
  const [first] = rows;
  return first === undefined || id > first.id;
}

/**
 * Puts a row in its place, or in the place of the same message. What has become of an older message brings its row, too.
 * @param hasMore whether older rows follow that are not loaded: one of them is left out
 */
export function withRow<Row extends Named>(rows: readonly Row[], row: Row, hasMore: boolean): readonly Row[] {
  const known = rows.findIndex(({ id }) => id === row.id);
  if (known !== -1) return rows.with(known, row);
  const at = rows.findIndex(({ id }) => id < row.id);
  if (at !== -1) return rows.toSpliced(at, 0, row);
  return hasMore ? rows : [...rows, row];
}
