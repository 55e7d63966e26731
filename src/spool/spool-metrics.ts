// The spool's numbers for /metrics (D97). All numbers of one reading come from a single request to the spool.

import type { Clock } from '../base/clock.ts';
import type { Spool } from './spool.ts';
import { type Tally, totalOf } from './tally.ts';

/** A number for /metrics. */
export interface SpoolGauge {
  /** `counter` for a number that only grows; absent: a gauge. */
  readonly kind?: 'counter';
  /** How the numbers of several processes on the same spool become one; absent: they are added up. */
  readonly over?: 'max' | 'min';
  readonly name: string;
  readonly help: string;
  readonly read: () => Promise<number>;
}

/** How far what readers of events need is behind the commits; absent where the commits make it. */
interface Filing {
  readonly unfiled: number;
  readonly passedOver: number;
}

/** Numbers for /metrics with one value for each recipient or message state. */
export interface SpoolFamily {
  readonly kind: 'gauge';
  readonly over: 'max';
  readonly name: string;
  readonly help: string;
  readonly label: 'state';
  readonly read: () => Promise<Iterable<readonly [string, number]>>;
}

/**
 * Makes the spool's part of /metrics: messages, octets and recipients by state, and whether mail is taken.
 * @param told.removedFailures failed messages removed since the start because their account had too many
 * @param told.takesMail whether mail is taken: by the spool, and by whatever else it needs
 */
export function spoolMetrics(
  spool: Pick<Spool, 'events' | 'oldest' | 'tallies'> & { readonly freeBytes: number; readonly behind?: Filing },
  {
    removedFailures,
    takesMail,
    clock,
  }: {
    readonly removedFailures: () => number;
    readonly takesMail: () => boolean;
    readonly clock: Pick<Clock, 'now'>;
  },
): {
  readonly gauges: readonly SpoolGauge[];
  readonly families: readonly SpoolFamily[];
} {
  let asking: Promise<Tally> | undefined;
  /** Asks the spool once: whoever asks while an answer is awaited gets the same answer. */
  const total = (): Promise<Tally> => {
    asking ??= spool
      .tallies()
      .then(totalOf)
      .finally(() => {
        asking = undefined;
      });
    return asking;
  };
  return {
    gauges: [
      {
        over: 'max',
        name: 'postern_spool_queued',
        help: 'Messages with a recipient still queued',
        read: async () => (await total()).messages.queued,
      },
      {
        over: 'max',
        name: 'postern_spool_failed',
        help: 'Messages with no recipient queued, kept as failed',
        read: async () => (await total()).messages.failed,
      },
      {
        over: 'max',
        name: 'postern_spool_oldest_seconds',
        help: 'Age of the oldest message with a recipient still queued; 0 where there is none',
        read: async () => {
          const acceptedAt = await spool.oldest();
          return acceptedAt === undefined ? 0 : Math.max(0, clock.now() - acceptedAt) / 1000;
        },
      },
      {
        over: 'min',
        name: 'postern_spool_takes_mail',
        help: '1 while mail is taken; 0: no room, or the database cannot be used or written',
        read: async () => (takesMail() ? 1 : 0),
      },
      {
        over: 'min',
        name: 'postern_spool_free_bytes',
        help: 'Free octets of the fullest file system that the spool writes to',
        read: async () => spool.freeBytes,
      },
      {
        name: 'postern_spool_failed_removed',
        help: 'Failed messages removed since the start because their account had too many',
        read: async () => removedFailures(),
      },
      {
        over: 'max',
        name: 'postern_events_unfiled',
        help: 'Events (PostgreSQL: transactions with events) that are not filed yet, so that searches, the journal and counts may lack them',
        read: async () => spool.behind?.unfiled ?? 0,
      },
      {
        kind: 'counter',
        name: 'postern_events_passed_over_total',
        help: 'Events that could not be read, filed or removed since the start because the database is damaged',
        read: async () => spool.behind?.passedOver ?? 0,
      },
      {
        name: 'postern_events_refusals_waiting',
        help: 'Refusals whose events are not written yet',
        read: async () => spool.events.waitingRefusals,
      },
      {
        kind: 'counter',
        name: 'postern_events_refusals_dropped_total',
        help: 'Refusals whose events were not kept: more came than are written, or nothing could be',
        read: async () => spool.events.droppedRefusals,
      },
    ],
    families: [
      {
        kind: 'gauge',
        over: 'max',
        name: 'postern_spool_recipients',
        help: 'Recipients of messages in the spool by state; a failed one counts also while its message waits for another',
        label: 'state',
        read: async () => Object.entries((await total()).recipients),
      },
      {
        kind: 'gauge',
        over: 'max',
        name: 'postern_spool_bytes',
        help: 'Octets of messages in the spool by the message’s state',
        label: 'state',
        read: async () => Object.entries((await total()).octets),
      },
    ],
  };
}
