// The names of figures, and what they are made from: one word, then what it is about.

import { type EventFacts, eventKinds, isOfWord } from '../events/mail-event.ts';

/** Latencies are counted in steps of a quarter of an octave, so a percentile is right to a tenth. */
const stepsPerOctave = 4;

/** The step of a time in milliseconds. */
export function latencyStep(ms: number): number {
  return Math.round(stepsPerOctave * Math.log2(Math.max(1, ms)));
}

/** The time of a step, in milliseconds. */
export function latencyOfStep(step: number): number {
  return Math.round(2 ** (step / stepsPerOctave));
}

/** A field's name as it may stand in a figure's name: what a client sent may have any octets. */
const plainField = /^[!-9;-}]{1,100}$/;

/** Something that is counted. */
export interface Counted {
  readonly name: string;
  /** What is counted in its place when an account has too many names in a minute. */
  readonly instead?: string;
  readonly count: number;
}

const one = (name: string, instead?: string): Counted => ({
  name,
  count: 1,
  ...(instead === undefined ? {} : { instead }),
});

/** What an event counts as, by the column `figure` of its kind. */
export function countedOf(event: EventFacts): readonly Counted[] {
  const { kind } = event;
  if (isOfWord(event, 'figure', 'latency'))
    return [one(kind), one(`route ${kind} ${event.route}`), one(`latency ${latencyStep(event.at - event.acceptedAt)}`)];
  if (isOfWord(event, 'figure', 'route')) return [one(kind), one(`route ${kind} ${event.route}`)];
  if (isOfWord(event, 'figure', 'reasons')) {
    const reasons = event.violations.map(({ code, field }) => {
      const about = field !== undefined && plainField.test(field) ? ` ${field}` : '';
      return `reason ${code}${about}`;
    });
    return [one(kind), ...[...new Set(reasons)].map((name) => one(name, name.split(' ', 2).join(' ')))];
  }
  return eventKinds[kind].figure === 'none' ? [] : [one(kind)];
}

/** How a name begins that tells what was there at a moment: it is not added up, and of several moments the greatest counts. */
export const momentPrefix = 'now ';

/** What waits: recipients, and seconds since the oldest of their messages was accepted. */
export const waitingNames = { recipients: 'now waiting', oldestSeconds: 'now oldest' } as const;

/** The percentile of counts by step, in milliseconds; null where nothing was counted. @param share 0.5, 0.99 */
export function percentile(counts: ReadonlyMap<number, number>, share: number): number | null {
  const steps = [...counts].toSorted(([left], [right]) => left - right);
  const all = steps.reduce((sum, [, count]) => sum + count, 0);
  let passed = 0;
  for (const [step, count] of steps) {
    passed += count;
    if (passed >= share * all) return latencyOfStep(step);
  }
  return null;
}
