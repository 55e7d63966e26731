// Tells the policy's verdict on each header (D47), and in one letter what became of it, so that a record costs next to nothing.

import { findHeader, type HeaderRow } from './header-catalogue.ts';
import { type CheckContext, type Judgement, judge } from './judge.ts';
import type { JudgedField } from './judge-field.ts';
import { isReplacedByOriginalFrom, type Sender, withMappedPath } from './judge-sender.ts';
import type { Violation } from './rejections.ts';
import type { HeaderUsage, Submission } from './submission.ts';
import { asciiLower, headerLimits } from './value-rules.ts';

/** What becomes of a header. */
export type HeaderVerdict = 'admitted' | 'lifted' | 'mime' | 'replaced' | 'trace' | 'stripped' | 'refused';

/** What becomes of a header, in the words of the API and the console. */
export const shownVerdicts = {
  admitted: 'kept',
  trace: 'kept',
  mime: 'read',
  lifted: 'lifted',
  replaced: 'replaced',
  stripped: 'stripped',
  refused: 'refused',
} as const satisfies Record<HeaderVerdict, string>;

/** One header field's verdict. */
export interface HeaderExplanation {
  /** As given. */
  readonly name: string;
  readonly verdict: HeaderVerdict;
  /** The rule in the catalogue's words. */
  readonly rule: string;
  /** The RFC that defines the header; absent where the catalogue does not know the name. */
  readonly standard?: string;
  /** Why it is refused; all fields of one name share one violation. */
  readonly violation?: Violation;
}

/** The verdict on the whole submission. */
export interface Explanation {
  readonly admitted: boolean;
  /** In the order of the text. */
  readonly headers: readonly HeaderExplanation[];
  /** The violations that `check` answers, in its order. */
  readonly violations: readonly Violation[];
  readonly usage: HeaderUsage;
  readonly limits: typeof headerLimits;
}

interface Meaning {
  readonly letter: string;
  readonly verdict: HeaderVerdict;
  /** What stands before what the catalogue says of the header. */
  readonly lead?: string;
  /** What is said in place of that. */
  readonly rule?: string;
}

/** Everything that may become of a field. */
const meanings = {
  lifted: { letter: 'l', verdict: 'lifted', lead: 'One of the message’s own fields. ' },
  mime: { letter: 'm', verdict: 'mime', lead: 'Describes the body. ' },
  admitted: { letter: 'c', verdict: 'admitted' },
  replaced: { letter: 'r', verdict: 'replaced', lead: 'The platform writes its own. ' },
  trace: { letter: 't', verdict: 'trace', lead: 'Kept as trace of a trusted hop. ' },
  refused: { letter: 'x', verdict: 'refused' },
  named: { letter: 'n', verdict: 'stripped', rule: 'Removed: the operator named it for this credential.' },
  empty: {
    ...{ letter: 'e', verdict: 'stripped' },
    rule: 'Removed: it has no value, and the operator has such fields removed for this credential.',
  },
  repeated: {
    ...{ letter: 'p', verdict: 'stripped' },
    rule: 'Removed: one of its name came before it, and the operator keeps only the first for this credential.',
  },
  invalid: {
    ...{ letter: 'i', verdict: 'stripped' },
    rule: 'Removed: its value would be refused, and the operator has it removed then for this credential.',
  },
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

const byLetter = new Map<string, Meaning>(Object.values(meanings).map((meaning) => [meaning.letter, meaning]));

function meaningOf(judged: JudgedField, { refusal, sender }: Pick<Judgement, 'refusal' | 'sender'>): Meaning {
  if (refusal(judged)) return meanings.refused;
  const { handling, key, stripReason } = judged;
  if (isReplacedByOriginalFrom(key, sender)) return meanings.replaced;
  if (handling === 'stripped') return meanings[stripReason ?? 'named'];
  if (key === 'from' && sender?.originalFrom) return sender.mapped ? meanings.mapped : meanings.bounce;
  return handling === 'custom' ? meanings.admitted : meanings[handling];
}

/** The rule behind a verdict in the catalogue's words. @param row undefined where the catalogue does not know the name */
function ruleOf(row: HeaderRow | undefined, { lead = '', rule }: Meaning): string {
  return rule ?? (row ? `${lead}${row.about}` : 'On no list, and does not begin with X-.');
}

/** The rule of a field that is affected by a new From (D4b, D4d), with the addresses of this message; undefined for others. */
function ruleOfSender(meaning: Meaning, { key }: JudgedField, sender: Sender | undefined): string | undefined {
  if (meaning === meanings.replaced && isReplacedByOriginalFrom(key, sender)) return 'Keeps what From was.';
  if (meaning === meanings.mapped && sender?.mapped) {
    const { address, pattern } = sender.mapped;
    return `A sender that nobody owns: becomes ${address} by senders "${pattern}", and X-Original-From keeps this one.`;
  }
  if (meaning !== meanings.bounce) return undefined;
  return `A mail server’s bounce: becomes ${sender?.address}, and X-Original-From keeps this one.`;
}

/** What thread repair does with a field (D23), where the account asks for it. */
function explainThread({ key }: JudgedField, { submitter, via }: Submission): string {
  const cites = key === 'in-reply-to' || key === 'references';
  if (!cites || submitter.account.threadRepair !== true || via.kind === 'dsn') return '';
  return ' Thread repair: ids of messages that left with another Message-ID are rewritten.';
}

/** Judges a submission as `check` does and tells the verdict on every header in the order of the text. */
export function explain(given: Submission, context: CheckContext): Explanation {
  const submission = withMappedPath(given, context.sendingDomain);
  const judgement = judge(submission, context);
  const { violations, usage, sender } = judgement;
  const headers = judgement.fields.map((judged): HeaderExplanation => {
    const { field, row } = judged;
    const violation = judgement.refusal(judged);
    const meaning = meaningOf(judged, judgement);
    return {
      name: field.name,
      verdict: meaning.verdict,
      rule: ruleOfSender(meaning, judged, sender) ?? `${ruleOf(row, meaning)}${explainThread(judged, submission)}`,
      ...(row ? { standard: row.standard } : {}),
      ...(violation ? { violation } : {}),
    };
  });
  return { admitted: violations.length === 0, headers, violations, usage, limits: headerLimits };
}

/** Tells what became of each field, a letter each in their order. @param removed places of those removed by observing (D4c) */
export function verdictLetters(judgement: Judgement, removed: readonly { readonly index: number }[] = []): string {
  const gone = new Set(removed.map(({ index }) => index));
  let text = '';
  for (const judged of judgement.fields) {
    while (gone.has(text.length)) text += meanings.observed.letter;
    text += meaningOf(judged, judgement).letter;
  }
  while (gone.has(text.length)) text += meanings.observed.letter;
  return text;
}

/** The letters of an explanation, which does not tell why a field was removed. */
export function lettersOf({ headers }: Explanation): string {
  return headers.map(({ verdict }) => meanings[verdict === 'stripped' ? 'named' : verdict].letter).join('');
}

/** Tells what a letter says of a field, in the words of the catalogue. @param name as given; an unknown letter is 'admitted' */
export function readVerdict(letter: string, name: string) {
  const row = findHeader(asciiLower(name));
  const meaning = byLetter.get(letter) ?? meanings.admitted;
  const standard = row ? { standard: row.standard } : {};
  return {
    verdict: meaning.verdict,
    rule: ruleOf(row, meaning),
    ...standard,
    isObserved: meaning === meanings.observed,
  };
}
