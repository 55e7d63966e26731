import type { Migrations } from '../base/database/database.ts';

/** The tables of accounts: tokens, and the recipients of a day. */
export const accountMigrations: Migrations = {
  owner: 'accounts',
  steps: [
    `CREATE TABLE tokens (
       id TEXT PRIMARY KEY,
       account TEXT NOT NULL,
       credential TEXT NOT NULL,
       sha256 TEXT NOT NULL UNIQUE,
       last_four TEXT NOT NULL,
       label TEXT NOT NULL,
       created_at INTEGER NOT NULL,
       expires_at INTEGER,
       revoked_at INTEGER
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX tokens_of_credential ON tokens (account, credential);
     CREATE TABLE recipients_per_day (
       account TEXT NOT NULL,
       day INTEGER NOT NULL,
       recipients INTEGER NOT NULL,
       PRIMARY KEY (account, day)
     ) STRICT, WITHOUT ROWID;`,
    // NULL: all of the credential's; else words with a blank between them.
    'ALTER TABLE tokens ADD COLUMN scopes TEXT',
  ],
};
