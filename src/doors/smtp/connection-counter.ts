// Counts connections, in all and from each address (D42), over all processes of the server where several run.

import { countedAddress } from '../../base/counted-address.ts';
import { Counts } from '../../base/counts.ts';
import type { MaybePromise } from '../../base/load/maybe-promise.ts';
import type { SharedConnections } from '../../base/process-group.ts';

/** A place among the connections; it is given back once, when the connection ends. */
export interface ConnectionSlot {
  /** Assigns the place to an address; false when that address, or all together, have too many. */
  claim(address: string): MaybePromise<boolean>;
  /** Gives the place back; further calls do nothing. */
  leave(): void;
}

interface CounterLimits {
  readonly connections: number;
  readonly connectionsPerAddress: number;
}

/** Counts the connections of all listeners together. */
export class ConnectionCounter {
  open = 0;
  readonly #limits: () => CounterLimits;
  readonly #shared: SharedConnections | undefined;
  readonly #perAddress = new Counts();
  readonly #waiting: (() => void)[] = [];

  /** @param limits those in force, asked at each connection @param shared counts over all processes; absent: there is one */
  constructor(limits: () => CounterLimits, shared?: SharedConnections) {
    this.#limits = limits;
    this.#shared = shared;
  }

  /** Takes a place for a connection that was just accepted; undefined when there are too many. */
  enter(): ConnectionSlot | undefined {
    if (this.open >= this.#limits().connections) return undefined;
    this.open += 1;
    let left = false;
    const leaving: (() => void)[] = [];
    return {
      claim: (address) => {
        if (left || this.#perAddress.of(address) >= this.#limits().connectionsPerAddress) return false;
        this.#perAddress.add(address);
        leaving.push(() => this.#perAddress.add(address, -1));
        const shared = this.#shared;
        if (!shared) return true;
        const counted = countedAddress(address);
        return shared.take(counted, this.#limits()).then(
          (refusal) => {
            if (refusal !== undefined) return false;
            if (left) shared.closed(counted);
            else leaving.push(() => shared.closed(counted));
            return !left;
          },
          () => false, // The supervisor is gone: this process is ending.
        );
      },
      leave: () => {
        if (left) return;
        left = true;
        this.open -= 1;
        for (const leave of leaving) leave();
        if (this.open === 0) for (const wake of this.#waiting.splice(0)) wake();
      },
    };
  }

  /** Resolves once no connection is open. */
  empty(): Promise<void> {
    if (this.open === 0) return Promise.resolve();
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }
}
