// The spool's numbers for /metrics (D97). All numbers of one reading come from a single request to the spool.

import type { Clock } from '../../../base/clock.ts';
import { onceAtATime } from '../../../base/load/once-at-a-time.ts';
import type { Spool } from '../../../spool/spool.ts';
import { type Tally, totalOf } from '../../../spool/tally.ts';
import { counter, gauge, type MetricFamily } from '../../../web/http/metrics.ts';

type MeasuredSpool = Pick<Spool, 'events' | 'oldest' | 'tallies'> & {
  /** NaN where it is not known, as with PostgreSQL, whose disk is another's to watch. */
  readonly freeBytes: number;
  /** How far what readers of events need is behind the commits; absent where the commits make it. */
  readonly behind?: { readonly unfiled: number; readonly passedOver: number };
};

const texts = {
  oldest: 'Age of the oldest message with a recipient still queued; 0 where there is none',
  takesMail: '1 while mail is taken; 0: no room, or the database cannot be used or written',
  freeBytes: 'Free octets of the fullest file system that the spool writes to',
  removed: 'Failed messages removed since the start because their account had too many',
  unfiled:
    'Events (PostgreSQL: transactions with events) that are not filed yet, so that searches, the journal and counts may lack them',
  passedOver: 'Events that could not be read, filed or removed since the start because the database is damaged',
  dropped: 'Refusals whose events were not kept: more came than are written, or nothing could be',
  recipients:
    'Recipients of messages in the spool by state; a failed one counts also while its message waits for another',
} as const;

/** The spool's part of /metrics. @param told.removedFailures failed messages removed because their account had too many */
export function spoolMetrics(
  spool: MeasuredSpool,
  told: {
    readonly removedFailures: () => number;
    readonly takesMail: () => boolean;
    readonly clock: Pick<Clock, 'now'>;
  },
): readonly MetricFamily[] {
  const { events } = spool;
  // Whoever asks while an answer is awaited gets the same answer.
  const total = onceAtATime(() => spool.tallies().then(totalOf));
  const one = (name: string, help: string, of: (total: Tally) => number): MetricFamily =>
    gauge(name, help, async () => of(await total()), 'max');
  const byState = (name: string, help: string, of: 'octets' | 'recipients'): MetricFamily => ({
    ...({ kind: 'gauge', over: 'max', name, help, label: 'state' } as const),
    read: async () => Object.entries((await total())[of]),
  });
  const age = async (): Promise<number> => {
    const acceptedAt = await spool.oldest();
    return acceptedAt === undefined ? 0 : Math.max(0, told.clock.now() - acceptedAt) / 1000;
  };
  return [
    one('postern_spool_queued', 'Messages with a recipient still queued', ({ messages }) => messages.queued),
    one('postern_spool_failed', 'Messages with no recipient queued, kept as failed', ({ messages }) => messages.failed),
    gauge('postern_spool_oldest_seconds', texts.oldest, age, 'max'),
    gauge('postern_spool_takes_mail', texts.takesMail, () => (told.takesMail() ? 1 : 0), 'min'),
    {
      ...({ kind: 'gauge', over: 'min', name: 'postern_spool_free_bytes', help: texts.freeBytes, label: [] } as const),
      read: () => (Number.isNaN(spool.freeBytes) ? [] : [[[], spool.freeBytes]]),
    },
    gauge('postern_spool_failed_removed', texts.removed, told.removedFailures),
    gauge('postern_events_unfiled', texts.unfiled, () => spool.behind?.unfiled ?? 0, 'max'),
    counter('postern_events_passed_over_total', texts.passedOver, () => spool.behind?.passedOver ?? 0),
    gauge('postern_events_refusals_waiting', 'Refusals whose events are not written yet', () => events.waitingRefusals),
    counter('postern_events_refusals_dropped_total', texts.dropped, () => events.droppedRefusals),
    byState('postern_spool_recipients', texts.recipients, 'recipients'),
    byState('postern_spool_bytes', 'Octets of messages in the spool by the message’s state', 'octets'),
  ];
}
