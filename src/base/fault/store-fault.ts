// Why a store cannot be used now. A look at the store may have begun before something failed, and end after it: it says nothing of
// the failure, and does not end the fault.

import type { Unavailable } from '../errors.ts';

/** The fault of one store. */
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

  /**
   * To be called when a look at the store begins.
   * @returns a function to be called once the look has found the store well. It ends the fault and gives true; where something has
   * failed since the look began, it ends nothing and gives false.
   */
  beginLook(): () => boolean {
    const before = this.#failures;
    return () => {
      if (this.#failures !== before) return false;
      this.#current = undefined;
      return true;
    };
  }
}
