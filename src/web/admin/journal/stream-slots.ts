// Places of live streams, shared so that no account, nor several together, can take them from the others or from the operator.

import { Counts } from '../../../base/counts.ts';
import type { SharedSlots, SlotWanted } from '../../../base/process-group.ts';

/** Streams that are open at once: of everybody, and of everybody while accounts still get one. The rest is the operator's. */
const all = 200;
const ofAccounts = 180;
/** Streams of one account, and of the operator. */
const ofOne = 20;
/** Of which so many are had while fewer than `ofAccounts` are open; the others only while no more than half are. */
const sure = 4;
const half = 100;

/** What is tried, one after another; places are taken by the first that has them all. */
function attempts(account: string | undefined): readonly (readonly SlotWanted[])[] {
  const own = `stream ${account ?? '*'}`;
  const wanted = (most: number, together: number): readonly SlotWanted[] => [
    { key: own, most },
    { key: 'stream', most: together },
  ];
  return account === undefined ? [wanted(ofOne, all)] : [wanted(sure, ofAccounts), wanted(ofOne, half)];
}

/** The places of one process, which are those of all processes where there are several. */
export class StreamSlots {
  /** Counts over all processes; absent: there is one. */
  readonly #shared: SharedSlots | undefined;
  readonly #own = new Counts();

  constructor(shared: SharedSlots | undefined) {
    this.#shared = shared;
  }

  /**
   * Takes a place.
   * @param account its name; undefined: the operator's, who sees all
   * @returns what gives it back, to be called once; undefined where there is none
   */
  async take(account: string | undefined): Promise<(() => void) | undefined> {
    for (const wanted of attempts(account)) {
      const isTaken = await this.#take(wanted);
      if (isTaken) return () => this.#giveBack(wanted.map(({ key }) => key));
    }
    return undefined;
  }

  async #take(wanted: readonly SlotWanted[]): Promise<boolean> {
    if (wanted.some(({ key, most }) => this.#own.of(key) >= most)) return false;
    for (const { key } of wanted) this.#own.add(key);
    // Without its supervisor this process is ending, and counts alone.
    const full = await this.#shared?.take(wanted).catch(() => undefined);
    if (full !== undefined) this.#forget(wanted.map(({ key }) => key));
    return full === undefined;
  }

  #giveBack(keys: readonly string[]): void {
    this.#forget(keys);
    this.#shared?.giveBack(keys);
  }

  #forget(keys: readonly string[]): void {
    for (const key of keys) this.#own.add(key, -1);
  }
}
