// `postern config`: the configuration, checked and shown.

import { defineGroup } from './command-table.ts';

/** The commands about the configuration. */
export const configCommands = defineGroup(
  'config',
  { summary: 'Check the configuration, or show what it comes to' },
  {},
);
