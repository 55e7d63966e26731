// Every command of `postern`, one file each.

import type { CommandTable } from './command-table.ts';

/** The commands in the order of the help. */
export const commands = {
  config: {
    summary: 'Check the configuration, or show what it comes to',
    load: async () => (await import('./config.ts')).configCommands,
  },
} as const satisfies CommandTable;
