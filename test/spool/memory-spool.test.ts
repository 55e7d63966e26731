// The spool in memory under the contract.

import { accountsContract } from '../contract/accounts.ts';
import { eventsContract } from '../contract/events.ts';
import { reportsContract } from '../contract/reports.ts';
import { spoolContract } from '../contract/spool.ts';
import { threadsContract } from '../contract/threads.ts';
import { turnsContract } from '../contract/turns.ts';
import { MemorySpool } from '../support/memory-spool/memory-spool.ts';

spoolContract('memory spool', {
  open: async (clock) => new MemorySpool(clock),
  clean: async () => undefined,
});

eventsContract('memory spool', {
  open: async (clock, limits) => new MemorySpool(clock, limits),
  clean: async () => undefined,
});

reportsContract('memory spool', {
  open: async (clock, limits) => new MemorySpool(clock, undefined, limits),
  clean: async () => undefined,
});

threadsContract('memory spool', {
  open: async (clock) => new MemorySpool(clock),
  clean: async () => undefined,
});

turnsContract('memory spool', {
  open: async (clock) => new MemorySpool(clock),
  clean: async () => undefined,
});

accountsContract('memory spool', {
  open: async (clock, eventLimits, reportLimits) => new MemorySpool(clock, eventLimits, reportLimits),
  clean: async () => undefined,
});
