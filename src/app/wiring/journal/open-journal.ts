// Opens the journal that a configuration names, has it tended, and makes its metrics.

import { BelievedTime, type Clock } from '../../../base/clock.ts';
import type { Database } from '../../../base/database/database.ts';
import { errorMessage } from '../../../base/errors.ts';
import type { Logger } from '../../../base/log.ts';
import type { ContentGauge } from '../../../spool/journal/content-gauge.ts';
import type { Journal, Removed } from '../../../spool/journal/journal.ts';
import { counter, gauge, type MetricSources } from '../../../web/http/metrics.ts';
import type { Config } from '../../config/config.ts';
import { engineOf, type OpenedJournal, rowsPerAccount } from '../engine/open-stores.ts';

/** How often it is looked whether there is something to do, in milliseconds. */
const lookEveryMs = 3000;
/** The pause after a slice, so that others get the database's lock: as long as the slice, but SQLite tries for it every 17 ms or so. */
const leastPauseMs = 25;
const longestPauseMs = 500;

/** Tends one journal until it is stopped. */
export class JournalTender {
  readonly #journal: Pick<Journal, 'tend' | 'state'>;
  readonly #parts: TenderParts;
  readonly #believed: BelievedTime;
  #isStopped = false;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #endedAt = Number.NEGATIVE_INFINITY;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Rows that were not in the index of the search when it was last looked. */
  waitingRows = 0;

  constructor(journal: Pick<Journal, 'tend' | 'state'>, parts: TenderParts) {
    this.#journal = journal;
    this.#parts = parts;
    this.#believed = new BelievedTime(parts.clock);
    // Content is to be removed: the work goes on soon, where it would else wait for its next look.
    parts.gauge.onPressed = () => {
      if (this.#working || this.#isStopped) return;
      this.#schedule(Math.max(leastPauseMs, this.#endedAt + parts.times.pressedMs - performance.now()));
    };
    this.#schedule(leastPauseMs);
  }

  /** Ends the work; resolves once nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#working;
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#working = this.#work().finally(() => (this.#working = undefined));
    }, ms).unref();
  }

  async #work(): Promise<void> {
    const { gauge: content, times, log } = this.#parts;
    const began = performance.now();
    let isMore = false;
    try {
      isMore = await this.#journal.tend(this.#believed.now(), content.isPressed);
      await this.#ask();
    } catch (thrown) {
      // Where the database cannot be written, the rows wait: they are found without the index, too.
      log.debug({ error: errorMessage(thrown) }, 'the journal could not be tended');
    }
    this.#endedAt = performance.now();
    if (this.#isStopped) return;
    if (isMore) this.#schedule(Math.min(longestPauseMs, Math.max(leastPauseMs, this.#endedAt - began)));
    else this.#schedule(content.isPressed ? times.pressedMs : lookEveryMs);
  }

  async #ask(): Promise<void> {
    const { gauge: content, times } = this.#parts;
    if (performance.now() - this.#askedAt < (content.isPressed ? times.pressedMs : times.askMs)) return;
    const { written } = content;
    const { octets, waiting } = await this.#journal.state();
    content.learn(octets, written);
    this.waitingRows = waiting;
    this.#askedAt = performance.now();
  }
}

interface TenderParts {
  readonly gauge: ContentGauge;
  readonly times: OpenedJournal['times'];
  readonly clock: Clock;
  readonly log: Logger;
}

/** Opens the journal behind the spool, which makes its tables. One that is off works on `parts.database`. @throws Error where it cannot */
export async function openJournal(
  config: Pick<Config, 'database' | 'dataDir' | 'journal' | 'events'>,
  parts: {
    readonly database: Database;
    readonly gauge: ContentGauge;
    readonly caughtUp: () => Promise<void>;
    readonly clock: Clock;
    readonly log: Logger;
  },
) {
  const limits = { ...config.journal, ...rowsPerAccount(config) };
  const removed: Record<Removed, number> = { aged: 0, refusals: 0, copies: 0, content: 0 };
  const onRemoved = (kind: Removed, count: number): void => void (removed[kind] += count);
  const engine = await engineOf(config);
  const shared = config.journal.enabled ? undefined : parts.database;
  const { journal, database, times } = await engine.openJournal(limits, { ...parts, shared, onRemoved });
  const tending = new JournalTender(journal, { ...parts, times });
  return {
    journal,
    ...journalMetrics(parts.gauge, { removed, waitingRows: () => tending.waitingRows }),
    abandon: () => database.abandon?.(),
    async close() {
      await tending.stop();
      if (!shared) await journal.close();
    },
  };
}

function journalMetrics(
  content: ContentGauge,
  seen: { readonly removed: Readonly<Record<Removed, number>>; readonly waitingRows: () => number },
): MetricSources {
  return {
    families: [
      gauge(
        'postern_journal_rows_waiting',
        'Rows of the journal that are not in the index of its search yet',
        seen.waitingRows,
        'max',
      ),
      gauge(
        'postern_journal_content_bytes',
        'Octets of the messages that the journal keeps',
        () => content.octets,
        'max',
      ),
      counter(
        'postern_journal_content_skipped_total',
        'Rows of the journal written without content, because it came faster than the oldest was removed',
        () => content.counts.skipped,
      ),
      {
        kind: 'counter',
        name: 'postern_journal_rows_total',
        help: 'Rows that were written to the journal',
        label: 'outcome',
        read: () => [
          ['accepted', content.counts.accepted],
          ['refused', content.counts.refused],
        ],
      },
      {
        kind: 'counter',
        name: 'postern_journal_removed_total',
        help: 'What was removed from the journal: rows by age or because an account had too many refusals or copies, content over the limit',
        label: 'removed',
        read: () => Object.entries(seen.removed),
      },
    ],
  };
}
