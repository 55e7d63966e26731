// The table of figures by minute.

import type { Migrations } from '../../base/database/database.ts';

/** The tables of this room. */
export const figureMigrations: Migrations = {
  owner: 'figures',
  steps: [
    // minute: minutes since 1970.
    `CREATE TABLE minute_figures (
       account TEXT NOT NULL,
       minute INTEGER NOT NULL,
       name TEXT NOT NULL,
       count INTEGER NOT NULL,
       PRIMARY KEY (account, minute, name)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX minute_figures_by_minute ON minute_figures (minute);`,
  ],
};
