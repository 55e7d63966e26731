// Writes outcomes to the spool: all of one turn of the event loop together, tried again until they are written. An
// outcome that is lost would send the message twice.

import type { Logger } from '../base/log.ts';
import type { AttemptRecord, Spool } from '../spool/spool.ts';

/** How long to wait before writing again what could not be written, in milliseconds. */
const retryDelay = 1000;

/** What a writer tells. */
export interface OutcomeWriterEvents {
  /** The spool has stopped taking outcomes, or takes them again. */
  onHealth(isHealthy: boolean): void;
  /** These are on disk. */
  onWritten(records: readonly AttemptRecord[]): void;
}

/** Outcomes on their way to the spool. */
export class OutcomeWriter {
  readonly #spool: Pick<Spool, 'record'>;
  readonly #log: Logger;
  readonly #events: OutcomeWriterEvents;
  readonly #underWay = new Set<Promise<void>>();
  #records: AttemptRecord[] = [];
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

  write(record: AttemptRecord): void {
    this.#records.push(record);
    this.#unwritten += 1;
    if (this.#isScheduled || this.#retryTimer) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  /** Resolves when everything is written, or has failed once more. */
  async settle(): Promise<void> {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    this.#flush();
    await Promise.all(this.#underWay);
    clearTimeout(this.#retryTimer);
  }

  #flush(): void {
    if (this.#records.length === 0) return;
    const records = this.#records;
    this.#records = [];
    const writing = this.#record(records);
    this.#underWay.add(writing);
    void writing.then(() => this.#underWay.delete(writing));
  }

  async #record(records: readonly AttemptRecord[]): Promise<void> {
    try {
      await this.#spool.record(records);
      this.#unwritten -= records.length;
      this.#events.onWritten(records);
      if (!this.#retryTimer) this.#events.onHealth(true);
    } catch (thrown) {
      this.#log.error({ err: thrown, outcomes: records.length }, 'Cannot record outcomes; delivery waits');
      this.#records = [...records, ...this.#records];
      this.#events.onHealth(false);
      this.#retryTimer ??= setTimeout(() => {
        this.#retryTimer = undefined;
        this.#flush();
      }, retryDelay);
    }
  }
}
