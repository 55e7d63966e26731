// Notes what the journal keeps of a message on its way: verdicts and times. Nothing is copied before it is known what is kept.

import type { Clock } from '../base/clock.ts';
import { Part } from '../base/part.ts';
import { decodeWords, trimBlanks } from '../mail/header/header-text.ts';
import { readRawText } from '../mail/header/raw-text.ts';
import { mailerOf } from '../spool/events/refusal.ts';
import { type ContentKept, type JournalDetails, journalBounds } from '../spool/journal/journal-row.ts';
import { type Explanation, lettersOf } from './policy/explain.ts';
import type { Submission } from './policy/submission.ts';

const subjectOctets = journalBounds.subject * 16;

/** A stage of the pipeline. The commit, attempts and deliveries are told by the events. */
export type NotedStage = 'check' | 'compose' | 'sign';

/** The decoded Subject; the first, where there are several. */
function subjectOf({ fields, via }: Submission): string | undefined {
  const field = fields.find(({ name }) => name.toLowerCase() === 'subject');
  if (!field) return undefined;
  const octets = field.rawBytes.subarray(0, subjectOctets);
  const text = readRawText(octets, { legacyCharset: via.legacyCharset, folded: true, structured: false });
  return trimBlanks(decodeWords(trimBlanks(text)));
}

/** What the journal keeps of a message that is refused before it reaches the pipeline. */
export function noteOfRefused(
  submission: Submission,
  explanation: Explanation,
  { kept, clock }: { readonly kept: ContentKept; readonly clock: Clock },
): JournalDetails {
  const note = new JournalNote({ kept, clock });
  note.tellVerdicts(() => lettersOf(explanation));
  return note.details(submission);
}

/** The note of one message. */
export class JournalNote extends Part<{ readonly kept: ContentKept; readonly clock: Clock }> {
  readonly #timings: Record<string, number> = {};
  #since: number = this.parts.clock.monotonic();
  #letters: () => string = () => '';

  /** To be called by `check`, as `CheckContext.tellVerdicts`. */
  readonly tellVerdicts = (letters: () => string): void => {
    this.#letters = letters;
  };

  ended(stage: NotedStage): void {
    const now = this.parts.clock.monotonic();
    this.#timings[stage] = Math.round((now - this.#since) * 100) / 100;
    this.#since = now;
  }

  /** Gives what was noted. @param subject decoded, where it is known already */
  details(submission: Submission, subject?: string): JournalDetails {
    const { fields, octets, body, transcript } = submission;
    const { content, maxBodyOctets } = this.parts.kept;
    return {
      content,
      maxBodyOctets,
      fields,
      verdicts: this.#letters(),
      ...(octets ? { octets } : {}),
      ...(body.kind === 'mime' ? { body: body.bytes } : {}),
      subject: content === 'none' ? undefined : (subject ?? subjectOf(submission)),
      mailer: mailerOf(fields),
      transcript,
      timings: this.#timings,
    };
  }
}
