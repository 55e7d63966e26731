// Observing in place of refusing (D4c): while an operator moves an old estate, headers that the policy refuses are removed
// where that is enough, and named. Nothing else of the verdict changes; From, the envelope and the body are judged as ever.

import type { HeaderField } from '../mail/header/header-field.ts';
import { trimBlanks } from '../mail/header/header-text.ts';
import type { ObservedHeader } from './checked.ts';
import { type CheckContext, type Judgement, judge, MAX_RECEIVED, usageBytes } from './judge.ts';
import type { JudgedField } from './judge-field.ts';
import type { RejectionCode } from './rejections.ts';
import { mayStrip } from './strip.ts';
import type { Submission } from './submission.ts';
import { headerLimits } from './value-rules.ts';

/** Which reasons can go with a header. Everything else is refused as ever. */
export const curedByRemoval = {
  E_HEADER_NOT_ALLOWED: true,
  // Only `send` of REST meets it, and that is never observed.
  E_HEADER_USE_API_FIELD: false,
  E_HEADER_VALUE_INVALID: true,
  E_HEADER_VALUE_TOO_LONG: true,
  E_HEADER_NAME_INVALID: true,
  E_HEADERS_TOO_LARGE: true,
  E_HEADERS_TOO_MANY: true,
  E_VALIDATION_ERROR: false,
  E_FIELD_MISSING: false,
  E_MAIL_LOOP: false,
  E_TOO_MANY_RECIPIENTS: false,
  E_TOO_MANY_ATTACHMENTS: false,
  E_SENDER_NOT_VERIFIED: false,
  E_RECIPIENT_SUPPRESSED: false,
  E_CONTENT_TOO_LARGE: false,
  E_RATE_LIMIT_EXCEEDED: false,
  E_DAILY_LIMIT_EXCEEDED: false,
  E_INTERNAL_SERVER_ERROR: false,
} as const satisfies Record<RejectionCode, boolean>;

/** A submission without the headers that stand against it. */
export interface Observed {
  /** What is left of it. */
  readonly submission: Submission;
  /** The verdict on what is left; its violations are those that no removal cures. */
  readonly judgement: Judgement;
  /** In the order of the text. */
  readonly removed: readonly ObservedHeader[];
}

/** A field of the judgement that has to go, by its place in it. */
interface Offence {
  readonly at: number;
  readonly code: RejectionCode;
}

/**
 * The removals that can follow from one another: faults of single fields, names that still repeat without them, a header
 * whose companion went, the limits over all, again a companion. One more than that is a fault of this file.
 */
const maxRounds = 6;

// RFC 5322 §2.2: printable US-ASCII without the colon. A line whose name is none may be text of the body, its empty line
// forgotten, or hide the name of another field behind a byte-order mark.
const fieldName = /^[!-9;-~]+$/;

/** It keeps a message from whoever got an address after its owner (RFC 7293): without it the message goes to them. */
const guards: ReadonlySet<string> = new Set(['require-recipient-valid-since']);

/**
 * Whether a message may be in a loop, which nobody would notice once its trace is gone (D4, RFC 5321 §6.3): it has been
 * here already, or has passed as many hosts as a trusted hop may not show.
 */
function mayLoop(fields: readonly HeaderField[], hostname: string): boolean {
  const own = `by ${hostname} `.toLowerCase();
  const trace = fields.filter(({ name }) => /^received[ \t]*$/i.test(name));
  if (trace.length > MAX_RECEIVED) return true;
  return trace.some(({ rawBytes }) => rawBytes.toString('latin1').replace(/\s+/g, ' ').toLowerCase().includes(own));
}

/**
 * Whether a field can go at all: none that is the message's own or describes its body (D4a), no trace of a trusted hop,
 * which tells loops apart, and no line that is no field.
 */
function mayRemove({ field, key, handling }: JudgedField, keepsReceived: boolean): boolean {
  const { name, fault } = field;
  if (fault === 'no-colon' || fault === 'leading-continuation' || !fieldName.test(trimBlanks(name))) return false;
  if (handling === 'trace' || (key === 'received' && keepsReceived)) return false;
  return mayStrip(key) && !guards.has(key);
}

function textOf({ value, field }: JudgedField): string {
  return value?.text ?? field.rawBytes.toString('latin1');
}

/** Fields of one name that are refused only because of one another, and what they say. */
interface Repeated {
  readonly code: RejectionCode;
  readonly places: number[];
  readonly texts: Set<string>;
}

/**
 * Fields with a fault of their own. Of those refused only for standing beside others of their name, where none of these
 * has one: the later ones where all say the same, else all of them. One that lacks another that it needs goes too.
 */
function faultyFields({ fields, refusal }: Judgement): Offence[] {
  const offences: Offence[] = [];
  const withFault = new Set<string>();
  const others = new Map<string, Repeated>();
  for (const [at, judged] of fields.entries()) {
    const reason = refusal(judged);
    if (!reason) continue;
    if (judged.violation) {
      offences.push({ at, code: judged.violation.code });
      withFault.add(judged.key);
      continue;
    }
    const group = others.get(judged.key) ?? { code: reason.code, places: [], texts: new Set<string>() };
    others.set(judged.key, group);
    group.places.push(at);
    group.texts.add(textOf(judged));
  }
  for (const [key, { code, places, texts }] of others) {
    // Judged again once the faulty ones of the name are gone.
    if (withFault.has(key)) continue;
    const surplus = places.length > 1 && texts.size === 1 ? places.slice(1) : places;
    for (const at of surplus) offences.push({ at, code });
  }
  return offences;
}

/** Custom headers beyond the limits over all, from the last one on (D6). */
function beyondLimits({ fields, usage }: Judgement): Offence[] {
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
  return [...codes].map(([at, code]) => ({ at, code }));
}

/** What has to go next. Limits count once nothing else stands against a header: removals before may be enough. */
function nextOffences(judgement: Judgement, keepsReceived: boolean): Offence[] {
  const faulty = faultyFields(judgement);
  const offences = faulty.length > 0 ? faulty : beyondLimits(judgement);
  return offences.filter(({ at, code }) => {
    const judged = judgement.fields[at];
    return judged !== undefined && curedByRemoval[code] && mayRemove(judged, keepsReceived);
  });
}

/**
 * Removes the headers that the policy refuses, and judges what is left, until nothing of it can be removed any more.
 * Linear in the fields: a few rounds, whatever there is.
 * @param first the verdict on the submission as it came
 * @param hostname what the gateway calls itself in Received
 */
export function removeOffending(
  submission: Submission,
  first: Judgement,
  { sendingDomain, hostname }: Pick<CheckContext, 'sendingDomain'> & { readonly hostname: string },
): Observed {
  const codes = new Map<number, RejectionCode>();
  let keptAt = submission.fields.map((_, index) => index);
  let judgement = first;
  let left = submission;
  const keepsReceived = mayLoop(submission.fields, hostname);
  for (let round = 0; round < maxRounds && judgement.violations.length > 0; round += 1) {
    const offences = nextOffences(judgement, keepsReceived);
    if (offences.length === 0) break;
    for (const { at, code } of offences) codes.set(keptAt[at] ?? at, code);
    keptAt = keptAt.filter((index) => !codes.has(index));
    left = { ...submission, fields: submission.fields.filter((_, index) => !codes.has(index)) };
    judgement = judge(left, { sendingDomain });
  }
  const removed = submission.fields.flatMap(({ name }, index) => {
    const code = codes.get(index);
    return code === undefined ? [] : [{ name, index, code }];
  });
  return { submission: left, judgement, removed };
}

/**
 * What the policy lets pass in place of a refused submission while it is observed.
 * @returns undefined where it is enforced: no period, one that is over, a message by `send` or of our own, or anything
 *   against it that removing headers does not cure
 */
export function observe(submission: Submission, first: Judgement, context: CheckContext): Observed | undefined {
  const { sendingDomain, observing } = context;
  const isOpen = observing && submission.observe && observing.nowMs < submission.observe.endsAtMs;
  if (!isOpen || (submission.via.kind !== 'smtp' && submission.via.kind !== 'raw')) return undefined;
  if (first.violations.some(({ code }) => !curedByRemoval[code])) return undefined;
  const found = removeOffending(submission, first, { sendingDomain, hostname: observing.hostname });
  return found.judgement.violations.length === 0 ? found : undefined;
}
