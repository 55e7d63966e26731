// Answers the policy's question: may this submission leave, and in what form? Pure (D1-D11, D13, D42b).

import { verdictLetters } from './explain.ts';
import { type CheckContext, type Judgement, judge, passesOf } from './judge.ts';
import { completeAddresses, isReplacedByOriginalFrom, type Sender, withMappedPath } from './judge-sender.ts';
import { observe } from './observe.ts';
import type { Violation } from './rejections.ts';
import type { Checked, CheckedField, HeaderUsage, LiftedFields, Submission } from './submission.ts';

export type { CheckContext } from './judge.ts';
export { mayStrip } from './strip.ts';

/** Admitted, or every reason against the message in the order of D42b. `forgiven`: those that are only observed (D4c). */
export type CheckResult =
  | { readonly ok: true; readonly checked: Checked; readonly forgiven: readonly Violation[] }
  | { readonly ok: false; readonly violations: readonly Violation[]; readonly usage: HeaderUsage };

const liftedNames = { to: 'to', cc: 'cc', 'reply-to': 'replyTo', subject: 'subject' } as const;

function isLiftedName(key: string): key is keyof typeof liftedNames {
  return Object.hasOwn(liftedNames, key);
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** Sorts the fields of an admitted submission into their places. */
function collect(submission: Submission, judgement: Judgement, sender: Sender, hostname = ''): Checked {
  const { defaultDomain } = submission.submitter.credential;
  const lifted: Mutable<LiftedFields> = { from: sender.field };
  const custom: CheckedField[] = [];
  const mime: { [name: string]: CheckedField } = {};
  const trace = [];
  const stripped: string[] = [];
  let clientMessageId: string | undefined;
  for (const { field, key, row, handling, value } of judgement.fields) {
    if (isReplacedByOriginalFrom(key, sender)) continue;
    if (handling === 'custom' && value) custom.push(value);
    else if (handling === 'stripped') stripped.push(field.name);
    else if (handling === 'trace') trace.push(field);
    else if (!value || value.text === '') continue;
    else if (handling === 'mime') mime[key] = value;
    else if (key === 'message-id') clientMessageId = value.text;
    else if (isLiftedName(key)) {
      const completes = defaultDomain !== undefined && row?.syntax === 'addresses';
      lifted[liftedNames[key]] = completes ? completeAddresses(value, defaultDomain) : value;
    }
  }
  if (sender.originalFrom) custom.push(sender.originalFrom);
  if (sender.replyTo && !lifted.replyTo) lifted.replyTo = sender.replyTo;
  const mappedSender = sender.mapped ?? submission.mappedPath;
  const removed = judgement.fields.flatMap(({ field, key, handling }) =>
    key === 'received' && handling === 'stripped' ? field : [],
  );
  const passes = hostname === '' ? 0 : passesOf(removed, hostname);
  return {
    submission,
    lifted,
    from: { address: sender.address, domain: sender.domain },
    sendingDomain: sender.sendingDomain,
    custom,
    mime,
    trace,
    ...(passes > 0 ? { passes } : {}),
    ...(mappedSender ? { mappedSender } : {}),
    ...(clientMessageId === undefined ? {} : { clientMessageId }),
    stripped,
    observed: [],
    usage: judgement.usage,
  };
}

function admit(submission: Submission, judgement: Judgement, hostname: string | undefined): Checked {
  if (!judgement.sender) throw new Error('The policy admitted a submission without a sender');
  return collect(submission, judgement, judgement.sender, hostname);
}

/**
 * Judges a submission by the header policy and its sender by the account's domains. Only these changes are made: stripped
 * fields are removed (D4a), missing domains are added (D4b), senders that nobody owns are mapped (D4d), enumerations get the catalogue's spelling (D8). Lifted and
 * MIME fields that are empty count as absent. Where the policy is only observed, refused headers are removed too, if that
 * is enough to admit the message (D4c).
 */
export function check(given: Submission, context: CheckContext): CheckResult {
  const submission = withMappedPath(given, context.sendingDomain);
  const judgement = judge(submission, context);
  const { violations, usage } = judgement;
  context.tellVerdicts?.(() => verdictLetters(judgement));
  if (violations.length === 0)
    return { ok: true, checked: admit(submission, judgement, context.hostname), forgiven: [] };
  const observed = observe(submission, judgement, context);
  if (!observed) return { ok: false, violations, usage };
  context.tellVerdicts?.(() => verdictLetters(observed.judgement, observed.removed));
  const checked = { ...admit(observed.submission, observed.judgement, context.hostname), observed: observed.removed };
  return { ok: true, checked, forgiven: violations };
}
