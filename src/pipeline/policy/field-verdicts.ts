// What became of each field of a message in one letter, so that a record of it costs next to nothing; and what such a letter
// says, for whoever reads the record.

import { type Explanation, type HeaderExplanation, type HeaderVerdict, ruleOfVerdict } from './explain.ts';
import { findHeader } from './header-catalogue.ts';
import type { Judgement } from './judge.ts';
import type { JudgedField } from './judge-field.ts';
import { isReplacedByOriginalFrom } from './judge-sender.ts';
import type { StripReason } from './strip.ts';
import { asciiLower } from './value-rules.ts';

interface Meaning {
  readonly letter: string;
  readonly verdict: HeaderVerdict;
  /** Why a field is removed. */
  readonly reason?: StripReason;
  /** What it says in place of the rule behind the verdict. */
  readonly rule?: string;
}

const letters = {
  lifted: { letter: 'l', verdict: 'lifted' },
  mime: { letter: 'm', verdict: 'mime' },
  admitted: { letter: 'c', verdict: 'admitted' },
  replaced: { letter: 'r', verdict: 'replaced' },
  trace: { letter: 't', verdict: 'trace' },
  refused: { letter: 'x', verdict: 'refused' },
  named: { letter: 'n', verdict: 'stripped', reason: 'named' },
  empty: { letter: 'e', verdict: 'stripped', reason: 'empty' },
  repeated: { letter: 'p', verdict: 'stripped', reason: 'repeated' },
  invalid: { letter: 'i', verdict: 'stripped', reason: 'invalid' },
  observed: {
    ...{ letter: 'o', verdict: 'stripped' },
    rule: 'Removed while the policy is only observed; it would have been refused.',
  },
  bounce: {
    ...{ letter: 'b', verdict: 'lifted' },
    rule: 'The bounce of a mail server: From becomes another address, and X-Original-From keeps this one.',
  },
  mapped: {
    ...{ letter: 's', verdict: 'lifted' },
    rule: 'A sender that nobody owns: From becomes the address that senders names, and X-Original-From keeps this one.',
  },
} as const satisfies Record<string, Meaning>;

const meanings = new Map<string, Meaning>(Object.values(letters).map((meaning) => [meaning.letter, meaning]));

function meaningOf(judged: JudgedField, { refusal, sender }: Judgement): Meaning {
  if (refusal(judged)) return letters.refused;
  const { handling, key, stripReason } = judged;
  if (handling === 'stripped') return letters[stripReason ?? 'named'];
  if (isReplacedByOriginalFrom(key, sender)) return letters.replaced;
  if (key === 'from' && sender?.originalFrom) return sender.mapped ? letters.mapped : letters.bounce;
  return handling === 'custom' ? letters.admitted : letters[handling];
}

/**
 * Tells what became of each field, one letter for each, in the order of the text.
 * @param removed the places, among all fields, of those that were removed because the policy is only observed (D4c); the
 *   judgement is then about the others
 */
export function verdictLetters(judgement: Judgement, removed: readonly { readonly index: number }[] = []): string {
  const gone = new Set(removed.map(({ index }) => index));
  let text = '';
  for (const judged of judgement.fields) {
    while (gone.has(text.length)) text += letters.observed.letter;
    text += meaningOf(judged, judgement).letter;
  }
  while (gone.has(text.length)) text += letters.observed.letter;
  return text;
}

/** The letters of an explanation, which does not tell why a field was removed. */
export function lettersOf({ headers }: Explanation): string {
  return headers.map(({ verdict }) => letters[verdict === 'stripped' ? 'named' : verdict].letter).join('');
}

/** Tells what a letter says of a field, in the words of the catalogue. @param name as given; an unknown letter is 'admitted' */
export function readVerdict(
  letter: string,
  name: string,
): Pick<HeaderExplanation, 'verdict' | 'rule' | 'standard'> & { readonly isObserved: boolean } {
  const row = findHeader(asciiLower(name));
  const meaning = meanings.get(letter) ?? letters.admitted;
  const { verdict, reason, rule = ruleOfVerdict(row, verdict, reason) }: Meaning = meaning;
  return { verdict, rule, ...(row ? { standard: row.standard } : {}), isObserved: meaning === letters.observed };
}
