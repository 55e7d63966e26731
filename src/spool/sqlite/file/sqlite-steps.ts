// Runs what is written once for every engine (core/steps.ts) on a connection of SQLite.

import type { Row } from '../../../base/database/database.ts';
import type { DatabaseSync, StatementSync } from '../../../base/database/sqlite-file.ts';
import type { Step, StoreSteps } from '../../core/steps.ts';

/** Runs work in the caller's transaction, or each statement in one of its own if there is none. @throws what SQLite throws */
export type RunSteps = <Result>(steps: StoreSteps<Result>) => Result;

/** Makes what runs work on a connection; its statements stay prepared. */
export function stepsOn(database: DatabaseSync): RunSteps {
  const prepared = new Map<string, StatementSync>();
  const run = ({ sql, values }: Step): readonly Row[] => {
    const statement = prepared.get(sql) ?? database.prepare(sql);
    prepared.set(sql, statement);
    return statement.all(...values);
  };
  return (steps) => {
    let next = steps.next();
    while (next.done !== true) next = steps.next(next.value.map(run));
    return next.value;
  };
}
