// Counts connections, in all and from each address (D42).

/** A place among the connections; it is given back once, when the connection ends. */
export interface ConnectionPlace {
  /** Assigns the place to an address; false when that address has too many. */
  claim(address: string): boolean;
  /** Gives the place back; further calls do nothing. */
  leave(): void;
}

/** Counts the connections of all listeners together. */
export interface ConnectionCounter {
  /** Takes a place for a connection that was just accepted; undefined when there are too many. */
  enter(): ConnectionPlace | undefined;
  /** Connections now. */
  readonly open: number;
  /** Resolves once no connection is open. */
  empty(): Promise<void>;
}

interface CounterLimits {
  readonly connections: number;
  readonly connectionsPerAddress: number;
}

/** Makes a counter. @param limits gives the limits in force; it is called for each connection */
export function createConnectionCounter(limits: () => CounterLimits): ConnectionCounter {
  return new Counter(limits);
}

class Counter implements ConnectionCounter {
  readonly #limits: () => CounterLimits;
  readonly #perAddress = new Map<string, number>();
  #open = 0;
  #waiting: (() => void)[] = [];

  constructor(limits: () => CounterLimits) {
    this.#limits = limits;
  }

  get open(): number {
    return this.#open;
  }

  enter(): ConnectionPlace | undefined {
    if (this.#open >= this.#limits().connections) return undefined;
    this.#open += 1;
    let owner: string | undefined;
    let left = false;
    return {
      claim: (address) => {
        if (!this.#claim(address)) return false;
        owner = address;
        return true;
      },
      leave: () => {
        if (!left) this.#leave(owner);
        left = true;
      },
    };
  }

  empty(): Promise<void> {
    if (this.#open === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #claim(address: string): boolean {
    const others = this.#perAddress.get(address) ?? 0;
    if (others >= this.#limits().connectionsPerAddress) return false;
    this.#perAddress.set(address, others + 1);
    return true;
  }

  #leave(owner: string | undefined): void {
    this.#open -= 1;
    if (this.#open === 0) {
      for (const wake of this.#waiting) wake();
      this.#waiting = [];
    }
    if (owner === undefined) return;
    const others = (this.#perAddress.get(owner) ?? 1) - 1;
    if (others > 0) this.#perAddress.set(owner, others);
    else this.#perAddress.delete(owner);
  }
}
