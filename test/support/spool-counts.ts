// What a spool has, counted.

import type { Spool } from '../../src/spool/spool.ts';
import { totalOf } from '../../src/spool/tally.ts';

/** Counts messages with a queued recipient, and messages without one that are kept as failed. */
export async function countsOf(spool: Pick<Spool, 'tallies'>): Promise<{ queued: number; failed: number }> {
  return totalOf(await spool.tallies()).messages;
}
