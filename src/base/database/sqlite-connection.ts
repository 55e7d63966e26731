// One SQLite connection with a bounded cache of prepared statements.

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt, Change, Row } from './database.ts';
import type { Wanted } from './database-protocol.ts';
import { constraintOf } from './sqlite-errors.ts';

/** How many prepared statements are kept. All stores together use about half as many. */
const mostPrepared = 256;

/**
 * Numbered parameters as SQLite takes them by their number. `$1` would be a name there, and each name is looked for among all
 * of the statement: with a thousand of them, a million comparisons.
 */
function numbered(sql: string): string {
  return sql.replaceAll(/\$(?=\d)/g, '?');
}

/** A connection that runs statements with numbered parameters. */
export class SqliteConnection {
  readonly database: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();

  /** @param database an open database, which the caller closes */
  constructor(database: DatabaseSync) {
    this.database = database;
  }

  /** Runs a statement. @throws what SQLite throws, except that an attempt returns a violated constraint */
  run({ sql, params = [] }: Change, wanted: Wanted): readonly Row[] | number | Attempt {
    if (wanted === 'rows') return this.#prepare(sql).all(...params);
    if (wanted === 'changes') return Number(this.#prepare(sql).run(...params).changes);
    try {
      return { changes: Number(this.#prepare(sql).run(...params).changes) };
    } catch (thrown) {
      const stoppedBy = constraintOf(thrown);
      if (!stoppedBy || !(thrown instanceof Error)) throw thrown;
      return { stoppedBy, text: thrown.message };
    }
  }

  /** Prepares a statement or takes it from the cache, which drops the one that was used longest ago when it is full. */
  #prepare(sql: string): StatementSync {
    const found = this.#prepared.get(sql);
    if (found) {
      this.#prepared.delete(sql);
      this.#prepared.set(sql, found);
      return found;
    }
    const statement = this.database.prepare(numbered(sql));
    this.#prepared.set(sql, statement);
    const [oldest] = this.#prepared.keys();
    if (this.#prepared.size > mostPrepared && oldest !== undefined) this.#prepared.delete(oldest);
    return statement;
  }
}
