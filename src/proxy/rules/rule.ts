// What a rule of the proxy-application API is: a predicate over (application, facts) that tells why it is broken (D83).

import type { Facts } from './facts.ts';
import type { Judged } from './read-application.ts';
import type { Reason } from './reading.ts';

/** Tells why a rule is broken; nothing where it is kept. Without facts it tells only what needs none (D83). */
export type Judge = (judged: Judged, facts: Facts | undefined) => readonly Reason[];

/** One row of the table. */
export interface Rule {
  /** For people. */
  readonly name: string;
  /** HTTP status where it is the first of the answer. */
  readonly status: number;
  /** When it is broken; a sentence for the documentation. */
  readonly when: string;
  /** What to do; a sentence at the end of the message, and in the documentation. */
  readonly resolution: string;
  readonly judge: Judge;
}
