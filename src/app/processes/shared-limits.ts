// The supervisor's answers to what processes ask about limits that hold for all of them together.

import { createMinuteCounts } from '../../accounts/minute-window.ts';
import type { SlotWanted, WindowLimit } from '../../base/process-group.ts';
import { keepRateLimits } from '../../edge/zone/rate-limit.ts';
import type { LimitQuestion, LimitQuestions } from './messages.ts';

// Places that all processes take together, counted by the supervisor: connections by door and by address, answers that wait, and
// more. What a process had taken is free again when it ends.

/** Adds to the number of a key; a number of zero is removed, so that the map is never larger than what is taken. */
function add(counts: Map<string, number>, key: string, number: number): void {
  const sum = (counts.get(key) ?? 0) + number;
  if (sum > 0) counts.set(key, sum);
  else counts.delete(key);
}

/** The places that are taken, by their keys. */
export class SharedCounts {
  readonly #taken = new Map<string, number>();
  /** What each process has, so that it can be forgotten. */
  readonly #ofProcess = new Map<object, Map<string, number>>();
  /** Processes that have ended: what they have sent before may be read after their end. */
  readonly #gone = new WeakSet<object>();

  /** Which of the places has none left, counted from 0; undefined where there is one of each. */
  ask(wanted: readonly SlotWanted[]): number | undefined {
    const full = wanted.findIndex(({ key, most }) => (this.#taken.get(key) ?? 0) >= most);
    return full < 0 ? undefined : full;
  }

  /**
   * Takes a place of each key for a process, or none, and tells which has none left. One that has ended takes nothing.
   * @param process stands for one run of a process: the one that is started in its place is another
   */
  take(process: object, wanted: readonly SlotWanted[]): number | undefined {
    const full = this.ask(wanted);
    if (full !== undefined || this.#gone.has(process)) return full;
    const own = this.#ofProcess.get(process) ?? new Map<string, number>();
    this.#ofProcess.set(process, own);
    for (const { key } of wanted) {
      add(own, key, 1);
      add(this.#taken, key, 1);
    }
    return undefined;
  }

  /** Places that a process had taken are free. */
  giveBack(process: object, keys: readonly string[]): void {
    const own = this.#ofProcess.get(process);
    for (const key of keys) {
      if (!own?.has(key)) continue;
      add(own, key, -1);
      add(this.#taken, key, -1);
    }
  }

  /** A process has ended, and what it had taken is free. */
  gone(process: object): void {
    this.#gone.add(process);
    for (const [key, number] of this.#ofProcess.get(process) ?? []) add(this.#taken, key, -number);
    this.#ofProcess.delete(process);
  }
}

/** The limits of one server. */
export class SharedLimits {
  readonly #places = new SharedCounts();
  readonly #minutes = createMinuteCounts(() => performance.now());
  readonly #windowOf = keepRateLimits({ monotonic: () => performance.now() });

  /** Answers a process. @param process stands for one run of a process @param given what it asks, of the kind of the question */
  answer(process: object, about: LimitQuestion, given: unknown): number | null {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a process of this very program asks
    const asked = given as never;
    switch (about) {
      case 'takePlaces':
        return this.#places.take(process, wantedOf(asked)) ?? null;
      case 'askSlots':
        return this.#places.ask(wantedOf(asked)) ?? null;
      case 'takeMinute':
        return this.#minutes.take(...minuteOf(asked));
      case 'askMinute':
        return this.#minutes.ask(...minuteOf(asked));
      case 'takeWindow': {
        const { name, limit, address } = windowOf(asked);
        return this.#windowOf(name, limit)?.take(address) ?? 0;
      }
      default:
        return about satisfies never;
    }
  }

  /** Places of a process are free again. */
  placesBack(process: object, keys: readonly string[]): void {
    this.#places.giveBack(process, keys);
  }

  /** A message that was counted does not count. */
  minuteBack(account: string): void {
    this.#minutes.giveBack(account);
  }

  /** A process has ended. */
  gone(process: object): void {
    this.#places.gone(process);
  }
}

function wantedOf(asked: LimitQuestions['takePlaces']['asked']): readonly SlotWanted[] {
  return asked;
}

function minuteOf({ account, limit }: LimitQuestions['takeMinute']['asked']): [string, number] {
  return [account, limit];
}

function windowOf(asked: LimitQuestions['takeWindow']['asked']): { name: string; limit: WindowLimit; address: string } {
  return asked;
}
