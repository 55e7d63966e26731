// Judges a whole submission: every field by itself, then names that repeat, headers that need another, the sender, mail
// that goes in a circle (D4, RFC 5321 §6.3), and the limits over all headers (D1-D11, D42b). `check` and `explain` both use this result, so they cannot disagree.

import { type HeaderField, MAX_HEADER_FIELDS, MAX_HEADER_SECTION_BYTES } from '../../mail/header/header-reader.ts';
import {
  type FieldViolation,
  isApiHeader,
  type JudgedField,
  judgeField,
  ruleRank,
  strippedField,
} from './judge-field.ts';
import {
  type FindSendingDomain,
  type FromState,
  judgeSender,
  type Sender,
  type SenderVerdict,
} from './judge-sender.ts';
import { tellingWords, type Violation } from './rejections.ts';
import { createStripper, type Stripper } from './strip.ts';
import type { HeaderUsage, Submission } from './submission.ts';
import { headerLimits, parseUnsubscribe, shown } from './value-rules.ts';

/** More Received headers than this are a loop (D4). */
export const MAX_RECEIVED = 50;
/** How often a message may have passed this gateway before: once or twice is a forwarding, more often a loop. */
const MAX_PASSES = 3;

/** A number of passes that is written into a field is believed up to this one. */
const passPattern = /^ \(postern(?:; pass (\d{1,3}))?\)/;

/** How often a message has passed this gateway by its Received fields; where these were removed (D4a), the last one says it. */
export function passesOf(trace: readonly HeaderField[], hostname: string): number {
  const own = `by ${hostname.toLowerCase()}`;
  let passes = 0;
  for (const { rawBytes } of trace) {
    const text = rawBytes.toString('latin1').replace(/\s+/g, ' ').toLowerCase();
    const start = text.indexOf(`${own} (postern`);
    const found = start < 0 ? undefined : passPattern.exec(text.slice(start + own.length));
    if (found) passes += Number(found[1] ?? 1);
  }
  return passes;
}

/** Says why a message is in a loop, if it is. @param trace all its Received headers @param hostname the gateway's, if known */
function loopReason(trace: readonly HeaderField[], hostname: string | undefined): string | undefined {
  if (trace.length > MAX_RECEIVED) return `${trace.length} Received headers, over ${MAX_RECEIVED} are a mail loop`;
  const passes = hostname === undefined ? 0 : passesOf(trace, hostname);
  if (passes <= MAX_PASSES) return undefined;
  return `The message has passed this gateway ${passes} times, over ${MAX_PASSES} are a mail loop`;
}

/** What the policy needs to know besides the submission. */
export interface CheckContext {
  readonly sendingDomain: FindSendingDomain;
  /** The gateway's own name in Received, by which a loop shows; without it only the number of hops does. */
  readonly hostname?: string;
  /** The time (milliseconds since 1970), and the gateway's name in Received, where the policy may be only observed (D4c); without it it is enforced. */
  readonly observing?: { readonly nowMs: number; readonly hostname: string };
  /** Called by `check` with a function that gives the letters of `verdictLetters`, for a record of the verdict. */
  readonly tellVerdicts?: (letters: () => string) => void;
}

/** The result of judging a submission. */
export interface Judgement {
  /** In the order of the text; empty when the header section was too large to be read. */
  readonly fields: readonly JudgedField[];
  /** The reason against a field's name; all fields of that name share it (D2). */
  readonly refusal: (judged: JudgedField) => Violation | undefined;
  /** In the order of D42b; empty means admitted. */
  readonly violations: readonly Violation[];
  readonly usage: HeaderUsage;
  /** Absent where anything is wrong with the sender. */
  readonly sender?: Sender;
}

/** All fields of one name, compared without case. */
interface NameGroup {
  readonly first: JudgedField;
  count: number;
  /** The first broken rule in the order of D2, and the field that broke it. */
  broken: FieldViolation | undefined;
  culprit: HeaderField;
  /** The reason, where the answer lists it before the headers: about the sender or a loop. */
  told: Violation | undefined;
}

function violationOf(broken: FieldViolation, field: HeaderField): Violation {
  const pointer = field.pointer === undefined ? {} : { pointer: field.pointer };
  return { code: broken.code, name: field.name, message: broken.message, ...pointer };
}

function breakRule(group: NameGroup, broken: FieldViolation, culprit: HeaderField): void {
  if (group.broken && group.broken.rank <= broken.rank) return;
  group.broken = broken;
  group.culprit = culprit;
}

type Groups = Map<string, NameGroup>;

/** The key of a field's group. From in the API's `headers` and the API's own `from` are not repetitions of one another. */
function groupKey(field: HeaderField, key: string): string {
  return field.pointer !== undefined && !isApiHeader(field) ? `/${key}` : key;
}

function addToGroup(groups: Groups, judged: JudgedField): void {
  const { field, violation, handling } = judged;
  if (handling === 'stripped') return;
  const key = groupKey(field, judged.key);
  const group = groups.get(key) ?? { first: judged, count: 0, broken: undefined, culprit: field, told: undefined };
  if (group.count === 0) groups.set(key, group);
  group.count += 1;
  if (violation) breakRule(group, violation, field);
}

function judgeRepetition(groups: Groups): void {
  for (const group of groups.values()) {
    // D5: Received of a trusted hop may repeat.
    if (group.count === 1 || group.first.handling === 'trace') continue;
    const { field } = group.first;
    const message = `${shown(field.name)} appears ${group.count}${tellingWords.isRepeated}`;
    breakRule(group, { rank: ruleRank.repetition, code: 'E_HEADER_VALUE_INVALID', message }, field);
  }
}

/** Judges headers that need another one beside them: List-Unsubscribe-Post (D9). In `fields` it notes which go for that (D4e). */
function judgeNeeds(groups: Groups, fields: JudgedField[], strip: Stripper | undefined): void {
  for (const [name, group] of groups) {
    const { row, key, field, handling } = group.first;
    const needs = row?.needs;
    if (!needs || handling !== 'custom') continue;
    const wanted = needs.name.toLowerCase();
    const met = fields.some(
      ({ key: other, value }) => other === wanted && value && parseUnsubscribe(value.decoded).https,
    );
    if (met) continue;
    if (strip?.invalid(key)) {
      groups.delete(name);
      for (const [at, judged] of fields.entries()) {
        if (judged.key === key && judged.handling === handling) fields[at] = strippedField(judged, 'invalid');
      }
      continue;
    }
    const message = `${row.name} needs ${needs.name} with ${needs.with} beside it`;
    breakRule(group, { rank: ruleRank.value, code: 'E_HEADER_VALUE_INVALID', message }, field);
  }
}

/** The bytes that one custom header adds to the total that is limited (D6). */
export function usageBytes(name: string, decoded: string): number {
  return name.length + 2 + Buffer.byteLength(decoded) + 2;
}

/** Counts custom headers by the formula of D6, including those with refused values. */
function countUsage(fields: readonly JudgedField[]): HeaderUsage {
  let allowlisted = 0;
  let bytes = 0;
  for (const { handling, row, field, value } of fields) {
    if (handling !== 'custom' || !value) continue;
    if (row?.class === 'allowlisted') allowlisted += 1;
    bytes += usageBytes(field.name, value.decoded);
  }
  return { allowlisted, bytes };
}

function judgeLimits(usage: HeaderUsage): Violation[] {
  const violations: Violation[] = [];
  if (usage.allowlisted > headerLimits.allowlisted) {
    const message = `${usage.allowlisted} allowlisted headers, at most ${headerLimits.allowlisted} are allowed (X- headers are not counted)`;
    violations.push({ code: 'E_HEADERS_TOO_MANY', message });
  }
  if (usage.bytes > headerLimits.totalBytes) {
    const message = `The custom headers have ${usage.bytes} bytes together, at most ${headerLimits.totalBytes} are allowed`;
    violations.push({ code: 'E_HEADERS_TOO_LARGE', message });
  }
  return violations;
}

/** Judges the trace. What `strip` removes counts too: nobody would notice the loop of a message without its trace (D4a). */
function judgeLoop(groups: Groups, fields: readonly JudgedField[], hostname: string | undefined) {
  const trace = fields.flatMap(({ field, key, handling }) =>
    key === 'received' && (handling === 'trace' || handling === 'stripped') ? field : [],
  );
  const message = loopReason(trace, hostname);
  if (message === undefined) return undefined;
  const violation: Violation = { code: 'E_MAIL_LOOP', name: 'Received', message };
  const group = groups.get('received');
  if (group?.first.handling === 'trace') group.told = violation;
  return violation;
}

interface FoundFrom {
  readonly state: FromState;
  readonly group?: NameGroup;
}

/** Finds the From that counts: that of the header section, or the API's own field. */
function findFrom(submission: Submission, groups: Groups, fields: readonly JudgedField[]): FoundFrom {
  const from = fields.find(({ key, field }) => key === 'from' && !isApiHeader(field));
  const group = from && groups.get(groupKey(from.field, 'from'));
  if (!group) return { state: { kind: 'missing', pointer: submission.via.kind === 'rest' ? '/from' : undefined } };
  const { field, value } = from;
  if (!value || (group.broken && group.broken.rank < ruleRank.value)) return { state: { kind: 'refused' }, group };
  return { state: { kind: 'given', value, pointer: field.pointer }, group };
}

/** Gives the reasons that come before those of the headers: the collected fields, then the sender (D42b). */
function judgeFront(found: FoundFrom, verdict: SenderVerdict): Violation[] {
  const { malformed, envelope, unverified } = verdict;
  const { group } = found;
  if (group && malformed) group.told = malformed;
  if (group && !group.broken) group.told ??= unverified.find(({ name }) => name === 'From');
  return [...(malformed ? [malformed] : []), ...(envelope ? [envelope] : []), ...unverified];
}

const unread: Judgement = {
  fields: [],
  refusal: () => undefined,
  violations: [
    {
      code: 'E_HEADERS_TOO_LARGE',
      message: `The header section is larger than is read: at most ${MAX_HEADER_SECTION_BYTES} bytes and ${MAX_HEADER_FIELDS} headers`,
    },
  ],
  usage: { allowlisted: 0, bytes: 0 },
};

/** Judges a submission. Pure. It finds every reason, one for each header name (D2). */
export function judge(submission: Submission, context: CheckContext): Judgement {
  if (submission.headerSectionTooLarge === true) return unread;
  const groups: Groups = new Map();
  const strip = createStripper(submission.submitter.credential.strip);
  const fields = submission.fields.map((field) => judgeField(submission, field, strip));
  for (const judged of fields) addToGroup(groups, judged);
  judgeNeeds(groups, fields, strip);
  judgeRepetition(groups);
  const usage = countUsage(fields);
  const loop = judgeLoop(groups, fields, context.hostname);
  const found = findFrom(submission, groups, fields);
  const verdict = judgeSender(submission, found.state, context.sendingDomain);
  const violations = [...(loop ? [loop] : []), ...judgeFront(found, verdict)];
  for (const { broken, culprit, told } of groups.values()) {
    if (broken && !told) violations.push(violationOf(broken, culprit));
  }
  for (const violation of judgeLimits(usage)) violations.push(violation);
  const refusal = (judged: JudgedField): Violation | undefined => {
    if (judged.handling === 'stripped') return undefined;
    const group = groups.get(groupKey(judged.field, judged.key));
    return group?.told ?? (group?.broken && violationOf(group.broken, group.culprit));
  };
  return { fields, refusal, violations, usage, ...(verdict.sender ? { sender: verdict.sender } : {}) };
}
