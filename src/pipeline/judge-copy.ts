// Judges a copy that came to a shadow listener (D4f), and tells what would have become of the message. There is no spool here,
// and what a copy becomes is the facts of an event, so that nothing of it can be sent.

import type { RefusalFacts, Refuse } from '../spool/events/refusal.ts';
import type { ContentKept } from '../spool/journal/journal-row.ts';
import { noteOfRefused } from './journal-note.ts';
import type { ShadowCopy, Submission } from './policy/submission.ts';
import { type BuildParts, examine, refusalOf } from './submit.ts';

/** Judges a copy. It rejects on a fault of our own: the door then answers 451 4.3.0. */
export type JudgeCopy = (copy: ShadowCopy) => Promise<void>;

/** What judging a copy needs. */
export interface JudgeCopyParts extends Pick<BuildParts, 'clock' | 'hostname' | 'sendingDomain'> {
  /** How much of each message the journal keeps; absent: it has no entries. */
  readonly journal?: ContentKept | undefined;
  readonly tell: Refuse;
}

type CopyFacts = RefusalFacts & { readonly shadow: true };

/** Makes the function that judges copies. */
export function createJudgeCopy(parts: JudgeCopyParts): JudgeCopy {
  return async ({ shadow, ofDoor, ...judged }) => {
    const submission: Submission = judged;
    const { explanation, violations } = await examine(submission, parts);
    const all = [...ofDoor, ...violations];
    const { reply, ...facts } = refusalOf(submission, all);
    const told: CopyFacts = {
      ...facts,
      ...(all.length > 0 && reply ? { reply } : {}),
      shadow,
      journal: parts.journal && noteOfRefused(submission, explanation, { kept: parts.journal, clock: parts.clock }),
    };
    parts.tell(told);
  };
}
