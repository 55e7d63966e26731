// Observes instead of refusing (D4c): while an operator moves an old estate, refused headers are removed and named if
// that is enough to admit the message. From, the envelope and the body are judged as always.

import type { HeaderField } from '../../mail/header/header-reader.ts';
import { trimBlanks } from '../../mail/header/header-text.ts';
import { type CheckContext, type Judgement, judge, MAX_RECEIVED, usageBytes } from './judge.ts';
import type { JudgedField } from './judge-field.ts';
import type { RejectionCode } from './rejections.ts';
import { mayStrip } from './strip.ts';
import type { ObservedHeader, Submission } from './submission.ts';
import { headerLimits } from './value-rules.ts';

/** The reasons that removing a header cures; any other refuses the message as always. */
export const curedByRemoval: ReadonlySet<RejectionCode> = new Set<RejectionCode>([
  'E_HEADER_NOT_ALLOWED',
  'E_HEADER_VALUE_INVALID',
  'E_HEADER_VALUE_TOO_LONG',
  'E_HEADER_NAME_INVALID',
  'E_HEADERS_TOO_LARGE',
  'E_HEADERS_TOO_MANY',
]);

/** A submission without the headers that the policy refused. */
export interface Observed {
  readonly submission: Submission;
  /** The verdict on the rest; its violations are those that no removal cures. */
  readonly judgement: Judgement;
  /** In the order of the text. */
  readonly removed: readonly ObservedHeader[];
}

/** A field to remove: its index in the judgement, and the reason. */
interface Offence {
  readonly at: number;
  readonly code: RejectionCode;
  readonly message: string;
}

/** Removals can make others necessary, such as that of a companion; more rounds than this are a fault of this file. */
const maxRounds = 6;

// RFC 5322 §2.2: printable US-ASCII without the colon. Another line may be a body's text, or hide a name behind a byte-order mark.
const fieldName = /^[!-9;-~]+$/;

/** RFC 7293: without this header, whoever now has the address of a former owner would get the former owner's mail. */
const guards: ReadonlySet<string> = new Set(['require-recipient-valid-since']);

/** Whether a message may be in a loop (D4, RFC 5321 §6.3): it has passed here before, or more hosts than a trusted hop may show. */
function mayLoop(fields: readonly HeaderField[], hostname: string): boolean {
  const own = `by ${hostname} `.toLowerCase();
  const trace = fields.filter(({ name }) => /^received[ \t]*$/i.test(name));
  if (trace.length > MAX_RECEIVED) return true;
  return trace.some(({ rawBytes }) => rawBytes.toString('latin1').replace(/\s+/g, ' ').toLowerCase().includes(own));
}

/** Whether a field may be removed: not the message's own, nor the body's (D4a), nor a trusted hop's trace, nor what is no field. */
function mayRemove({ field, key, handling }: JudgedField, keepsReceived: boolean): boolean {
  const { name, fault } = field;
  if (fault === 'no-colon' || fault === 'leading-continuation' || !fieldName.test(trimBlanks(name))) return false;
  if (handling === 'trace' || (key === 'received' && keepsReceived)) return false;
  return mayStrip(key) && !guards.has(key);
}

/** Fields of one name that are refused only because they repeat or lack another header, with their values. */
interface Repeated {
  readonly code: RejectionCode;
  readonly message: string;
  readonly places: number[];
  readonly texts: Set<string>;
}

/** The fields to remove: those with faults, all but the first of equal ones that repeat or all, and those without a companion. */
function faultyFields({ fields, refusal }: Judgement): Offence[] {
  const offences: Offence[] = [];
  const withFault = new Set<string>();
  const others = new Map<string, Repeated>();
  for (const [at, judged] of fields.entries()) {
    const reason = refusal(judged);
    if (!reason) continue;
    if (judged.violation) {
      offences.push({ at, code: judged.violation.code, message: judged.violation.message });
      withFault.add(judged.key);
      continue;
    }
    const { code, message } = reason;
    const group = others.get(judged.key) ?? { code, message, places: [], texts: new Set<string>() };
    others.set(judged.key, group);
    group.places.push(at);
    group.texts.add(judged.value?.text ?? judged.field.rawBytes.toString('latin1'));
  }
  for (const [key, { code, message, places, texts }] of others) {
    // The remaining fields of the name are judged again once the faulty ones are removed.
    if (withFault.has(key)) continue;
    const surplus = places.length > 1 && texts.size === 1 ? places.slice(1) : places;
    for (const at of surplus) offences.push({ at, code, message });
  }
  return offences;
}

/** Lists custom headers beyond the limits over all headers, starting with the last one (D6). */
function beyondLimits({ fields, usage, violations }: Judgement): Offence[] {
  let { allowlisted, bytes } = usage;
  const codes = new Map<number, RejectionCode>();
  const take = (code: RejectionCode, isOver: (judged: JudgedField) => boolean): void => {
    for (let at = fields.length - 1; at >= 0; at -= 1) {
      const judged = fields[at];
      if (judged?.handling !== 'custom' || !judged.value || codes.has(at) || !isOver(judged)) continue;
      codes.set(at, code);
      if (judged.row?.class === 'allowlisted') allowlisted -= 1;
      bytes -= usageBytes(judged.field.name, judged.value.decoded);
    }
  };
  take('E_HEADERS_TOO_MANY', ({ row }) => allowlisted > headerLimits.allowlisted && row?.class === 'allowlisted');
  take('E_HEADERS_TOO_LARGE', () => bytes > headerLimits.totalBytes);
  const messageOf = new Map(violations.map(({ code, message }) => [code, message]));
  return [...codes].map(([at, code]) => ({ at, code, message: messageOf.get(code) ?? '' }));
}

/** Lists the fields to remove next. The limits count only once no single header is refused: fewer removals may be enough. */
function nextOffences(judgement: Judgement, keepsReceived: boolean): Offence[] {
  const faulty = faultyFields(judgement);
  const offences = faulty.length > 0 ? faulty : beyondLimits(judgement);
  return offences.filter(({ at, code }) => {
    const judged = judgement.fields[at];
    return judged !== undefined && curedByRemoval.has(code) && mayRemove(judged, keepsReceived);
  });
}

/**
 * Removes the headers that the policy refuses and judges the rest again, until nothing more can be removed. Linear in the
 * number of fields: the rounds are few.
 * @param first the verdict on the submission as it came
 * @param hostname what the gateway calls itself in Received
 */
export function removeOffending(
  submission: Submission,
  first: Judgement,
  { sendingDomain, hostname }: Pick<CheckContext, 'sendingDomain'> & { readonly hostname: string },
): Observed {
  const reasons = new Map<number, Pick<ObservedHeader, 'code' | 'message'>>();
  let keptAt = submission.fields.map((_, index) => index);
  let judgement = first;
  let left = submission;
  const keepsReceived = mayLoop(submission.fields, hostname);
  for (let round = 0; round < maxRounds && judgement.violations.length > 0; round += 1) {
    const offences = nextOffences(judgement, keepsReceived);
    if (offences.length === 0) break;
    for (const { at, code, message } of offences) reasons.set(keptAt[at] ?? at, { code, message });
    keptAt = keptAt.filter((index) => !reasons.has(index));
    left = { ...submission, fields: submission.fields.filter((_, index) => !reasons.has(index)) };
    judgement = judge(left, { sendingDomain });
  }
  const removed = submission.fields.flatMap(({ name }, index) => {
    const reason = reasons.get(index);
    return reason ? [{ name, index, ...reason }] : [];
  });
  return { submission: left, judgement, removed };
}

/** Gives what passes of a refused submission; undefined where the policy is enforced, or removing headers cures not all. */
export function observe(submission: Submission, first: Judgement, context: CheckContext): Observed | undefined {
  const { sendingDomain, observing } = context;
  const isOpen = observing && submission.observe && observing.nowMs < submission.observe.endsAtMs;
  if (!isOpen || (submission.via.kind !== 'smtp' && submission.via.kind !== 'raw')) return undefined;
  if (first.violations.some(({ code }) => !curedByRemoval.has(code))) return undefined;
  const found = removeOffending(submission, first, { sendingDomain, hostname: observing.hostname });
  return found.judgement.violations.length === 0 ? found : undefined;
}
