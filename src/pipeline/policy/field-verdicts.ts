// What became of each field of a message in one letter, so that a record of it costs next to nothing; and what such a letter
// says, for whoever reads the record.

import { type Explanation, type HeaderExplanation, ruleOfVerdict } from './explain.ts';
import { findHeader } from './header-catalogue.ts';
import type { Judgement } from './judge.ts';
import type { JudgedField } from './judge-field.ts';
import { isReplacedByOriginalFrom } from './judge-sender.ts';
import type { StripReason } from './strip.ts';
import { asciiLower } from './value-rules.ts';

/** The letters. `bounce` is the From of a mail server's bounce, `mapped` that of a sender that nobody owns (D4d), `observed` a header removed in place of being refused. */
const letters = {
  lifted: 'l',
  mime: 'm',
  admitted: 'c',
  replaced: 'r',
  trace: 't',
  refused: 'x',
  named: 'n',
  empty: 'e',
  repeated: 'p',
  invalid: 'i',
  observed: 'o',
  bounce: 'b',
  mapped: 's',
} as const;

function letterOf(judged: JudgedField, { refusal, sender }: Judgement): string {
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
    while (gone.has(text.length)) text += letters.observed;
    text += letterOf(judged, judgement);
  }
  while (gone.has(text.length)) text += letters.observed;
  return text;
}

/** The letters of an explanation, which does not tell why a field was removed. */
export function lettersOf({ headers }: Explanation): string {
  return headers.map(({ verdict }) => (verdict === 'stripped' ? letters.named : letters[verdict])).join('');
}

const stripReasons: ReadonlyMap<string, StripReason> = new Map([
  [letters.named, 'named'],
  [letters.empty, 'empty'],
  [letters.repeated, 'repeated'],
  [letters.invalid, 'invalid'],
]);

const verdicts: ReadonlyMap<string, HeaderExplanation['verdict']> = new Map([
  [letters.lifted, 'lifted'],
  [letters.mime, 'mime'],
  [letters.admitted, 'admitted'],
  [letters.replaced, 'replaced'],
  [letters.trace, 'trace'],
  [letters.refused, 'refused'],
  [letters.bounce, 'lifted'],
  [letters.mapped, 'lifted'],
  [letters.observed, 'stripped'],
  ...[...stripReasons.keys()].map((letter) => [letter, 'stripped'] as const),
]);

/** What letters say that stand for more than a verdict. */
const specialRules: ReadonlyMap<string, string> = new Map([
  [letters.observed, 'Removed while the policy is only observed; it would have been refused.'],
  [letters.bounce, 'The bounce of a mail server: From becomes another address, and X-Original-From keeps this one.'],
  [
    letters.mapped,
    'A sender that nobody owns: From becomes the address that senders names, and X-Original-From keeps this one.',
  ],
]);

/** Tells what a letter says of a field, in the words of the catalogue. @param name as given; an unknown letter is 'admitted' */
export function readVerdict(
  letter: string,
  name: string,
): Pick<HeaderExplanation, 'verdict' | 'rule' | 'standard'> & { readonly isObserved: boolean } {
  const row = findHeader(asciiLower(name));
  const verdict = verdicts.get(letter) ?? 'admitted';
  const isObserved = letter === letters.observed;
  const told = specialRules.get(letter) ?? ruleOfVerdict(row, verdict, stripReasons.get(letter));
  return { verdict, rule: told, ...(row ? { standard: row.standard } : {}), isObserved };
}
