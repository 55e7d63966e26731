// Gathers what comes while the last group is being committed, so that many messages share one sync of the disk.

/** Operations of one group at most, so that no caller waits long for its commit. */
const mostOperations = 1024;
/** Octets of messages in one group at most; its first operation may have more. */
const mostOctets = 16 * 1024 * 1024;
/** How long a message waits for others, as a part of what commits take, and at most: who hears of one commit sends again at once. */
const gatherShare = 0.08;
const mostGatherMs = 5;
/** How long a group waits for messages that are being judged and signed, in milliseconds: each then costs a smaller part of a commit. */
const mostExpectedMs = 4;
/** How much the last commit counts for what commits take. */
const lastCounts = 0.3;
/** How long outcomes wait for a message to be written with, in milliseconds. A crash in that time sends their mail again. */
const outcomePatienceMs = 5;

/** Something that waits to be written. */
export interface Grouped {
  /** Octets of its message; 0 for anything else. */
  readonly octets: number;
  /** Nobody waits for it: it may wait a little for others. */
  readonly isPatient: boolean;
  /** It is written before the others and alone: none of them waits for its commit or fails with it. */
  readonly isAlone?: boolean;
}

/** Writes a group; it never rejects, since it settles every operation itself. */
type WriteGroup<Operation> = (group: readonly Operation[]) => Promise<void>;

/** The operations that wait. Each way writes one group after another. */
export class GroupQueue<Operation extends Grouped> {
  readonly #ways: number;
  /** The ways that write nothing. */
  readonly #idle: WriteGroup<Operation>[];
  readonly #gathers: boolean;
  #waiting: Operation[] = [];
  #isScheduled = false;
  /** What a commit takes, about, in milliseconds. */
  #commitMs = 0;
  /** Something waits that somebody waits for. */
  #isUrgent = false;
  #patience: NodeJS.Timeout | undefined;
  /** Messages that are about to be put, and the wait of a group for them. */
  #expected = 0;
  #expecting: NodeJS.Timeout | undefined;
  readonly #onQuiet: (() => void)[] = [];

  /** @param ways write beside one another, the first free one first @param gathers whether messages wait a little for others */
  constructor(ways: readonly WriteGroup<Operation>[], gathers = true) {
    this.#ways = ways.length;
    this.#idle = ways.toReversed();
    this.#gathers = gathers;
  }

  put(operation: Operation): void {
    const alone = operation.isAlone ? this.#waiting.findIndex(({ isAlone = false }) => !isAlone) : -1;
    if (alone >= 0) this.#waiting.splice(alone, 0, operation);
    else this.#waiting.push(operation);
    if (!operation.isPatient) this.#isUrgent = true;
    this.#schedule();
  }

  /** Tells that a message is about to be put (1), or that it has been or is not going to be (-1). */
  expect(change: 1 | -1): void {
    this.#expected += change;
    if (this.#expected > 0 || !this.#expecting) return;
    clearTimeout(this.#expecting);
    this.#expecting = undefined;
    setImmediate(() => void this.#next());
  }

  /** Resolves once nothing waits or is being written. */
  async quiet(): Promise<void> {
    if (this.isQuiet) return;
    await new Promise<void>((resolve) => this.#onQuiet.push(resolve));
  }

  /** Takes away what waits and is never going to be written. */
  giveUp(): readonly Operation[] {
    const left = this.#waiting;
    this.#waiting = [];
    this.#tellQuiet();
    return left;
  }

  /** Whether nothing waits or is being written. */
  get isQuiet(): boolean {
    return this.#waiting.length === 0 && this.#idle.length === this.#ways;
  }

  #tellQuiet(): void {
    if (this.isQuiet) for (const resolve of this.#onQuiet.splice(0)) resolve();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#idle.length === 0 || this.#waiting.length === 0) return;
    if (this.#isUrgent) {
      this.#isScheduled = true;
      const gatherMs = this.#gathers ? Math.min(gatherShare * this.#commitMs, mostGatherMs) : 0;
      if (this.#expected > 0 && gatherMs < mostExpectedMs)
        this.#expecting = setTimeout(() => void this.#next(), mostExpectedMs);
      else if (gatherMs < 1) setImmediate(() => void this.#next());
      else setTimeout(() => void this.#next(), gatherMs);
      return;
    }
    this.#patience ??= setTimeout(() => void this.#next(), outcomePatienceMs);
  }

  async #next(): Promise<void> {
    this.#isScheduled = false;
    clearTimeout(this.#expecting);
    clearTimeout(this.#patience);
    this.#expecting = undefined;
    this.#patience = undefined;
    const write = this.#waiting.length === 0 ? undefined : this.#idle.pop();
    if (!write) return;
    const group = this.#take();
    // What one group leaves need not wait for its commit.
    this.#schedule();
    const began = performance.now();
    await write(group);
    this.#commitMs += (performance.now() - began - this.#commitMs) * lastCounts;
    this.#idle.push(write);
    this.#schedule();
    this.#tellQuiet();
  }

  #take(): readonly Operation[] {
    let count = 0;
    let total = 0;
    for (const { octets, isAlone = false } of this.#waiting) {
      if (count === mostOperations || (count > 0 && (isAlone || total + octets > mostOctets))) break;
      count += 1;
      total += octets;
      if (isAlone) break;
    }
    const group = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    this.#isUrgent = this.#waiting.some(({ isPatient }) => !isPatient);
    return group;
  }
}
