// Knows whether a database can be used: from the first request that fails because it cannot, until a look that began afterwards has
// found it well. While it can be used this costs nothing: nobody looks.

import { setTimeout as sleep } from 'node:timers/promises';
import { errorMessage, Unavailable } from '../errors.ts';
import { type Logger, silentLog } from '../log.ts';
import { StoreFault } from './store-fault.ts';

/** How long after a failure, and after a look that has failed, it is looked again, in milliseconds. */
const lookAfterMs = 250;

/** What a watch is made from. */
export interface WatchParts {
  /**
   * Looks whether the database can be used again; to be given up at the signal.
   * @throws what keeps it from being used
   */
  readonly look: (signal: AbortSignal) => Promise<void>;
  /** Told of the beginning and the end of a fault; absent: nobody is. */
  readonly log?: Logger | undefined;
}

/** Watches one database. */
export class FaultWatch {
  readonly #fault = new StoreFault();
  readonly #look: WatchParts['look'];
  readonly #log: Logger;
  readonly #stopped = new AbortController();
  #isLooking = false;

  constructor({ look, log = silentLog }: WatchParts) {
    this.#look = look;
    this.#log = log;
  }

  /** Why the database cannot be used; undefined while it can. */
  get fault(): Unavailable | undefined {
    return this.#fault.current;
  }

  /** A request has failed because the database cannot be used. To be called before whoever asked hears of it. */
  failed(error: Unavailable): void {
    const isNew = !this.#fault.current;
    this.#fault.failed(error);
    if (this.#isLooking || this.#stopped.signal.aborted) return;
    if (isNew) this.#log.error({ reason: error.message }, 'the database cannot be used');
    this.#isLooking = true;
    void this.#untilWell(this.#stopped.signal);
  }

  /** Looks no more. */
  stop(): void {
    this.#stopped.abort();
  }

  async #untilWell(signal: AbortSignal): Promise<void> {
    for (;;) {
      // What waits alone holds up the end of no process.
      await sleep(lookAfterMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      const found = this.#fault.beginLook();
      try {
        await this.#look(signal);
        if (found()) break;
      } catch (thrown) {
        this.#fault.failed(thrown instanceof Unavailable ? thrown : unavailable(thrown));
      }
    }
    this.#isLooking = false;
    this.#log.info('the database can be used again');
  }
}

function unavailable(thrown: unknown): Unavailable {
  const error = new Unavailable(`The database cannot be used now: ${errorMessage(thrown)}`, {
    reason: 'store',
    retryAfterSeconds: 2,
  });
  error.cause = thrown;
  return error;
}
