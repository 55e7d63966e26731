// Keeps what the API put of custom errors, on the database (D65, D89, D94).

import type { Clock } from '../../base/clock.ts';
import type { Database, Migrations, Row } from '../../base/database/database.ts';
import { orNull, rowReader } from '../../base/database/row-reader.ts';

/** The table of custom errors. A row whose body is gone says that the file counts again. */
export const customErrorMigrations: Migrations = {
  owner: 'edge',
  steps: [
    `CREATE TABLE edge_custom_errors (
       level TEXT NOT NULL,
       owner TEXT NOT NULL,
       kind TEXT NOT NULL,
       version INTEGER NOT NULL,
       revision INTEGER NOT NULL,
       updated_at INTEGER NOT NULL,
       body TEXT,
       PRIMARY KEY (level, owner, kind)
     ) STRICT;
     CREATE UNIQUE INDEX edge_custom_errors_by_revision ON edge_custom_errors (revision);`,
  ],
  told: [{ table: 'edge_custom_errors' }],
};

/** Rules or the page. */
export type CustomErrorKind = 'rules' | 'page';

/** Whose custom errors. */
export interface CustomErrorOwner {
  readonly level: 'zone' | 'account';
  /** 32 hex, lower case. */
  readonly id: string;
}

/** What the API put last for one owner and kind. */
export interface StoredCustomErrors {
  readonly level: string;
  readonly owner: string;
  readonly kind: string;
  /** 1 for the first change of this owner and kind, one more for each that follows. */
  readonly version: number;
  /** Greater than that of every earlier change of anything here. */
  readonly revision: number;
  /** Milliseconds since 1970. */
  readonly updatedAt: number;
  /** The rules as JSON, or the page; absent where it was taken back. */
  readonly body?: string | undefined;
}

const storedOf: (row: Row) => StoredCustomErrors = rowReader({
  ...{ level: String, owner: String, kind: String, version: Number, revision: Number, updatedAt: Number },
  body: orNull(String),
});

const last = 'SELECT coalesce(max(revision), 0) AS revision FROM edge_custom_errors';

const put = `INSERT INTO edge_custom_errors (level, owner, kind, version, revision, updated_at, body)
  VALUES ($1, $2, $3, 1, (${last}) + 1, $4, $5)
  ON CONFLICT (level, owner, kind) DO UPDATE SET version = edge_custom_errors.version + 1,
    revision = excluded.revision, updated_at = excluded.updated_at, body = excluded.body
    WHERE CAST($6 AS INTEGER) IS NULL OR edge_custom_errors.version = CAST($6 AS INTEGER) RETURNING *`;

/** Opens the store of the custom errors of all owners; the database is brought up to date. */
export async function openCustomErrorStore(database: Database, clock: Clock) {
  await database.migrate(customErrorMigrations);
  return {
    /** Puts, or takes back, on disk when it resolves. @param ifVersion 0 before the first @returns undefined where another is there */
    async put({ level, id }: CustomErrorOwner, kind: CustomErrorKind, body: string | undefined, ifVersion?: number) {
      const values = [level, id, kind, clock.now(), body ?? null, ifVersion ?? null];
      // In a transaction: whatever processes put at the same time, each has a revision of its own.
      const [row] = await database.transaction((transaction) => transaction.query(put, values));
      if (!row && ifVersion === undefined) throw new Error('The database kept no custom errors');
      return row && storedOf(row);
    },
    /** The revision of the last change by any process; 0 before the first. */
    async revision(): Promise<number> {
      const [row] = await database.query(last);
      return Number(row?.['revision']);
    },
    /** What changed after a revision, in the order of the changes. */
    async changedSince(revision: number): Promise<readonly StoredCustomErrors[]> {
      const changed = 'SELECT * FROM edge_custom_errors WHERE revision > $1 ORDER BY revision';
      return (await database.query(changed, [revision])).map(storedOf);
    },
  };
}

/** The stored custom errors of all owners. */
export type CustomErrorStore = Awaited<ReturnType<typeof openCustomErrorStore>>;
