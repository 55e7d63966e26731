// What delivery has in hand: a message (job), and those of its recipients that take one route in one transaction (task).

import type { ClockReading } from '../base/clock.ts';
import type { DsnRequest } from '../mail/envelope.ts';
import type { DueMessage, SpoolEntry } from '../spool/spool.ts';
import type { OutgoingMail, RecipientResult } from './smtp/smtp-client.ts';
import type { ContentBudget, TransportShare } from './transport-share.ts';

/** A message without its octets. */
export type JobEntry = DueMessage['entry'];

/** A recipient that is due. */
export interface DueRecipient {
  readonly address: string;
  readonly attempts: number;
}

/** The octets of a message. */
export interface Content {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** That a message leaves to one address in place of its recipients. */
export interface Redirect {
  readonly to: string;
  /** The field X-Original-To, which stands first in the message that leaves. No signature covers it. */
  readonly field: Buffer;
  /** None of the recipients in whose place it stands may be reported on (NOTIFY=NEVER). */
  readonly wantsNoReport: boolean;
}

/** A message in hand, for its recipients of one transport. */
export interface Job {
  readonly entry: JobEntry;
  readonly share: TransportShare;
  /** Octets of head and body. */
  readonly size: number;
  readonly recipientCount: number;
  /** Claimed from the spool, not handed over by the pipeline. */
  readonly isClaimed: boolean;
  /** When delivery took it in hand. */
  readonly takenAt: ClockReading;
  /** When the claim on its recipients runs out, in milliseconds of the monotonic clock. */
  readonly claimEndsAt: number;
  /** Where it leaves to another address than its recipients' (staging safety, D98a): that address, and the field that tells. */
  readonly redirect: Redirect | undefined;
  openTasks: number;
  /** Its octets, while they are in memory. */
  content: Content | undefined;
  /** The budget that its octets were counted in. */
  room: ContentBudget | undefined;
  /** While its octets are being loaded: a promise that becomes true once they are there. */
  loading: Promise<boolean> | undefined;
}

/** Recipients of one message for one attempt. */
export interface Task {
  readonly job: Job;
  /** Those of the envelope that leaves. */
  readonly recipients: readonly DueRecipient[];
  /** The recipients of the message in whose place the one of the envelope stands; absent where they are the same. */
  readonly originals?: readonly DueRecipient[];
  /** How often it was begun on a connection that turned out to be dead. */
  readonly deadConnections: number;
}

type NewJob = Pick<Job, 'entry' | 'share' | 'size' | 'recipientCount' | 'isClaimed' | 'takenAt' | 'claimEndsAt'>;

/** Makes the job of a message that was just taken in hand. */
export function newJob(message: NewJob, redirect?: Redirect): Job {
  const inHand = { openTasks: 0, content: undefined, room: undefined, loading: undefined, redirect };
  if (!redirect) return { ...message, ...inHand };
  const { length } = redirect.field;
  const { platformSignature: cut } = message.entry;
  // The platform's signature stands that much further behind the beginning.
  const shifted = cut ? { platformSignature: { start: cut.start + length, end: cut.end + length } } : {};
  return { ...message, entry: { ...message.entry, ...shifted }, size: message.size + length, ...inHand };
}

/** Gives a job its octets, behind the field of a redirection. */
export function setContent(job: Job, { head, body }: Content): void {
  job.content = { head: job.redirect ? Buffer.concat([job.redirect.field, head]) : head, body };
}

/** The recipients of the message that a task is for; where it is redirected, those that the envelope does not name. */
export function recipientsOf({ originals, recipients }: Task): readonly DueRecipient[] {
  return originals ?? recipients;
}

/** The head as the route wants it, maybe without the platform's own signature (D27). @param entry tells where that stands */
export function headFor(
  { head }: Content,
  entry: Pick<SpoolEntry, 'platformSignature'>,
  route: { readonly platformSignature: boolean },
): readonly Buffer[] {
  const cut = entry.platformSignature;
  if (!cut || route.platformSignature) return [head];
  return [head.subarray(0, cut.start), head.subarray(cut.end)];
}

/**
 * What the next hop is told of the sender's wishes about reports (RFC 3461 §5.2.1). What leaves to another address is no
 * longer the sender's mail to the recipients: as before a mailing list (RFC 3461 §5.2.7) their NOTIFY and ORCPT end here, and
 * the gateway tells itself what became of their mail. Only the wish for no report at all goes on, where all of them have it.
 */
function dsnOf({ entry, redirect }: Job): { readonly dsn?: DsnRequest } {
  if (!redirect) return entry.dsn ? { dsn: entry.dsn } : {};
  return redirect.wantsNoReport ? { dsn: { recipients: new Map([[redirect.to, { notify: 'NEVER' }]]) } } : {};
}

/** The mail of a task as its connection wants it. @throws Error where the message's octets are not in memory */
export function outgoingMail({ job, recipients }: Task, route: { readonly platformSignature: boolean }): OutgoingMail {
  const { entry, content } = job;
  if (!content) throw new Error(`The octets of message ${entry.id} are not in memory`);
  return {
    reversePath: entry.reversePath,
    recipients: recipients.map((recipient) => recipient.address),
    requireTls: entry.requireTls,
    ...dsnOf(job),
    head: headFor(content, entry, route),
    body: content.body,
  };
}

/** Parts a task: `rest` goes again, `done` has the others with `results`. Where nothing was delivered, there is no rest. */
export function splitTask(
  task: Task,
  results: readonly RecipientResult[],
  isAgain: (result: RecipientResult) => boolean,
): { readonly done: Task; readonly results: readonly RecipientResult[]; readonly rest?: Task } {
  const { job, recipients } = task;
  if (!results.some(isAgain) || !results.some(({ kind }) => kind === 'delivered')) return { done: task, results };
  const goes = results.map(isAgain);
  return {
    done: { ...task, recipients: recipients.filter((_, index) => !goes[index]) },
    results: results.filter((_, index) => !goes[index]),
    rest: { job, recipients: recipients.filter((_, index) => goes[index]), deadConnections: 0 },
  };
}
