// Counts what each thread asks SQLite: `node --import ./bench/count-statements.ts ...` with COUNT_STATEMENTS=FILE. At its end each
// thread that has run a statement writes a line of JSON to FILE: how often it ran each statement, and how many transactions.

import { appendFileSync } from 'node:fs';
import { DatabaseSync, StatementSync } from 'node:sqlite';

const file = process.env['COUNT_STATEMENTS'];
const counts = new Map<string, number>();
let isCounting = true;

function count(sql: string): void {
  if (isCounting) counts.set(sql, (counts.get(sql) ?? 0) + 1);
}

for (const method of ['run', 'get', 'all', 'iterate'] as const) {
  const real: unknown = Reflect.get(StatementSync.prototype, method);
  if (typeof real !== 'function') continue;
  Object.defineProperty(StatementSync.prototype, method, {
    configurable: true,
    value(this: StatementSync, ...values: unknown[]) {
      count(this.sourceSQL);
      return Reflect.apply(real, this, values);
    },
  });
}
const realExec: unknown = Reflect.get(DatabaseSync.prototype, 'exec');
Object.defineProperty(DatabaseSync.prototype, 'exec', {
  configurable: true,
  value(this: DatabaseSync, sql: string) {
    if (sql.length < 100) count(sql);
    if (typeof realExec === 'function') Reflect.apply(realExec, this, [sql]);
  },
});

process.on('exit', () => {
  isCounting = false;
  if (file !== undefined && counts.size > 0) appendFileSync(file, `${JSON.stringify([...counts])}\n`);
});
