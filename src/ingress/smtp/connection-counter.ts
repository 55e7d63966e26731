// How many connections there are, in all and from each address (D42).

/** A place among the connections; given back once, at the end. */
export interface ConnectionPlace {
  /** Tells whose it is; false when that address has too many. */
  claim(address: string): boolean;
  /** Gives it back; more than once is harmless. */
  leave(): void;
}

/** Counts the connections of all listeners together. */
export interface ConnectionCounter {
  /** Takes a place for a connection just accepted; undefined when there are too many. */
  enter(): ConnectionPlace | undefined;
  /** Connections now. */
  readonly open: number;
}

/** Makes a counter that admits so many connections at a time. */
export function createConnectionCounter(limits: {
  readonly connections: number;
  readonly connectionsPerAddress: number;
}): ConnectionCounter {
  let open = 0;
  const perAddress = new Map<string, number>();

  function place(): ConnectionPlace {
    let owner: string | undefined;
    let left = false;
    return {
      claim(address) {
        const others = perAddress.get(address) ?? 0;
        if (others >= limits.connectionsPerAddress) return false;
        owner = address;
        perAddress.set(address, others + 1);
        return true;
      },
      leave() {
        if (left) return;
        left = true;
        open -= 1;
        if (owner === undefined) return;
        const others = (perAddress.get(owner) ?? 1) - 1;
        if (others > 0) perAddress.set(owner, others);
        else perAddress.delete(owner);
      },
    };
  }

  return {
    enter() {
      if (open >= limits.connections) return undefined;
      open += 1;
      return place();
    },
    get open() {
      return open;
    },
  };
}
