// postern db: commands about the database.

import { defineGroup } from '../command/command-table.ts';

/** postern db check */
export const dbCommands = defineGroup(
  'db',
  { summary: 'Look how the database is' },
  {
    check: {
      summary: 'Tell how the database is, and what is wrong with it',
      load: async () => (await import('./db-check.ts')).dbCheck,
    },
  },
);
