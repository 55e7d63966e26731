// The connections of all processes, counted by the supervisor. What a process had open is forgotten when it ends.

import type { CountedDoor, SharedConnectionLimits } from '../base/process-group.ts';

/** Adds to the number of a key; a number of zero is removed, so that the map is never larger than what is open. */
function add(counts: Map<string, number>, key: string, number: number): void {
  const sum = (counts.get(key) ?? 0) + number;
  if (sum > 0) counts.set(key, sum);
  else counts.delete(key);
}

/** The connections that are open, by door and by address. */
export class SharedCounts {
  readonly #byAddress = new Map<string, number>();
  readonly #byDoor = new Map<string, number>();
  /** What each process has, so that it can be forgotten. */
  readonly #ofProcess = new Map<object, Map<string, number>>();
  /** Processes that have ended: what they have sent before may be read after their end. */
  readonly #gone = new WeakSet<object>();

  /**
   * Counts a connection of a process, or tells which limit is reached. One of a process that has ended is not counted.
   * @param process stands for one run of a process: the one that is started in its place is another
   */
  take(
    process: object,
    { door, address, limits }: { door: CountedDoor; address: string; limits: SharedConnectionLimits },
  ): 'all' | 'address' | undefined {
    const key = `${door} ${address}`;
    const { connections, connectionsPerAddress = Number.POSITIVE_INFINITY } = limits;
    if ((this.#byAddress.get(key) ?? 0) >= connectionsPerAddress) return 'address';
    if ((this.#byDoor.get(door) ?? 0) >= connections) return 'all';
    if (this.#gone.has(process)) return undefined;
    const own = this.#ofProcess.get(process) ?? new Map<string, number>();
    this.#ofProcess.set(process, own);
    add(own, key, 1);
    add(this.#byAddress, key, 1);
    add(this.#byDoor, door, 1);
    return undefined;
  }

  /** A connection that was counted has closed. */
  closed(process: object, { door, address }: { door: CountedDoor; address: string }): void {
    const key = `${door} ${address}`;
    const own = this.#ofProcess.get(process);
    if (!own?.has(key)) return;
    add(own, key, -1);
    add(this.#byAddress, key, -1);
    add(this.#byDoor, door, -1);
  }

  /** A process has ended, and its connections with it. */
  gone(process: object): void {
    this.#gone.add(process);
    for (const [key, number] of this.#ofProcess.get(process) ?? []) {
      add(this.#byAddress, key, -number);
      add(this.#byDoor, key.slice(0, key.indexOf(' ')), -number);
    }
    this.#ofProcess.delete(process);
  }
}
