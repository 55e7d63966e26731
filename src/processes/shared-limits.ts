// The supervisor's answers to what processes ask about limits that hold for all of them together.

import { createMinuteCounts } from '../accounts/minute-window.ts';
import type { PlaceWanted, WindowLimit } from '../base/process-group.ts';
import { keepRateLimits } from '../edge/zone/rate-limit.ts';
import type { LimitQuestion, LimitQuestions } from './messages.ts';
import { SharedCounts } from './shared-counts.ts';

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
      case 'askPlaces':
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

function wantedOf(asked: LimitQuestions['takePlaces']['asked']): readonly PlaceWanted[] {
  return asked;
}

function minuteOf({ account, limit }: LimitQuestions['takeMinute']['asked']): [string, number] {
  return [account, limit];
}

function windowOf(asked: LimitQuestions['takeWindow']['asked']): { name: string; limit: WindowLimit; address: string } {
  return asked;
}
