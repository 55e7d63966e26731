// Judges messages of an archive as the gateway would, and those of the journal as another configuration would. Nothing is sent.

import type { Submitter } from '../../accounts/account.ts';
import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import { readMessage } from '../../mail/header/header-reader.ts';
import { cutText, eventBounds } from '../../spool/events/event-bounds.ts';
import type { EventViolation } from '../../spool/events/mail-event.ts';
import { mailerOf } from '../../spool/events/refusal.ts';
import type { Journal, JournalItem } from '../../spool/journal/journal.ts';
import { type BuildParts, examine, type Submission, type Violation } from '../submit.ts';
import type { ArchivedMessage } from './archive/archived-message.ts';
import { charsetHint } from './cure.ts';
import { type Finding, MAX_MAILERS, otherMailers } from './findings.ts';
import { counted, escapedText } from './print.ts';
import { type EventsQuery, mailerName } from './read-events.ts';

/** A message as `check` judges it: by SMTP, for a credential, without a client. */
type OfflineMessage = Pick<ArchivedMessage, 'fields' | 'tooLarge' | 'body' | 'size'> &
  Pick<RehearsalParts, 'reversePath' | 'recipients'>;

/** Makes the submission that a message would be, handed over by SMTP with the settings of a credential. */
export function offlineSubmission(message: OfflineMessage, submitter: Submitter, sessionId: string): Submission {
  const { fields, tooLarge, body, size, reversePath, recipients } = message;
  const { credential } = submitter;
  return {
    via: {
      kind: 'smtp',
      sessionId,
      helo: 'check.invalid',
      protocol: 'ESMTPSA',
      legacyCharset: credential.legacyCharset ?? 'windows-1252',
      trustedHop: credential.trustedHop,
      lineEndings: 'fix',
    },
    submitter,
    envelope: { reversePath, recipients, smtputf8: false, requireTls: false },
    fields,
    ...(tooLarge ? { headerSectionTooLarge: true } : {}),
    body: { kind: 'mime', bytes: body },
    size,
  };
}

/** The submitter and the settings with which messages of an archive are judged. */
export interface RehearsalParts extends Pick<BuildParts, 'sendingDomain'> {
  readonly submitter: Submitter;
  /** The reverse-path to assume where the archive does not tell it; '' is null. */
  readonly reversePath: string;
  readonly recipients: readonly string[];
  /** The limit of a message, octets (D42). */
  readonly messageBytes: number;
}

const unmarked = 'without a mark';

/** Completes a reverse-path without a domain, as SMTP does at MAIL (D4b). */
function completed(path: string, { credential }: Submitter): string {
  return path === '' || path.includes('@') || credential.defaultDomain === undefined
    ? path
    : `${path}@${credential.defaultDomain}`;
}

function charsetHints({ charset }: ArchivedMessage, { credential }: Submitter): readonly EventViolation[] {
  const present = credential.legacyCharset?.toLowerCase() ?? 'windows-1252';
  if (charset === undefined || charset === present) return [];
  return [{ code: charsetHint, message: `The raw 8-bit text of the header is ${charset}, and is read as ${present}` }];
}

function reasonOf({ code, name, message }: Violation): EventViolation {
  const field = name === undefined ? {} : { field: cutText(name, eventBounds.fieldName) };
  return { code, message: cutText(message, eventBounds.violationMessage), ...field };
}

/** Judges one message of an archive. It rejects only on an internal error. */
export async function rehearse(message: ArchivedMessage, parts: RehearsalParts): Promise<Finding> {
  const { submitter, recipients, messageBytes } = parts;
  const { fields } = message;
  const reversePath = completed(message.senderPath ?? parts.reversePath, submitter);
  const submission = offlineSubmission({ ...message, reversePath, recipients }, submitter, 'check');
  const { violations } = await examine(submission, parts);
  const limit = `The message has ${message.size} octets, at most ${messageBytes} are allowed`;
  const reasons = [
    ...(message.size > messageBytes ? [{ code: 'E_CONTENT_TOO_LARGE', message: limit }] : []),
    ...violations.slice(0, eventBounds.violations).map(reasonOf),
  ];
  const mailer = mailerOf(fields);
  return {
    account: submitter.account.name,
    credential: submitter.credential.name,
    mailer: mailer ?? unmarked,
    at: message.date,
    id: message.name,
    reasons,
    accepted: reasons.length === 0,
    hints: charsetHints(message, submitter),
    facts: {
      mailer,
      senderPath: reversePath,
      sendingDomains: submitter.account.sendingDomains.map(({ name }) => name),
      fieldNames: fields.map(({ name }) => name),
      charset: message.charset,
    },
  };
}

/** One message under both configurations. */
interface Compared extends Pick<Finding, 'account' | 'credential' | 'mailer'> {
  /** Where it can be looked at. */
  readonly id: string;
  readonly before: 'accepted' | 'refused';
  /** The codes for which the other configuration would refuse it; empty: it would accept it. */
  readonly codes: readonly string[];
}

interface MailerChange extends Pick<Finding, 'account' | 'credential' | 'mailer'> {
  refused: number;
  accepted: number;
  /** Of the refused, those that would pass, and of the accepted, those that would not. */
  wouldPass: number;
  wouldNot: number;
  /** Messages whose verdict would change: the first of them, with the codes where they would be refused. */
  readonly examples: string[];
}

const mostExamples = 3;

/** The comparison of many messages. */
export class VerdictComparison {
  readonly #rows = new Map<string, MailerChange>();
  /** Messages of which the journal keeps too little to judge them again. */
  notKept = 0;
  /** Whether it ended before all messages were compared. */
  isCut = false;

  add({ account, credential, mailer, id, before, codes }: Compared): void {
    const own = `${account}/${credential}/${mailer}`;
    const isKept = this.#rows.has(own) || this.#rows.size < MAX_MAILERS;
    const key = isKept ? own : otherMailers;
    const none = { refused: 0, accepted: 0, wouldPass: 0, wouldNot: 0, examples: [] };
    const named = isKept ? { account, credential, mailer } : { account: '', credential: '', mailer: otherMailers };
    const row: MailerChange = this.#rows.get(key) ?? { ...named, ...none };
    this.#rows.set(key, row);
    row[before] += 1;
    if ((before === 'accepted') === (codes.length === 0)) return;
    row[before === 'refused' ? 'wouldPass' : 'wouldNot'] += 1;
    if (row.examples.length < mostExamples) row.examples.push([id, ...codes].join(' '));
  }

  /** What was compared, the most changed first. */
  rows(): readonly MailerChange[] {
    const weight = ({ wouldPass, wouldNot }: MailerChange): number => wouldPass + wouldNot;
    return [...this.#rows.values()].toSorted((one, two) => weight(two) - weight(one));
  }
}

/** Which messages of the journal are compared. */
export type JournalWanted = Pick<EventsQuery, 'since' | 'account' | 'credential' | 'shadow'>;

/** How a message is judged under the other configuration; undefined where that has no such credential. */
export type PartsOf = (
  account: string,
  credential: string,
) => Omit<RehearsalParts, 'reversePath' | 'recipients'> | undefined;

/** A message as the journal has kept it. */
export interface KeptMessage extends Pick<RehearsalParts, 'reversePath' | 'recipients'> {
  readonly id: string;
  readonly account: string;
  readonly credential: string;
  /** Header and body, of which the end may be cut. */
  readonly octets: Uint8Array;
  /** Octets of the whole message. */
  readonly size: number;
}

/** Tells the codes for which the other configuration would refuse a message; none: it would accept it. */
export type JudgeKept = (kept: KeptMessage) => Promise<readonly string[]>;

/** Makes the judge by a configuration. */
export function judgeKeptBy(partsOf: PartsOf): JudgeKept {
  return async ({ id, account, credential, octets, size, ...envelope }) => {
    const parts = partsOf(account, credential);
    if (!parts) return ['E_UNAUTHORIZED'];
    const { fields, body, tooLarge } = readMessage(Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength));
    const { reasons } = await rehearse(
      { name: id, fields, body, tooLarge, size, setAside: 0 },
      { ...parts, ...envelope },
    );
    return [...new Set(reasons.map(({ code }) => code))];
  };
}

const pageRows = 100;

async function codesOf(journal: Pick<Journal, 'content'>, item: JournalItem, judge: JudgeKept) {
  const { receivedHead, receivedBody } = (await journal.content(item.seq)) ?? {};
  if (!receivedHead) return undefined;
  const { id, account, facts } = item;
  const octets = Buffer.concat([receivedHead, receivedBody ?? Buffer.alloc(0)]);
  const { credential = '', sender: reversePath = '', recipients, size = octets.length } = facts;
  return judge({ id, account, credential, reversePath, recipients, octets, size });
}

interface Going {
  readonly judge: JudgeKept;
  readonly onProgress?: (done: number) => void;
  /** Asked before each message, with how many have been judged. */
  readonly mayGoOn?: (done: number) => boolean;
}

/** Judges again what the journal has kept, the newest first, one content at a time; others go on between two messages. */
export async function compareJournal(
  journal: Pick<Journal, 'list' | 'content'>,
  wanted: JournalWanted,
  { judge, onProgress, mayGoOn }: Going,
): Promise<VerdictComparison> {
  const comparison = new VerdictComparison();
  let done = 0;
  for (let cursor: number | undefined; ; ) {
    const page = await journal.list({ ...wanted, ...(cursor === undefined ? {} : { cursor }), limit: pageRows });
    for (const item of page.items) {
      await yieldToEventLoop();
      comparison.isCut = mayGoOn?.(done) === false;
      if (comparison.isCut) return comparison;
      done += 1;
      const { account, id, facts } = item;
      const codes = item.isDamaged ? undefined : await codesOf(journal, item, judge);
      if (!codes) {
        comparison.notKept += 1;
        continue;
      }
      const mailer = `${mailerName(facts)}${facts.shadow ? ' (shadow)' : ''}`;
      const before = item.outcome === 'refused' ? 'refused' : 'accepted';
      comparison.add({ account, credential: facts.credential ?? '', mailer, id, before, codes });
    }
    onProgress?.(done);
    if (page.next === undefined) return comparison;
    cursor = page.next;
  }
}

/** The comparison as text: lines without their ends. */
export function comparisonText(comparison: VerdictComparison): readonly string[] {
  const rows = comparison.rows();
  const sum = (of: 'refused' | 'accepted' | 'wouldPass' | 'wouldNot') => rows.reduce((all, row) => all + row[of], 0);
  const changed = rows.filter(({ wouldPass, wouldNot }) => wouldPass + wouldNot > 0);
  const refusedCount = counted(sum('refused'), 'refused message');
  const acceptedCount = counted(sum('accepted'), 'accepted message');
  return [
    `Of ${refusedCount} ${sum('wouldPass').toLocaleString('en')} would pass`,
    `Of ${acceptedCount} ${sum('wouldNot').toLocaleString('en')} would not`,
    ...(comparison.notKept > 0
      ? [`Of ${counted(comparison.notKept, 'message')} nothing is kept that could be judged again (journal.content)`]
      : []),
    ...changed.flatMap(({ account, credential, mailer, refused, accepted, wouldPass, wouldNot, examples }) => [
      '',
      `  ${[account, credential].map(escapedText).join('/')}, ${escapedText(mailer)}: ${wouldPass} of ${refused} refused would pass, ${wouldNot} of ${accepted} accepted would not`,
      `      for example ${examples.map(escapedText).join(', ')}`,
    ]),
  ];
}
