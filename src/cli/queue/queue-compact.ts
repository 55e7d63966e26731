// postern queue compact gives the disk space of removed messages back to the file system.

import { UsageError } from '../../base/errors.ts';
import { compactSpool } from '../../spool/sqlite/file/compact.ts';
import { configOption, defineCommand } from '../command/command.ts';
import { configFor } from '../command/load-config.ts';

/** postern queue compact */
export const compact = defineCommand({
  name: 'compact',
  summary: 'Give the room of messages that are gone back to the file system',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details: `A running server does so by itself, in small steps while nothing is written. A database made by a release before
that is written anew once, for which no server may run and there must be room for a second copy.`,
  options: { ...configOption },
  examples: ['postern queue compact'],
  exitCodes: { 1: 'the database must be written anew, and a server runs', 78: 'the configuration is wrong' },
  run: async ({ options }, io) => {
    const { database } = configFor(io, options.config);
    if (database.engine !== 'sqlite')
      throw new UsageError('postern queue compact is for SQLite: PostgreSQL tidies up by itself (autovacuum)');
    const compacted = await compactSpool(database.file);
    if (!compacted) {
      io.stderr.write('The database must be written anew, and a server works on it: stop that first\n');
      return 1;
    }
    const { beforeBytes, afterBytes } = compacted;
    io.stdout.write(`The database had ${beforeBytes} octets and has ${afterBytes}\n`);
    return 0;
  },
});
