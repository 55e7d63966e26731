// Does behind the journal's rows what is to be done, and tells the gauge of its content how much there is.

import { BelievedTime, type Clock } from '../../base/clock.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { Journal } from '../../journal/journal.ts';
import type { ContentGauge } from '../../spool/journal/content-gauge.ts';

/** How often it is looked whether there is something to do, in milliseconds. */
const lookEveryMs = 3000;
/**
 * The pause after a slice of work, in milliseconds: as long as the slice took, so that others get the database's lock, and within
 * these bounds. SQLite tries for a lock that another has every 17 ms or so.
 */
const leastPauseMs = 25;
const longestPauseMs = 500;

/** How often a journal is asked how it is, in milliseconds: mostly, and while more content is kept than should be. */
export interface AskingTimes {
  readonly askMs: number;
  readonly pressedMs: number;
}

/** Tends one journal until it is stopped. */
export class JournalTender {
  readonly #journal: Pick<Journal, 'tend' | 'state'>;
  readonly #gauge: ContentGauge;
  readonly #times: AskingTimes;
  readonly #log: Logger;
  readonly #believed: BelievedTime;
  #isStopped = false;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #endedAt = Number.NEGATIVE_INFINITY;
  #askedAt = Number.NEGATIVE_INFINITY;
  #waitingRows = 0;

  constructor(
    journal: Pick<Journal, 'tend' | 'state'>,
    parts: { readonly gauge: ContentGauge; readonly times: AskingTimes; readonly clock: Clock; readonly log: Logger },
  ) {
    this.#journal = journal;
    this.#gauge = parts.gauge;
    this.#times = parts.times;
    this.#log = parts.log;
    this.#believed = new BelievedTime(parts.clock);
    this.#gauge.onPressed = () => this.#hurry();
    this.#schedule(leastPauseMs);
  }

  /** Rows that were not in the index of the search when it was last looked. */
  get waitingRows(): number {
    return this.#waitingRows;
  }

  /** Ends the work; resolves once nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#working;
  }

  /** Content is to be removed: the work goes on soon, where it would else wait for its next look. */
  #hurry(): void {
    if (this.#working || this.#isStopped) return;
    const wait = this.#endedAt + this.#times.pressedMs - performance.now();
    this.#schedule(Math.max(leastPauseMs, wait));
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#working = this.#work().finally(() => {
        this.#working = undefined;
      });
    }, ms);
    this.#timer.unref();
  }

  async #work(): Promise<void> {
    const began = performance.now();
    let isMore = false;
    try {
      isMore = await this.#journal.tend(this.#believed.now(), this.#gauge.isPressed);
      await this.#ask();
    } catch (thrown) {
      // Where the database cannot be written, the rows wait: they are found without the index, too.
      this.#log.debug({ error: errorMessage(thrown) }, 'the journal could not be tended');
    }
    this.#endedAt = performance.now();
    if (this.#isStopped) return;
    const pause = Math.min(longestPauseMs, Math.max(leastPauseMs, this.#endedAt - began));
    if (isMore) this.#schedule(pause);
    else this.#schedule(this.#gauge.isPressed ? this.#times.pressedMs : lookEveryMs);
  }

  async #ask(): Promise<void> {
    const { askMs, pressedMs } = this.#times;
    if (performance.now() - this.#askedAt < (this.#gauge.isPressed ? pressedMs : askMs)) return;
    const { written } = this.#gauge;
    const { octets, waiting } = await this.#journal.state();
    this.#gauge.learn(octets, written);
    this.#waitingRows = waiting;
    this.#askedAt = performance.now();
  }
}
