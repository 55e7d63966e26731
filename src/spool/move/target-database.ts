// The PostgreSQL of a move, written in one transaction: it has everything or nothing, however the move ends.

import pg from 'pg';
import type { Migrations, Row } from '../../base/database/database.ts';
import { openPostgres } from '../../base/database/postgres-database.ts';
import { isLockConflict, storeError, told } from '../../base/database/postgres-errors.ts';
import { singleClient } from '../../base/database/postgres-pool.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import { moveMigrations, tablesWithFirstRows } from './moved-tables.ts';

/** How long a statement may take, in milliseconds: one that writes some rows, and one that counts all of them. */
const writeMs = 60_000;
const countMs = 30 * 60_000;
/** How long to wait for a lock that another program holds, in milliseconds. */
const lockMs = 5000;
/** How long the server keeps a transaction open whose client has gone without a word, in milliseconds. */
const idleMs = 120_000;

/** The connection was lost before the answer to COMMIT came: the target may have kept everything, or nothing. */
export class EndUnknown extends Error {
  override readonly name = 'EndUnknown';
}

/** Finds the tables of a schema that is another program's, which has no such table `migrations`; those of extensions are nobody's. */
const foreignQuestion = `SELECT relname AS name FROM pg_class c
  WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p') AND NOT relispartition
    AND NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('migrations') AND attname = 'owner')
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
  ORDER BY relname LIMIT 5`;

const lockedQuestion = `SELECT relname AS name FROM pg_class
  WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p') ORDER BY relname`;

/** A connection to the target. */
export class TargetDatabase {
  readonly #client: pg.Client;
  /** COMMIT was sent: from here on the connection is not given up. */
  #isCommitting = false;

  /** Connects and makes missing tables. @param parts.signal ends it, if given @throws Error that says what to do where it is no target */
  static async open(parts: {
    readonly url: string;
    readonly migrations: readonly Migrations[];
    readonly signal?: AbortSignal;
  }): Promise<TargetDatabase> {
    const target = new TargetDatabase(parts.url);
    try {
      await told(target.#client.connect());
      const end = (): void => {
        if (!target.#isCommitting) void target.#client.end().catch(() => undefined);
      };
      parts.signal?.addEventListener('abort', end, { once: true });
      await target.#refuseForeign();
      const database = await openPostgres({ url: parts.url, connections: 1 });
      try {
        for (const one of [...parts.migrations, moveMigrations]) await database.migrate(one);
      } finally {
        await database.close();
      }
      return target;
    } catch (thrown) {
      await target[Symbol.asyncDispose]();
      throw thrown;
    }
  }

  private constructor(url: string) {
    this.#client = singleClient(
      { url },
      {
        application_name: 'postern migrate',
        connectionTimeoutMillis: 10_000,
        statement_timeout: countMs,
        lock_timeout: lockMs,
        idle_in_transaction_session_timeout: idleMs,
        query_timeout: writeMs,
      },
    );
    // A connection that breaks is told by the statement that waits for it.
    this.#client.on('error', () => undefined);
  }

  async #refuseForeign(): Promise<void> {
    const names = (await this.query(foreignQuestion)).map((row) => String(row['name']));
    if (names.length === 0) return;
    const shown = names.join(', ');
    throw new Error(
      `The target has tables of another program (${shown}): give Postern a database or a schema of its own`,
    );
  }

  /** Runs a statement. @throws Unavailable where the server is away or busy; Error where the statement is at fault */
  async query(
    sql: string,
    values: readonly (number | string)[] = [],
    { isLong = false } = {},
  ): Promise<readonly Row[]> {
    const config = { text: sql, values: [...values], ...(isLong ? { query_timeout: countMs } : {}) };
    return (await told(this.#client.query<Row>(config))).rows;
  }

  /** Begins the transaction, and keeps others from writing to the tables. @throws Error where a table has rows, or others write */
  async begin(): Promise<void> {
    await this.query('BEGIN');
    const tables = (await this.query(lockedQuestion)).map((row) => String(row['name']));
    await this.#lock(tables);
    const taken: string[] = [];
    for (const name of tables.filter((table) => !tablesWithFirstRows.has(table))) {
      const [row] = await this.query(`SELECT EXISTS (SELECT 1 FROM "${name}") AS taken`);
      if (row?.['taken'] === true) taken.push(name);
    }
    const [state] = await this.query('SELECT last_event FROM spool_state');
    if (Number(state?.['last_event'] ?? 0) > 0) taken.push('mail_events');
    if (taken.length === 0) return;
    throw new Error(
      `The target is not empty: it has rows in ${[...new Set(taken)].join(', ')}. A gateway works or has worked on it; ` +
        'name an empty database or schema',
    );
  }

  /** Keeps others from writing to tables. @throws Error that says what to do, where another program has one of them for long */
  async #lock(tables: readonly string[]): Promise<void> {
    try {
      await this.query(`LOCK TABLE ${tables.map((name) => `"${name}"`).join(', ')} IN EXCLUSIVE MODE`);
    } catch (thrown) {
      if (!(thrown instanceof Unavailable) || !isLockConflict(thrown.cause)) throw thrown;
      throw new Error(
        'Another program works on the tables of the target, such as another move, or the rest of one that was killed: ' +
          'wait for its end, and run this again',
        { cause: thrown },
      );
    }
  }

  /** The types of a table's columns, by name. */
  async types(table: string): Promise<ReadonlyMap<string, string>> {
    const rows = await this.query(
      `SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
       WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
      [table],
    );
    return new Map(rows.map((row) => [String(row['name']), String(row['type'])]));
  }

  /** Undoes what was begun. */
  async undo(): Promise<void> {
    await this.#client.query('ROLLBACK').catch(() => undefined);
  }

  /** Keeps everything, with the id of the move. @throws EndUnknown where nobody can tell; else nothing was kept */
  async commit(id: string, at: number): Promise<void> {
    this.#isCommitting = true;
    await this.query('INSERT INTO moved_here (id, at) VALUES ($1, $2)', [id, at]);
    let command: string;
    try {
      ({ command } = await this.#client.query({ text: 'COMMIT', ...{ query_timeout: countMs } }));
    } catch (thrown) {
      // The server itself says that it has kept nothing; anything else is the connection's.
      if (thrown instanceof pg.DatabaseError && !thrown.code?.startsWith('57')) throw storeError(thrown);
      throw new EndUnknown(errorMessage(thrown), { cause: thrown });
    }
    if (command !== 'COMMIT') throw new Error('The target has undone the move');
  }

  /** Whether a move of before was kept; one still under way is waited for. @throws Error where it does not end in time */
  async hasMove(id: string): Promise<boolean> {
    await this.query('BEGIN');
    try {
      await this.#lock(['moved_here']);
      return (await this.query('SELECT 1 FROM moved_here WHERE id = $1', [id])).length > 0;
    } finally {
      await this.undo();
    }
  }

  /** Closes the connection; a transaction that is open is undone. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }
}
