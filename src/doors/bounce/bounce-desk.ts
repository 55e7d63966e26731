// What bounce listeners do with mail (D40a): judge the recipient, have the report read, hand on what it says, and send nothing on.

import type { KeyObject } from 'node:crypto';
import type { BodyBudget } from '../../base/body-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { countedAddress } from '../../base/counted-address.ts';
import { Counts } from '../../base/counts.ts';
import { Unavailable } from '../../base/errors.ts';
import { type MaybePromise, whenKnown } from '../../base/load/maybe-promise.ts';
import type { Logger } from '../../base/log.ts';
import type { SharedWindows } from '../../base/process-group.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { ReportReader } from '../../delivery/feedback/report/report-reader.ts';
import type { ArrivedReport, ReportResult } from '../../delivery/feedback/take-report.ts';
import { asciiDomain, splitMailbox } from '../../mail/address/domain.ts';
import type { Envelope } from '../../mail/envelope.ts';
import { readBounceLocalPart, readToken } from '../../mail/return-token.ts';
import { readMail, readRcpt } from '../smtp/address-command.ts';
import type { Client, CommandParts, TransactionCommands } from '../smtp/dialogue-context.ts';
import { type Answer, replies, tooLarge, unavailableReply } from '../smtp/replies.ts';
import type { BounceSettings } from '../smtp/settings.ts';
import type { BounceDesk, ReceivedMessage } from '../smtp/smtp-session.ts';

/** What decides which addresses are ours, as it is in force. */
interface BounceAddresses {
  /** A-label, lower case. */
  readonly bounceDomain: string;
  /** The domains of reverse-paths of sending domains that have their own; A-labels, lower case. */
  readonly returnPathDomains: ReadonlySet<string>;
  readonly hmacKey: KeyObject;
  readonly tokenDays: number;
}

/** What an address of a report stands for. */
type BounceTarget =
  /** Reports about the message with this id. */
  | { readonly kind: 'bounce'; readonly queueId: string }
  /** Complaints; the report says about which message. */
  | { readonly kind: 'feedback' }
  /** Mail for the people who run this server (RFC 5321 §4.5.1). */
  | { readonly kind: 'postmaster' }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'expired' };

const dayMs = 86_400_000;

/** Tells whether the message of an id is older than tokens may be. The id is a UUIDv7: it begins with its time. */
function isExpired(id: string, { tokenDays }: BounceAddresses, nowMs: number): boolean {
  const madeAt = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  return nowMs - madeAt > tokenDays * dayMs;
}

/** Reads the recipient of a report. @param nowMs milliseconds since 1970 */
export function readBounceAddress(mailbox: string, addresses: BounceAddresses, nowMs: number): BounceTarget {
  // RFC 5321 §4.5.1: postmaster is taken without a domain, too.
  if (mailbox.toLowerCase() === 'postmaster') return { kind: 'postmaster' };
  const { localPart, domain = '' } = splitMailbox(mailbox);
  const host = asciiDomain(domain);
  if (host === undefined) return { kind: 'unknown' };
  const isOwn = host === addresses.bounceDomain;
  if (isOwn && localPart.toLowerCase() === 'fbl') return { kind: 'feedback' };
  if (!isOwn && !addresses.returnPathDomains.has(host)) return { kind: 'unknown' };
  if (localPart.toLowerCase() === 'postmaster') return { kind: 'postmaster' };
  const queueId = readBounceLocalPart(localPart, addresses.hmacKey);
  if (queueId === undefined) return { kind: 'unknown' };
  return isExpired(queueId, addresses, nowMs) ? { kind: 'expired' } : { kind: 'bounce', queueId };
}

/** Finds the message of a complaint by its CFBL-Feedback-ID values; undefined where none is a token of ours that still counts. */
export function readFeedbackIds(ids: readonly string[], addresses: BounceAddresses, nowMs: number): string | undefined {
  return ids
    .map((id) => readToken(id, 'feedback', addresses.hmacKey))
    .find((id) => id !== undefined && !isExpired(id, addresses, nowMs));
}

/** What these commands ask of the desk. */
interface BounceQuestions {
  /** What a recipient stands for now. */
  readonly targetOf: (mailbox: string) => BounceTarget;
  /** Counts a recipient that is refused. @returns the answer: another where its address has sent too many of them */
  readonly refused: (reason: 'unknown' | 'expired', client: Client) => MaybePromise<Answer>;
  /** Counts a message that is about to come. @returns the answer to DATA: a refusal where its address has sent too many */
  readonly begin: (client: Client) => MaybePromise<Answer>;
}

const bounceReplies = {
  unknown: { code: 550, enhanced: '5.7.1', text: 'Only reports about mail of this platform are taken here' },
  expired: { code: 550, enhanced: '5.7.1', text: 'The message of this address is too old for reports' },
  tooManyRefused: { code: 421, enhanced: '4.7.0', text: 'Too many wrong recipients', next: 'close' },
  oneAtATime: { code: 452, enhanced: '4.5.3', text: 'One recipient a message, please' },
  overRate: { code: 451, enhanced: '4.7.1', text: 'Too many reports from your address, try again later' },
} as const satisfies Record<string, Answer>;

interface Transaction {
  readonly reversePath: string;
  readonly smtputf8: boolean;
  readonly size: number;
  recipient?: string;
}

function envelopeOf({ reversePath, smtputf8, recipient }: Transaction): Envelope {
  return { reversePath, recipients: recipient === undefined ? [] : [recipient], smtputf8, requireTls: false };
}

/** MAIL, RCPT and DATA of one session: any sender, and only recipients whose token authenticates. */
function commandsOf({ context, client, session }: CommandParts, questions: BounceQuestions): TransactionCommands {
  let open: Transaction | undefined;
  const hasRoom = (size: number): boolean => context.bodies.admits(session.bodyOwner, size);
  return {
    get envelope() {
      return open && envelopeOf(open);
    },
    reset: () => void (open = undefined),
    mail(line) {
      if (session.helo === undefined) return replies.sayHelloFirst;
      if (open) return replies.nestedMail;
      const command = readMail(line, session.secure);
      if ('code' in command) return command;
      const { path, parameters, size } = command;
      const { messageBytes } = context.limits;
      if (size > messageBytes) return tooLarge(messageBytes);
      if (size > 0 && !hasRoom(size)) return replies.noRoom;
      open = { reversePath: path.mailbox, smtputf8: parameters.has('SMTPUTF8'), size };
      return replies.senderOk;
    },
    rcpt(line) {
      if (!open) return replies.mailFirst;
      const command = readRcpt(line, open.smtputf8);
      if ('code' in command) return command;
      const { mailbox } = command.path;
      const target = questions.targetOf(mailbox);
      if (target.kind === 'unknown' || target.kind === 'expired') return questions.refused(target.kind, client);
      if (open.recipient !== undefined && open.recipient !== mailbox) return bounceReplies.oneAtATime;
      open.recipient = mailbox;
      return replies.recipientOk;
    },
    data() {
      if (!open) return replies.mailFirst;
      if (open.recipient === undefined) return replies.noRecipients;
      return hasRoom(open.size) ? questions.begin(client) : replies.noRoom;
    },
  };
}

const minuteMs = 60_000;
/** Addresses that are remembered. For a new one, the address that began its minute first is forgotten. */
const mostAddresses = 10_000;

/** Counts what an address does in a minute. @returns whether it is more than `most` */
type IsOverRate = (address: string, most: number) => boolean | Promise<boolean>;

/** Makes the count of a minute. @param parts `shared` counts over all processes, if any; `now` gives monotonic milliseconds */
export function createMinuteRate(
  name: string,
  { shared, now }: { readonly shared?: SharedWindows | undefined; readonly now: () => number },
): IsOverRate {
  if (!shared) {
    const counts = new RecentMap<string, { readonly since: number; count: number }>(mostAddresses);
    return (given, most) => {
      const address = countedAddress(given);
      const at = now();
      const known = counts.get(address);
      const entry = known && at - known.since < minuteMs ? known : { since: at, count: 0 };
      if (entry !== known) counts.set(address, entry);
      entry.count += 1;
      return entry.count > most;
    };
  }
  return async (address, most) => {
    const limit = { requests: most, perSeconds: minuteMs / 1000 };
    // Without its supervisor this process is ending, and takes what has come.
    return (await shared.take(name, limit, countedAddress(address)).catch(() => 0)) > 0;
  };
}

/** What the desk needs. */
export interface BounceDeskParts {
  readonly settings: () => BounceSettings;
  readonly addresses: () => BounceAddresses;
  readonly bodies: BodyBudget;
  readonly reader: Pick<ReportReader, 'read'>;
  /** Compares a report with its message and writes what it says. */
  readonly takeReport: (arrived: ArrivedReport) => Promise<ReportResult>;
  /** Keeps mail to postmaster for people to read. @returns the name of the file; undefined where there is no room for more */
  readonly keepForPostmaster: (reversePath: string, message: Buffer) => Promise<string | undefined>;
  /** Counts over all processes what an address does in a minute; absent: there is one. */
  readonly windows?: SharedWindows | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What became of a message to a bounce listener, beside what becomes of reports. */
type DeskResult =
  | ReportResult
  | 'postmaster'
  | 'unreadable'
  | 'unauthenticated'
  | 'too_large'
  | 'no_room'
  | 'put_off'
  | 'fault';

/** The desk, and what it counts. */
export interface CountingDesk extends BounceDesk {
  /** Messages since the start by what became of them. */
  readonly taken: ReadonlyMap<DeskResult, number>;
  /** Refused recipients since the start by the reason. */
  readonly refused: ReadonlyMap<'unknown' | 'expired', number>;
}

/** Wrong recipients of one address in a minute, after which each further one ends its session. */
const wrongPerMinute = 300;

const deskReplies = {
  postmasterFull: { code: 452, enhanced: '4.2.2', text: 'The mailbox of the postmaster is full' },
  unreadable: { code: 554, enhanced: '5.6.0', text: 'This report cannot be read' },
  unauthenticated: { code: 554, enhanced: '5.7.1', text: 'No complaint with a CFBL-Feedback-ID of ours (RFC 9477)' },
} as const satisfies Record<string, Answer>;

/** Makes the desk. */
export function createBounceDesk(parts: BounceDeskParts): CountingDesk {
  const { settings, addresses, bodies, clock, log } = parts;
  const taken = new Counts<DeskResult>();
  const refused = new Counts<'unknown' | 'expired'>();
  const rate = { shared: parts.windows, now: () => clock.monotonic() };
  const isOverWrong = createMinuteRate('wrong bounces', rate);
  const isOverRate = createMinuteRate('bounces', rate);
  const questions: BounceQuestions = {
    targetOf: (mailbox) => readBounceAddress(mailbox, addresses(), clock.now()),
    refused: (reason, { address, sessionId }) => {
      refused.add(reason);
      log.debug({ session: sessionId, client: address, reason }, 'bounce recipient refused');
      return whenKnown(isOverWrong(address, wrongPerMinute), (isTooMany) =>
        isTooMany ? bounceReplies.tooManyRefused : bounceReplies[reason],
      );
    },
    begin: ({ address }) =>
      whenKnown(isOverRate(address, settings().messagesPerMinute), (isOver) =>
        isOver ? bounceReplies.overRate : replies.startData,
      ),
  };
  return {
    limits: settings,
    bodies,
    commands: (parts) => commandsOf(parts, questions),
    take: async (message) => {
      const { result, queueId, why, answer } = await judge(parts, message);
      taken.add(result);
      const { client, data } = message;
      const facts = { session: client.sessionId, client: client.address, size: data.size };
      if (result === 'postmaster') log.warn({ ...facts, file: why }, 'mail for the postmaster');
      else if (result !== 'counted' && result !== 'fault')
        log.info({ ...facts, id: queueId, result, why }, 'report without effect');
      return answer;
    },
    taken,
    refused,
  };
}

interface Judged {
  readonly result: DeskResult;
  /** The id of the message, once known. */
  readonly queueId?: string;
  readonly why?: string;
  readonly answer: Answer;
}

/** Takes one message. Whatever is understood and authentic is answered 250, whether or not it has an effect. */
async function judge(parts: BounceDeskParts, message: ReceivedMessage): Promise<Judged> {
  const { data, client } = message;
  if (data.oversize) return { result: 'too_large', answer: tooLarge(parts.settings().messageBytes, data.flooded) };
  if (data.noRoom) return { result: 'no_room', answer: replies.noRoom };
  try {
    return await read(parts, message);
  } catch (error) {
    if (error instanceof Unavailable) return { result: 'put_off', why: error.message, answer: unavailableReply(error) };
    parts.log.error({ session: client.sessionId, client: client.address, err: error }, 'report failed');
    return { result: 'fault', answer: { ...replies.internalError, text: `Internal error, id ${client.sessionId}` } };
  }
}

async function read(parts: BounceDeskParts, { client, dialogue, data }: ReceivedMessage): Promise<Judged> {
  const { reader, takeReport, clock } = parts;
  const { reversePath = '', recipients = [] } = dialogue.envelope ?? {};
  const now = clock.now();
  const addresses = parts.addresses();
  const target = readBounceAddress(recipients[0] ?? '', addresses, now);
  if (target.kind === 'postmaster') {
    const file = await parts.keepForPostmaster(reversePath, data.message());
    return file === undefined
      ? { result: 'no_room', why: 'too much unread mail for the postmaster', answer: deskReplies.postmasterFull }
      : { result: 'postmaster', why: file, answer: replies.ok };
  }
  const about = { isFromNobody: reversePath === '', from: countedAddress(client.address) };
  const report = await reader.read(data.message(), about);
  if (report.kind === 'unreadable') return { ...report, result: report.kind, answer: deskReplies.unreadable };
  const feedbackIds = report.kind === 'complaint' ? report.feedbackIds : [];
  const queueId = target.kind === 'bounce' ? target.queueId : readFeedbackIds(feedbackIds, addresses, now);
  if (queueId === undefined) return { result: 'unauthenticated', answer: deskReplies.unauthenticated };
  const result = await takeReport({ queueId, report, reportedBy: client.address, at: now });
  return { result, queueId, answer: replies.ok };
}
