// What a guard is, and how lists of them are written.

/** A guard, and what holds it. */
export interface Guard {
  /** Where it is, from the project's root. */
  readonly file: string;
  /** Text that is there once. */
  readonly guard: string;
  /** What stands in its place where it is taken out. The parameters of a statement stay, so that the statement still runs. */
  readonly without: string;
  /** Files of tests, or `FILE > TEXT` for those whose names contain the text; at least one of them has to fail then. */
  readonly tests: readonly string[];
}

/** The guards of one file: text, what stands there without it, and its tests where they are others than the file's. */
type Row = readonly [guard: string, without: string, tests?: readonly string[]];

/** Lists the guards of a file of `src`. @param tests those of all of them */
export function of(file: string, tests: readonly string[], rows: readonly Row[]): readonly Guard[] {
  return rows.map(([guard, without, own]) => ({ file: `src/${file}`, guard, without, tests: own ?? tests }));
}
