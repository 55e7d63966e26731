// What is an account's own in the spool in SQLite.

import { join } from 'node:path';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { accountsContract } from '../../contract/accounts.ts';
import { scratchFolder } from '../../support/scratch.ts';

accountsContract('SQLite spool', {
  open: (clock, eventLimits, reportLimits) =>
    SqliteSpool.open({ file: join(scratchFolder(), 'postern.db'), clock, eventLimits, reportLimits }),
  clean: async () => undefined,
});
