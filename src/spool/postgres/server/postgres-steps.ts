// Runs what is written once for every engine (core/steps.ts) against PostgreSQL.

import type { Row } from '../../../base/database/database.ts';
import { type Step, type StoreSteps, sendSteps } from '../../core/steps.ts';

/** The statements in PostgreSQL's words, by those of the steps. */
const translated = new Map<string, string>();

function inPostgres(sql: string): string {
  const text = translated.get(sql) ?? sql.replaceAll(/\?(\d+)/g, '$$$1');
  translated.set(sql, text);
  return text;
}

/** Runs work. @param send sends a statement of a transaction, or one of its own */
export function stepsOver<Result>(
  send: (sql: string, values: readonly (null | number | string | Buffer)[]) => Promise<readonly Row[]>,
  steps: StoreSteps<Result>,
): Promise<Result> {
  return sendSteps(steps, ({ sql, values }: Step) =>
    send(
      inPostgres(sql),
      values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value)),
    ),
  );
}
