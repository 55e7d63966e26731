// Statements that are written once for every engine: a generator hands them out and is handed the rows. SQLite runs them at once,
// on its thread; PostgreSQL sends those that come together without waiting for the answers in between.

import type { Row, SqlValue } from '../../base/database/database.ts';

/** A statement that both engines understand; its values are `?1`, `?2` and so on. */
export interface Step {
  readonly sql: string;
  readonly values: readonly SqlValue[];
  /** A server plans it for these very values, and so looks at those partitions alone that they leave. */
  readonly isPlannedAnew?: true;
}

/** Work on the tables: hands out statements, and is handed the rows of each. */
export type StoreSteps<Result> = Generator<readonly Step[], Result, readonly (readonly Row[])[]>;

/** Makes a statement. @param sql a constant: engines keep it prepared */
export function step(sql: string, ...values: readonly SqlValue[]): Step {
  return { sql, values };
}

/** Hands out one statement. @returns its rows */
export function* ask(sql: string, ...values: readonly SqlValue[]): StoreSteps<readonly Row[]> {
  const [rows = []] = yield [step(sql, ...values)];
  return rows;
}

/** Hands out one statement that is planned for its values. @returns its rows */
export function* askAnew(sql: string, ...values: readonly SqlValue[]): StoreSteps<readonly Row[]> {
  const [rows = []] = yield [{ sql, values, isPlannedAnew: true }];
  return rows;
}

/** Does several works side by side: what each of them asks next goes out together. */
export function* together<Result>(works: readonly StoreSteps<Result>[]): StoreSteps<readonly Result[]> {
  const nexts = works.map((work) => work.next());
  for (;;) {
    const asked = nexts.map((next) => (next.done === true ? [] : next.value));
    if (asked.every(({ length }) => length === 0)) break;
    const answers = (yield asked.flat()).values();
    for (const [at, { length }] of asked.entries()) {
      const work = length === 0 ? undefined : works[at];
      if (work) nexts[at] = work.next(answers.take(length).toArray());
    }
  }
  return nexts.flatMap((next) => (next.done === true ? [next.value] : []));
}
