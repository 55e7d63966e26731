// Gathers what is to be written while the last group is being committed, so that many messages share one transaction and one
// sync of the disk.

/** Operations of one group at most, so that no caller waits long for its commit. */
const mostOperations = 1024;
/** Octets of messages in one group at most; its first operation may have more. */
const mostOctets = 16 * 1024 * 1024;
/** How long outcomes wait for a message to be written with, in milliseconds. A crash in that time sends their mail again. */
const outcomePatienceMs = 5;

/** Something that waits to be written. */
interface Grouped {
  /** Octets of its message; 0 for anything else. */
  readonly octets: number;
  /** Nobody waits for it: it may wait a little for others. */
  readonly isPatient: boolean;
}

/** The operations that wait. Groups follow one another and never overlap. */
export class GroupQueue<Operation extends Grouped> {
  readonly #write: (group: readonly Operation[]) => Promise<void>;
  #waiting: Operation[] = [];
  #isWriting = false;
  #isScheduled = false;
  /** Something waits that somebody waits for. */
  #isUrgent = false;
  #patience: NodeJS.Timeout | undefined;
  readonly #onQuiet: (() => void)[] = [];

  /** @param write writes a group; it never rejects, since it settles every operation itself */
  constructor(write: (group: readonly Operation[]) => Promise<void>) {
    this.#write = write;
  }

  put(operation: Operation): void {
    this.#waiting.push(operation);
    if (!operation.isPatient) this.#isUrgent = true;
    this.#schedule();
  }

  /** Resolves once nothing waits or is being written. */
  async quiet(): Promise<void> {
    if (this.#waiting.length === 0 && !this.#isWriting) return;
    await new Promise<void>((resolve) => this.#onQuiet.push(resolve));
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isWriting || this.#waiting.length === 0) return;
    if (this.#isUrgent) {
      this.#isScheduled = true;
      setImmediate(() => void this.#next());
      return;
    }
    this.#patience ??= setTimeout(() => void this.#next(), outcomePatienceMs);
  }

  async #next(): Promise<void> {
    this.#isScheduled = false;
    clearTimeout(this.#patience);
    this.#patience = undefined;
    if (this.#isWriting || this.#waiting.length === 0) return;
    this.#isWriting = true;
    await this.#write(this.#take());
    this.#isWriting = false;
    this.#schedule();
    if (this.#waiting.length === 0) for (const resolve of this.#onQuiet.splice(0)) resolve();
  }

  #take(): readonly Operation[] {
    let count = 0;
    let total = 0;
    for (const { octets } of this.#waiting) {
      if (count === mostOperations || (count > 0 && total + octets > mostOctets)) break;
      count += 1;
      total += octets;
    }
    const group = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    this.#isUrgent = this.#waiting.some(({ isPatient }) => !isPatient);
    return group;
  }
}
