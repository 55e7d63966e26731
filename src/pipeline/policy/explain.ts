// Explains the policy's verdict header by header, for `postern check` (D47): what was judged, as what, by which rule.

import type { HeaderUsage } from './checked.ts';
import type { HeaderRow } from './header-catalogue.ts';
import { type CheckContext, judge } from './judge.ts';
import type { JudgedField } from './judge-field.ts';
import { isReplacedByOriginalFrom, type Sender, withMappedPath } from './judge-sender.ts';
import type { Violation } from './rejections.ts';
import type { StripReason } from './strip.ts';
import type { Submission } from './submission.ts';
import { headerLimits } from './value-rules.ts';

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

const unknownRule = 'On no list, and does not begin with X-.';

const handled = {
  lifted: 'One of the message’s own fields.',
  mime: 'Describes the body.',
  replaced: 'The platform writes its own.',
  trace: 'Kept as trace of a trusted hop.',
} as const;

const stripped: Readonly<Record<StripReason, string>> = {
  named: 'Removed: the operator named it for this credential.',
  empty: 'Removed: it has no value, and the operator has such fields removed for this credential.',
  repeated: 'Removed: one of its name came before it, and the operator keeps only the first for this credential.',
  invalid: 'Removed: its value would be refused, and the operator has it removed then for this credential.',
};

/** The rule behind a verdict in the catalogue's words. @param row undefined where the catalogue does not know the name */
export function ruleOfVerdict(
  row: HeaderRow | undefined,
  verdict: HeaderVerdict,
  stripReason: StripReason | undefined,
): string {
  const about = row?.about ?? unknownRule;
  if (verdict === 'stripped') return stripped[stripReason ?? 'named'];
  if (row === undefined || verdict === 'admitted' || verdict === 'refused') return about;
  return `${handled[verdict]} ${about}`;
}

function verdictOf(field: JudgedField, violation: Violation | undefined): HeaderVerdict {
  if (violation) return 'refused';
  return field.handling === 'custom' ? 'admitted' : field.handling;
}

/** The explanation of a field that is affected by a new From (D4b, D4d); undefined for other fields. */
function explainBounce({ key }: JudgedField, sender: Sender | undefined): Partial<HeaderExplanation> | undefined {
  if (isReplacedByOriginalFrom(key, sender)) return { verdict: 'replaced', rule: 'Keeps what From was.' };
  if (key !== 'from' || !sender?.originalFrom) return undefined;
  if (sender.mapped) {
    const { address, pattern } = sender.mapped;
    return {
      rule: `A sender that nobody owns: becomes ${address} by senders "${pattern}", and X-Original-From keeps this one.`,
    };
  }
  return { rule: `A mail server’s bounce: becomes ${sender.address}, and X-Original-From keeps this one.` };
}

/** What thread repair does with a field (D23), where the account asks for it. */
function explainThread({ key }: JudgedField, { submitter, via }: Submission): string {
  const cites = key === 'in-reply-to' || key === 'references';
  if (!cites || submitter.account.threadRepair !== true || via.kind === 'dsn') return '';
  return ' Thread repair: ids of messages that left with another Message-ID are rewritten.';
}

function explainField(
  field: JudgedField,
  violation: Violation | undefined,
  { sender, submission }: { readonly sender: Sender | undefined; readonly submission: Submission },
): HeaderExplanation {
  const verdict = verdictOf(field, violation);
  const standard = field.row === undefined ? {} : { standard: field.row.standard };
  const told = {
    name: field.field.name,
    verdict,
    rule: `${ruleOfVerdict(field.row, verdict, field.stripReason)}${explainThread(field, submission)}`,
    ...standard,
  };
  return violation ? { ...told, violation } : { ...told, ...explainBounce(field, sender) };
}

/** Judges a submission as `check` does and tells the verdict on every header in the order of the text. */
export function explain(given: Submission, context: CheckContext): Explanation {
  const submission = withMappedPath(given, context.sendingDomain);
  const { fields, refusal, violations, usage, sender } = judge(submission, context);
  return {
    admitted: violations.length === 0,
    headers: fields.map((field) => explainField(field, refusal(field), { sender, submission })),
    violations,
    usage,
    limits: headerLimits,
  };
}
