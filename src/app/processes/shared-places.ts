// Places that all processes take together, counted by the supervisor. What a process had taken is free again when it ends.

import { Counts } from '../../base/counts.ts';
import type { SlotWanted } from '../../base/process-group.ts';

/** The places that are taken, by their keys. */
export class SharedPlaces {
  readonly #taken = new Counts();
  /** What each process has, so that it can be forgotten. */
  readonly #ofProcess = new Map<object, Counts>();
  /** Processes that have ended: what they have sent before may be read after their end. */
  readonly #gone = new WeakSet<object>();

  /** Which of the places has none left, counted from 0; undefined where there is one of each. */
  ask(wanted: readonly SlotWanted[]): number | undefined {
    const full = wanted.findIndex(({ key, most }) => this.#taken.of(key) >= most);
    return full < 0 ? undefined : full;
  }

  /** Takes a place of each key for a run of a process, or none, and tells which has none left. One that has ended takes nothing. */
  take(process: object, wanted: readonly SlotWanted[]): number | undefined {
    const full = this.ask(wanted);
    if (full !== undefined || this.#gone.has(process)) return full;
    const own = this.#ofProcess.get(process) ?? new Counts();
    this.#ofProcess.set(process, own);
    for (const { key } of wanted) {
      own.add(key);
      this.#taken.add(key);
    }
    return undefined;
  }

  giveBack(process: object, keys: readonly string[]): void {
    const own = this.#ofProcess.get(process);
    for (const key of keys) {
      if (!own?.has(key)) continue;
      own.add(key, -1);
      this.#taken.add(key, -1);
    }
  }

  gone(process: object): void {
    this.#gone.add(process);
    for (const [key, number] of this.#ofProcess.get(process) ?? []) this.#taken.add(key, -number);
    this.#ofProcess.delete(process);
  }
}
