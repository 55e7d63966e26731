// Knows that a database cannot be used, from a request that fails for it to a look that finds it well. Else nobody looks.

import { setTimeout as sleep } from 'node:timers/promises';
import { cannotBeUsed, Unavailable } from '../errors.ts';
import { type Logger, silentLog } from '../log.ts';
import { Part } from '../part.ts';

/** How long after a failure, and after a look that has failed, it is looked again, in milliseconds. */
const lookAfterMs = 250;

/** Why a store cannot be used now. A look that began before something failed says nothing of it, and does not end the fault. */
export class StoreFault {
  #current: Unavailable | undefined;
  #failures = 0;

  /** What failed last; undefined while the store can be used. */
  get current(): Unavailable | undefined {
    return this.#current;
  }

  /** Takes note of a failure: the store cannot be used from now on. */
  failed(error: Unavailable): void {
    this.#failures += 1;
    this.#current = error;
  }

  /** Begins a look. @returns called once it finds the store well: ends the fault, or gives false where something has failed since */
  beginLook(): () => boolean {
    const before = this.#failures;
    return () => {
      if (this.#failures !== before) return false;
      this.#current = undefined;
      return true;
    };
  }
}

/** What a watch is made from. */
interface WatchParts {
  /** Looks whether the database can be used again; to be given up at the signal. @throws what keeps it from being used */
  readonly look: (signal: AbortSignal) => Promise<void>;
  /** Told of the beginning and the end of a fault; absent: nobody is. */
  readonly log?: Logger | undefined;
}

/** Watches one database. */
export class FaultWatch extends Part<WatchParts> {
  readonly #fault = new StoreFault();
  readonly #log = this.parts.log ?? silentLog;
  readonly #stopped = new AbortController();
  #isLooking = false;

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
        await this.parts.look(signal);
        if (found()) break;
      } catch (thrown) {
        this.#fault.failed(thrown instanceof Unavailable ? thrown : cannotBeUsed(thrown));
      }
    }
    this.#isLooking = false;
    this.#log.info('the database can be used again');
  }
}
