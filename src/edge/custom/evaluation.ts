// One question to Custom Error Rules: how does this error, met by this request, fit them? What the answer costs is bounded (D65),
// since a customer writes the rules, a stranger the request, and all others wait meanwhile.

import type { EdgeError, ErrorRequest } from '../errors/edge-error.ts';
import type { TextsFinder } from './find-texts.ts';

/** What expressions are asked about. */
export interface ErrorCondition {
  readonly error: Pick<EdgeError, 'code' | 'status' | 'category'>;
  readonly request: Pick<ErrorRequest, 'method' | 'path' | 'host' | 'header'>;
}

/**
 * The steps that all rules together may take for one error. A comparison takes one, and one for each value that it compares;
 * `starts_with` takes another for each character that both sides have; `contains` takes one for each character of the field,
 * but only once for all comparisons of a list of rules that search this field.
 */
export const maxSteps = 100_000;

/** Rules being asked about one error. */
export class Evaluation {
  readonly condition: ErrorCondition;
  readonly #found = new Map<TextsFinder, Uint8Array>();
  #left: number;

  /** @param steps how many steps it may take */
  constructor(condition: ErrorCondition, steps = maxSteps) {
    this.condition = condition;
    this.#left = steps;
  }

  /** Whether more steps were wanted than it may take. What rules say is then worth nothing. */
  get isSpent(): boolean {
    return this.#left < 0;
  }

  /** Takes steps. Gives false where there are not so many left, and from then on. */
  take(steps: number): boolean {
    this.#left = this.#left < steps ? -1 : this.#left - steps;
    return this.#left >= 0;
  }

  /** What a search finds in the values of its field, which is searched once; undefined where the steps do not suffice. */
  found(search: TextsFinder, values: readonly string[]): Uint8Array | undefined {
    const known = this.#found.get(search);
    if (known) return known;
    if (!this.take(values.reduce((sum, { length }) => sum + length, 0))) return undefined;
    const found = search(values);
    this.#found.set(search, found);
    return found;
  }
}
