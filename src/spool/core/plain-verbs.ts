// The verbs that an engine only passes on (`plainVerbs` in spool.ts), and the steps of those that both engines do alike.

import type { SqlValue } from '../../base/database/database.ts';
import { plainVerbs, type Spool } from '../spool.ts';
import { dueReports, endReport, type Times } from './report-steps.ts';
import type { StoreSteps } from './steps.ts';
import { findKey, keepAnswer } from './tally-steps.ts';
import { findThreads } from './thread-steps.ts';

/** The name of a verb that is only passed on. */
export type PlainVerb = keyof typeof plainVerbs;
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the table has these keys and no others
const verbs = Object.keys(plainVerbs) as PlainVerb[];
type PartName = (typeof plainVerbs)[PlainVerb]['by'];
type VerbsOf<Part extends PartName> = {
  [Verb in PlainVerb]: (typeof plainVerbs)[Verb]['by'] extends Part ? Verb : never;
}[PlainVerb];

/** What steps are handed of their engine, beside what the verb was asked. */
interface Surroundings {
  readonly times: Times;
  /** Wall time, milliseconds since 1970. */
  readonly now: number;
  /** `threadKey` as the engine keeps it. */
  readonly threadKeyOf: (clientId: string) => SqlValue;
}

const steps: {
  readonly [Verb in VerbsOf<'steps'>]: (
    around: Surroundings,
    ...asked: Parameters<Spool[Verb]>
  ) => StoreSteps<Awaited<ReturnType<Spool[Verb]>>>;
} = {
  usedKey: ({ now }, account, key) => findKey(account, key, now),
  answered: (_, ...answer) => keepAnswer(...answer),
  replacedIds: ({ threadKeyOf, times, now }, account, ids) => findThreads(threadKeyOf, account, ids, times.stored(now)),
  reportsDue: ({ times }, query) => dueReports(times, query),
  endReport: ({ times }, report, until) => endReport(times, report, until),
};

/** An engine as far as plain verbs need it: its parts, each with the verbs that name it, and what runs steps. */
export type VerbParts = Surroundings & {
  readonly [Part in Exclude<PartName, 'steps'>]: {
    readonly [Verb in VerbsOf<Part>]: (
      ...asked: Parameters<Spool[Verb]>
    ) => ReturnType<Spool[Verb]> | Awaited<ReturnType<Spool[Verb]>>;
  };
} & { readonly run: (work: StoreSteps<unknown>) => unknown };

/** Has a verb done. @param asked what it was asked @returns its answer, or a promise of it */
export function doVerb(verb: PlainVerb, asked: readonly unknown[], engine: VerbParts): unknown {
  const { by } = plainVerbs[verb];
  if (by === 'steps') return engine.run(Reflect.apply(Reflect.get(steps, verb), undefined, [engine, ...asked]));
  return Reflect.apply(Reflect.get(engine[by], verb), engine[by], asked);
}

type Pass = (verb: PlainVerb, asked: readonly unknown[]) => Promise<unknown>;

/** A spool's plain verbs, each a method that passes itself on with what it is asked. */
// oxlint-disable-next-line typescript/no-extraneous-class, typescript/no-unsafe-type-assertion -- it makes a method of each verb
export const PlainSpool = class {
  constructor(pass: Pass) {
    for (const verb of verbs) Object.assign(this, { [verb]: (...asked: readonly unknown[]) => pass(verb, asked) });
  }
} as new (
  pass: Pass,
) => Pick<Spool, PlainVerb>;
