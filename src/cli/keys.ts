// `postern keys` makes the key that authenticates the tokens in reverse-paths (D26, D92).

import { randomSecret } from '../base/ids.ts';
import { createFile, replaceFile } from '../bootstrap/key-files.ts';
import { configOption, defineCommand } from './command/command.ts';
import { defineGroup } from './command/command-table.ts';
import { configExitCode, configFor } from './command/load-config.ts';

const hmac = defineCommand({
  name: 'hmac',
  summary: 'Make the key that authenticates the addresses of bounces',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details: `Writes platform.hmacKeyFile of the configuration (mode 0600): 256 random bits as text. Keep the file: with another
key, bounces of mail that was sent before cannot be told from forged ones. A key that is there is only replaced with --force.`,
  options: { force: { summary: 'replace the key that is there' }, ...configOption },
  examples: ['postern keys hmac'],
  exitCodes: { 1: 'there is a key already', ...configExitCode },
  run({ options }, io) {
    const file = configFor(io, options.config).platform.hmacKeyFile;
    const key = `${randomSecret()}\n`;
    if (options.force) replaceFile(file, key);
    else if (!createFile(file, key)) {
      io.stderr.write(`There is a key already: ${file}; --force replaces it, and bounces of older mail are lost.\n`);
      return Promise.resolve(1);
    }
    io.stderr.write(`Wrote ${file}\n`);
    return Promise.resolve(0);
  },
});

/** The commands about keys other than those of DKIM. */
export const keysCommands = defineGroup(
  'keys',
  { summary: 'Make the key that authenticates the addresses of bounces' },
  { hmac: { summary: hmac.summary, load: () => Promise.resolve(hmac) } },
);
