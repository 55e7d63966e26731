// Tells once a minute how much waits, for each account and for all together, so that it can be plotted afterwards. Every process tells
// the same, and the last one counts.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import { type Counted, waitingNames } from './figure-store.ts';

const minuteMs = 60_000;
/** How often it is asked whether a new minute has begun, in milliseconds. */
const lookEveryMs = 1000;
/** Accounts that are told of one by one: those with the most that waits. */
const mostAccounts = 1000;

/** The name under which all accounts together are told of. No account has it. */
export const allAccounts = '';

/** What waits for an account. */
export interface AccountQueue {
  readonly account: string;
  /** Recipients that are not done. */
  readonly recipients: number;
  /** When the oldest of their messages was accepted, milliseconds since 1970; absent: not known. */
  readonly oldestAt?: number | undefined;
}

/** What waits for each account that has something waiting, and when the oldest message of all was accepted. */
export interface Queues {
  readonly accounts: readonly AccountQueue[];
  readonly oldestAt?: number | undefined;
}

/** What telling needs. */
export interface SampleQueueParts {
  /** What waits now; undefined where nothing is to be told. */
  readonly queues: () => Promise<Queues | undefined>;
  /** Keeps what is told. @param at milliseconds since 1970 */
  readonly tell: (account: string, at: number, counted: readonly Counted[]) => void;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Logger;
}

function countedOf(recipients: number, oldestAt: number | undefined, at: number): readonly Counted[] {
  const waiting = { name: waitingNames.recipients, count: recipients };
  if (recipients === 0) return [waiting, { name: waitingNames.oldestSeconds, count: 0 }];
  if (oldestAt === undefined) return [waiting];
  return [waiting, { name: waitingNames.oldestSeconds, count: Math.max(0, Math.round((at - oldestAt) / 1000)) }];
}

/** Tells once what waits. */
export async function sampleQueue({ queues, tell, clock }: SampleQueueParts): Promise<void> {
  const now = await queues();
  if (!now) return;
  const at = clock.now();
  const waiting = now.accounts.filter(({ recipients }) => recipients > 0);
  const most = waiting.toSorted((one, other) => other.recipients - one.recipients).slice(0, mostAccounts);
  for (const { account, recipients, oldestAt } of most) tell(account, at, countedOf(recipients, oldestAt, at));
  const all = waiting.reduce((sum, { recipients }) => sum + recipients, 0);
  tell(allAccounts, at, countedOf(all, now.oldestAt, at));
}

/** Tells in each minute from now on. @returns ends it */
export function sampleQueues(parts: SampleQueueParts): () => Promise<void> {
  const ended = new AbortController();
  const run = async (): Promise<void> => {
    let told = -1;
    while (!ended.signal.aborted) {
      const minute = Math.floor(parts.clock.now() / minuteMs);
      if (minute !== told) {
        told = minute;
        await sampleQueue(parts).catch((error: unknown) => {
          parts.log.debug({ reason: errorMessage(error) }, 'what waits could not be told for this minute');
        });
      }
      await sleep(lookEveryMs, undefined, { signal: ended.signal, ref: false }).catch(() => undefined);
    }
  };
  const running = run();
  return async () => {
    ended.abort();
    await running;
  };
}
