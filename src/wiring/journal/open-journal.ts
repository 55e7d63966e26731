// Opens the journal that a configuration names, has it tended, and makes its metrics.

import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../base/log.ts';
import type { Config } from '../../config.ts';
import type { GaugeSource, MetricFamily } from '../../http/metrics.ts';
import type { Journal, Removed } from '../../journal/journal.ts';
import type { ContentGauge } from '../../spool/journal/content-gauge.ts';
import { engineOf, refusalsPerAccount } from '../engine/open-stores.ts';
import { JournalTender } from './journal-tender.ts';

/** A journal that is tended. */
export interface TendedJournal {
  readonly journal: Journal;
  readonly gauges: readonly GaugeSource[];
  readonly families: readonly MetricFamily[];
  /** As `Database.abandon`. */
  abandon?(): void;
  /** Ends the work behind the rows, and closes the journal. */
  close(): Promise<void>;
}

/**
 * Opens the journal; the spool must have been opened before, because it makes the tables.
 * @param parts.gauge the one that the spool was opened with
 * @param parts.caughtUp of the spool's events
 * @throws Error where it cannot be opened
 */
export async function openJournal(
  config: Pick<Config, 'database' | 'dataDir' | 'journal'>,
  parts: {
    readonly gauge: ContentGauge;
    readonly caughtUp: () => Promise<void>;
    readonly clock: Clock;
    readonly log: Logger;
  },
): Promise<TendedJournal> {
  const limits = { ...config.journal, refusals: refusalsPerAccount };
  const removed: Record<Removed, number> = { aged: 0, refusals: 0, content: 0 };
  const onRemoved = (kind: Removed, count: number): void => void (removed[kind] += count);
  const engine = await engineOf(config);
  const { journal, database, times } = await engine.openJournal(limits, { ...parts, onRemoved });
  const tender = new JournalTender(journal, { ...parts, times });
  return {
    journal,
    ...journalMetrics(parts.gauge, { removed, waitingRows: () => tender.waitingRows }),
    abandon: () => database.abandon?.(),
    async close() {
      await tender.stop();
      await journal.close();
    },
  };
}

/** Makes the journal's part of /metrics. */
function journalMetrics(
  gauge: ContentGauge,
  seen: { readonly removed: Readonly<Record<Removed, number>>; readonly waitingRows: () => number },
): Pick<TendedJournal, 'gauges' | 'families'> {
  return {
    gauges: [
      {
        over: 'max',
        name: 'postern_journal_rows_waiting',
        help: 'Rows of the journal that are not in the index of its search yet',
        read: seen.waitingRows,
      },
      {
        over: 'max',
        name: 'postern_journal_content_bytes',
        help: 'Octets of the messages that the journal keeps',
        read: () => gauge.octets,
      },
      {
        kind: 'counter',
        name: 'postern_journal_content_skipped_total',
        help: 'Rows of the journal written without content, because it came faster than the oldest was removed',
        read: () => gauge.counts.skipped,
      },
    ],
    families: [
      {
        kind: 'counter',
        name: 'postern_journal_rows_total',
        help: 'Rows that were written to the journal',
        label: 'outcome',
        read: () => [
          ['accepted', gauge.counts.accepted],
          ['refused', gauge.counts.refused],
        ],
      },
      {
        kind: 'counter',
        name: 'postern_journal_removed_total',
        help: 'What was removed from the journal: rows by age or because an account had too many refusals, content over the limit',
        label: 'removed',
        read: () => Object.entries(seen.removed),
      },
    ],
  };
}
