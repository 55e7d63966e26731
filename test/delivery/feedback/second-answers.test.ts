// A domain that is not there, under its contract: on SQLite, and in memory.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../../src/base/clock.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { secondAnswersContract } from '../../contract/second-answers.ts';
import { MemorySpool } from '../../support/memory-spool/memory-spool.ts';

let folder = '';

function opened(clock: Clock) {
  return SqliteSpool.open({ file: join(folder, 'postern.db'), clock });
}

secondAnswersContract('SQLite', {
  open: (clock) => {
    folder = mkdtempSync(join(tmpdir(), 'postern-second-'));
    return opened(clock);
  },
  another: opened,
  clean: async () => rmSync(folder, { recursive: true }),
});

secondAnswersContract('in memory', { open: async (clock) => new MemorySpool(clock), clean: async () => undefined });
