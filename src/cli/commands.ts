// Every command of `postern`, one file each.

import type { CommandTable } from './command-table.ts';

/** The commands in the order of the help. */
export const commands: CommandTable = {
  token: {
    summary: 'Make, list and revoke tokens',
    load: async () => (await import('./token.ts')).tokenCommands,
  },
  dkim: {
    summary: 'Make signing keys and print their DNS records',
    load: async () => (await import('./dkim.ts')).dkimCommands,
  },
  config: {
    summary: 'Check the configuration, or show what it comes to',
    load: async () => (await import('./config.ts')).configCommands,
  },
};
