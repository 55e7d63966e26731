// The tables of the console: sessions, and links that sign in once.

import type { Migrations } from '../../base/database/database.ts';

/** The tables of this room. */
export const consoleMigrations: Migrations = {
  owner: 'console',
  steps: [
    // `token` is the hash of the token that signed in, sealed by the session's secret; NULL: a link signed in.
    `CREATE TABLE console_sessions (
       sha256 TEXT PRIMARY KEY,
       account TEXT NOT NULL,
       credential TEXT NOT NULL,
       token TEXT,
       created_at INTEGER NOT NULL,
       expires_at INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX console_sessions_of_account ON console_sessions (account, created_at);
     CREATE INDEX console_sessions_by_age ON console_sessions (created_at);
     CREATE INDEX console_sessions_by_end ON console_sessions (expires_at);
     CREATE TABLE console_links (
       sha256 TEXT PRIMARY KEY,
       account TEXT NOT NULL,
       credential TEXT NOT NULL,
       created_at INTEGER NOT NULL,
       expires_at INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;`,
  ],
};
