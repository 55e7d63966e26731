// What waits, as it is told of once a minute for the plots of the console.

import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../base/log.ts';
import type { Config } from '../../config.ts';
import type { MinuteFigures } from '../../figures/minute-figures.ts';
import { type Queues, sampleQueues } from '../../figures/sample-queue.ts';
import type { Spool, WaitingLine } from '../../spool/spool.ts';

/** Recipients up to which the oldest message of each account is looked for: that costs the more the more of them wait. */
const mostLookedAt = 10_000;

/** What telling needs. */
export interface QueueSamplesParts {
  readonly spool: Pick<Spool, 'tallies' | 'oldest'>;
  readonly lines: () => Promise<{ readonly lines: readonly WaitingLine[] }>;
  readonly minutes: Pick<MinuteFigures, 'count'>;
  readonly config: () => Config;
  readonly clock: Clock;
  readonly log: Logger;
}

async function queuesOf({ spool, lines }: QueueSamplesParts): Promise<Queues> {
  const tallies = (await spool.tallies()).map(({ account, recipients }) => ({
    account,
    recipients: recipients.queued,
  }));
  const all = tallies.reduce((sum, { recipients }) => sum + recipients, 0);
  if (all === 0) return { accounts: [] };
  const oldest = new Map<string, number>();
  for (const { account, oldestAcceptedAt } of all > mostLookedAt ? [] : (await lines()).lines) {
    oldest.set(account, Math.min(oldest.get(account) ?? oldestAcceptedAt, oldestAcceptedAt));
  }
  const accounts = tallies.map((tally) => ({ ...tally, oldestAt: oldest.get(tally.account) }));
  return { accounts, oldestAt: await spool.oldest() };
}

/** Tells from now on, where the console is served. */
export function startQueueSamples(
  parts: QueueSamplesParts,
  running: { readonly stores: (() => void | Promise<void>)[] },
): void {
  const stop = sampleQueues({
    queues: async () => (parts.config().console.enabled ? await queuesOf(parts) : undefined),
    tell: (account, at, counted) => parts.minutes.count(account, at, counted),
    clock: parts.clock,
    log: parts.log,
  });
  running.stores.push(stop);
}
