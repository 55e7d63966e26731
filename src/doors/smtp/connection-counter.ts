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
  #waiting: (() => void)[] = [];

  /** @param limits those in force, asked at each connection @param shared counts over all processes; absent: there is one */
  constructor(limits: () => CounterLimits, shared?: SharedConnections) {
    this.#limits = limits;
    this.#shared = shared;
  }

  /** Takes a place for a connection that was just accepted; undefined when there are too many. */
  enter(): ConnectionSlot | undefined {
    if (this.open >= this.#limits().connections) return undefined;
    this.open += 1;
    let owner: string | undefined;
    let left = false;
    let leaveShared: (() => void) | undefined;
    return {
      claim: (address) => {
        if (left || !this.#claim(address)) return false;
        owner = address;
        if (!this.#shared) return true;
        const { closed, taken } = this.#takeShared(this.#shared, address);
        return taken.then((isTaken) => {
          if (isTaken && left) closed();
          else if (isTaken) leaveShared = closed;
          return isTaken && !left;
        });
      },
      leave: () => {
        if (left) return;
        left = true;
        this.#leave(owner);
        leaveShared?.();
      },
    };
  }

  /** Resolves once no connection is open. */
  empty(): Promise<void> {
    if (this.open === 0) return Promise.resolve();
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  #claim(address: string): boolean {
    if (this.#perAddress.of(address) >= this.#limits().connectionsPerAddress) return false;
    this.#perAddress.add(address);
    return true;
  }

  #takeShared(shared: SharedConnections, address: string): { taken: Promise<boolean>; closed: () => void } {
    const counted = countedAddress(address);
    const taken = shared.take(counted, this.#limits()).then(
      (refusal) => refusal === undefined,
      () => false, // The supervisor is gone: this process is ending.
    );
    return { taken, closed: () => shared.closed(counted) };
  }

  #leave(owner: string | undefined): void {
    this.open -= 1;
    if (this.open === 0) {
      for (const wake of this.#waiting) wake();
      this.#waiting = [];
    }
    if (owner !== undefined) this.#perAddress.add(owner, -1);
  }
}
