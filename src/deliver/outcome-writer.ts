// Writes outcomes to the spool: all outcomes of one turn of the event loop together, retried until they are written. Losing
// an outcome would send the message twice.

import type { Logger } from '../base/log.ts';
import type { OutcomeEvent } from '../events/mail-event.ts';
import type { Spool } from '../spool/spool.ts';

/** How long to wait before a failed write is repeated, in milliseconds. */
const retryDelay = 1000;

/** The events of a writer. */
export interface OutcomeWriterEvents {
  /** The spool has stopped taking outcomes, or takes them again. */
  onHealth(isHealthy: boolean): void;
  /** These outcomes are on disk. */
  onWritten(outcomes: readonly OutcomeEvent[]): void;
}

/** The outcomes that are not in the spool yet. */
export class OutcomeWriter {
  readonly #spool: Pick<Spool, 'record'>;
  readonly #log: Logger;
  readonly #events: OutcomeWriterEvents;
  readonly #underWay = new Set<Promise<void>>();
  #waiting: OutcomeEvent[] = [];
  #isScheduled = false;
  #retryTimer: NodeJS.Timeout | undefined;
  #unwritten = 0;

  constructor(parts: { readonly spool: Pick<Spool, 'record'>; readonly log: Logger }, events: OutcomeWriterEvents) {
    this.#spool = parts.spool;
    this.#log = parts.log;
    this.#events = events;
  }

  /** Outcomes that are not on disk yet. */
  get unwritten(): number {
    return this.#unwritten;
  }

  write(outcome: OutcomeEvent): void {
    this.#waiting.push(outcome);
    this.#unwritten += 1;
    if (this.#isScheduled || this.#retryTimer) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  /** Resolves when everything is written, or when one more try has failed. */
  async settle(): Promise<void> {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    this.#flush();
    await Promise.all(this.#underWay);
    clearTimeout(this.#retryTimer);
  }

  #flush(): void {
    if (this.#waiting.length === 0) return;
    const outcomes = this.#waiting;
    this.#waiting = [];
    const writing = this.#record(outcomes);
    this.#underWay.add(writing);
    void writing.then(() => this.#underWay.delete(writing));
  }

  async #record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    try {
      await this.#spool.record(outcomes);
      this.#unwritten -= outcomes.length;
      this.#events.onWritten(outcomes);
      if (!this.#retryTimer) this.#events.onHealth(true);
    } catch (thrown) {
      this.#log.error({ err: thrown, outcomes: outcomes.length }, 'Cannot record outcomes; delivery waits');
      this.#waiting = [...outcomes, ...this.#waiting];
      this.#events.onHealth(false);
      this.#retryTimer ??= setTimeout(() => {
        this.#retryTimer = undefined;
        this.#flush();
      }, retryDelay);
    }
  }
}
