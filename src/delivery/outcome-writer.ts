// Writes outcomes to the spool: all outcomes of one turn of the event loop together, retried until they are written. Losing
// an outcome would send the message twice.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../base/log.ts';
import type { OutcomeEvent } from '../spool/events/mail-event.ts';
import type { Spool } from '../spool/spool.ts';

/**
 * How long to wait before a failed write is repeated, in milliseconds: nothing is delivered meanwhile. Where it was one connection that
 * broke, the next try succeeds; each wait is twice as long as the one before, to a bound.
 */
const [firstRetryMs, mostRetryMs] = [50, 400];
/** How often the log tells of failed writes, in milliseconds. */
const tellEveryMs = 1000;
/** Outcomes that are told of one by one where they could not be written at the end. */
const mostTold = 100;

/** The events of a writer. */
export interface OutcomeWriterEvents {
  /** The spool has stopped taking outcomes, or takes them again. */
  onHealth(isHealthy: boolean): void;
  /** These outcomes are on disk. */
  onWritten(outcomes: readonly OutcomeEvent[]): void;
}

/** The outcomes that are not in the spool yet. */
export class OutcomeWriter {
  /** Outcomes that are not on disk yet. */
  unwritten = 0;
  readonly #spool: Pick<Spool, 'record'>;
  readonly #log: Logger;
  readonly #events: OutcomeWriterEvents;
  readonly #underWay = new Set<Promise<void>>();
  #waiting: OutcomeEvent[] = [];
  #isScheduled = false;
  #retryTimer: NodeJS.Timeout | undefined;
  #retryMs = firstRetryMs;
  #toldAt = Number.NEGATIVE_INFINITY;
  /** When `settle` gives up, by `performance.now()`. */
  #settleUntil = Number.POSITIVE_INFINITY;

  constructor(parts: { readonly spool: Pick<Spool, 'record'>; readonly log: Logger }, events: OutcomeWriterEvents) {
    this.#spool = parts.spool;
    this.#log = parts.log;
    this.#events = events;
  }

  write(outcome: OutcomeEvent): void {
    this.#waiting.push(outcome);
    this.unwritten += 1;
    if (this.#isScheduled || this.#retryTimer) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  /** Resolves when all is written. What is not within `withinMs` milliseconds is tried once more and logged. May be called again. */
  async settle(withinMs: number): Promise<void> {
    this.#settleUntil = Math.min(this.#settleUntil, performance.now() + withinMs);
    for (;;) {
      const isLast = performance.now() >= this.#settleUntil;
      this.#flush();
      await Promise.all(this.#underWay);
      clearTimeout(this.#retryTimer);
      if (this.unwritten === 0) return;
      if (isLast) break;
      await sleep(Math.max(0, Math.min(mostRetryMs, this.#settleUntil - performance.now())));
    }
    this.#tellUnwritten();
  }

  /** Tells what is lost with this process: it is not known by then who has his mail. */
  #tellUnwritten(): void {
    for (const { kind, queueId, recipient } of this.#waiting.slice(0, mostTold))
      this.#log.error({ id: queueId, recipient, outcome: kind }, 'an outcome could not be recorded before the end');
    this.#log.error(
      { outcomes: this.unwritten },
      'ending with outcomes that are not recorded: their mail is sent again',
    );
  }

  #flush(): void {
    // All that waits is written now, what had failed too: while a retry is under way in vain, nobody would hear that all is well.
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
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
      this.unwritten -= outcomes.length;
      this.#events.onWritten(outcomes);
      this.#retryMs = firstRetryMs;
      if (!this.#retryTimer) this.#events.onHealth(true);
    } catch (thrown) {
      this.#tell(thrown, outcomes.length);
      this.#waiting = [...outcomes, ...this.#waiting];
      this.#events.onHealth(false);
      if (!this.#retryTimer) this.#retryLater();
    }
  }

  #tell(err: unknown, outcomes: number): void {
    if (performance.now() - this.#toldAt < tellEveryMs) return;
    this.#toldAt = performance.now();
    this.#log.error({ err, outcomes }, 'Cannot record outcomes; delivery waits');
  }

  #retryLater(): void {
    this.#retryTimer = setTimeout(() => this.#flush(), this.#retryMs);
    this.#retryMs = Math.min(mostRetryMs, 2 * this.#retryMs);
  }
}
