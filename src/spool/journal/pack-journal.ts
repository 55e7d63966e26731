// Makes the journal's row of a message, as the stores write it, from the event of the message and what the pipeline knows
// beside it. What only a reader needs, such as the table of verdicts, is made when it is read.

import { dialogueWithoutQuotes, keptName } from '../../events/kept-words.ts';
import {
  type AcceptedEvent,
  cutText,
  type EventViolation,
  firstAddresses,
  type RefusedEvent,
} from '../../events/mail-event.ts';
import type { JournalDetails } from '../../journal/journal-details.ts';
import {
  type JournalFacts,
  type JournalMore,
  type JournalReason,
  journalBounds,
  outcomeNumbers,
} from '../../journal/journal-row.ts';

/** A row as stores write it. */
export interface JournalRow {
  /** UUIDv7; of an accepted message the id in the spool. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly account: string;
  /** `outcomeNumbers`. */
  readonly outcome: number;
  /** Recipients without an outcome for good. */
  readonly waiting: number;
  /** `JournalFacts` and `JournalMore` as JSON. */
  readonly facts: string;
  readonly more: string;
}

/** A row with the octets that are kept of what came; those of what leaves are at hand where it is written. */
export interface PackedJournal {
  readonly row: JournalRow;
  readonly receivedHead: Buffer | undefined;
  readonly receivedBody: Buffer | undefined;
  /** The body that leaves is the one that came, octet by octet, and is kept once. */
  readonly isSameBody: boolean;
  /** Keep the head and the body that leave. */
  readonly keepsSentHead: boolean;
  readonly keepsSentBody: boolean;
}

const noOctets = { receivedHead: undefined, receivedBody: undefined, isSameBody: false } as const;

function namesOf({ fields, content }: JournalDetails): string {
  let names = '';
  for (const { name: given, fault } of fields) {
    const name = content === 'none' ? keptName(given, fault === 'no-colon') : given;
    if (names.length + name.length > journalBounds.names) break;
    names += names === '' ? name : `\n${name}`;
  }
  return names;
}

function onlyOnce(words: readonly (string | undefined)[]): readonly string[] | undefined {
  const found = new Set(words);
  found.delete(undefined);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- undefined has been removed
  return found.size === 0 ? undefined : ([...found].slice(0, journalBounds.codes) as string[]);
}

/** What both kinds of rows take from the details: the facts first, then what only one entry shows. */
function mailerAndSubject(details: JournalDetails | undefined): Pick<JournalFacts, 'mailer' | 'subject'> {
  if (!details) return {};
  const { mailer, subject, content } = details;
  return {
    mailer,
    subject: content === 'none' || subject === undefined ? undefined : cutText(subject, journalBounds.subject),
  };
}

function noted(
  details: JournalDetails | undefined,
): Pick<JournalMore, 'names' | 'verdicts' | 'timings' | 'dialogue' | 'tls'> {
  if (!details) return {};
  const { content, transcript, octets, timings } = details;
  const said = transcript?.text();
  return {
    // The names stand in the header section, where that is kept as it came.
    names: content !== 'none' && octets ? undefined : namesOf(details),
    verdicts: details.verdicts,
    timings: transcript ? { read: transcript.readMs, ...timings } : timings,
    dialogue: content === 'none' && said !== undefined ? dialogueWithoutQuotes(said) : said,
    tls: transcript?.tls(),
  };
}

/** The header section as lines, of a request that had none: what the policy judged. */
function headOf({ fields }: JournalDetails): Buffer {
  const parts = fields.flatMap(({ name, rawBytes }) => [Buffer.from(`${name}: `), rawBytes, Buffer.from('\r\n')]);
  return Buffer.concat([...parts, Buffer.from('\r\n')]);
}

/** The octets that came, as much as is kept of them. */
function octetsOf(
  details: JournalDetails | undefined,
  sent: Buffer | undefined,
): Pick<PackedJournal, 'receivedHead' | 'receivedBody' | 'isSameBody'> {
  if (!details || details.content === 'none' || details.lacking !== undefined) return noOctets;
  if (details.fields.length === 0) return noOctets;
  const { octets, body } = details;
  if (!octets || !body) return { ...noOctets, receivedHead: headOf(details) };
  const receivedHead = octets.subarray(0, octets.length - body.length);
  if (details.content === 'headers' || (details.largeBody ?? body.length) > details.maxBodyOctets)
    return { receivedHead, receivedBody: undefined, isSameBody: false };
  const isSameBody = sent !== undefined && sent.length === body.length && sent.equals(body);
  return { receivedHead, receivedBody: isSameBody ? undefined : body, isSameBody };
}

function lackingOf(details: JournalDetails | undefined, body: Buffer | undefined): string | undefined {
  if (details?.lacking !== undefined) return details.lacking;
  const largest = Math.max(details?.largeBody ?? details?.body?.length ?? 0, body?.length ?? 0);
  if (details?.content !== 'full' || largest <= details.maxBodyOctets) return undefined;
  return `the body has ${largest} octets, and bodies over ${details.maxBodyOctets} (journal.maxBodyOctets) are not kept`;
}

/** Makes the row of an accepted message. @param sent the body that leaves */
export function acceptedRow(event: AcceptedEvent, details: JournalDetails, sent: Buffer): PackedJournal {
  const observed = event.observed?.map(({ field, code, message }) => ({ code, field, message: message ?? '' }));
  // Plain members, none of them spread: this is made for each message that is accepted.
  const { mailer, subject } = mailerAndSubject(details);
  const { names, verdicts, timings, dialogue, tls } = noted(details);
  const facts: JournalFacts = {
    credential: event.credential,
    via: event.via,
    client: event.clientAddress,
    helo: event.helo,
    mailer,
    sender: event.senderPath,
    recipients: firstAddresses(event.recipients, journalBounds.recipients),
    count: event.recipientCount,
    subject,
    size: event.size,
    codes: observed && onlyOnce(observed.map(({ code }) => code)),
    fields: observed && onlyOnce(observed.map(({ field }) => field)),
    messageId: event.messageId,
  };
  const more: JournalMore = {
    session: event.sessionId,
    reasons: observed,
    reasonCount: event.observedCount,
    names,
    verdicts,
    dialogue,
    tls,
    timings,
    clientMessageId: event.clientMessageId,
    sizeAsSent: event.sizeAsSent,
    lacking: lackingOf(details, sent),
  };
  const content = details.lacking === undefined ? details.content : 'none';
  return {
    row: {
      id: event.queueId,
      at: event.at,
      account: event.account,
      outcome: outcomeNumbers.accepted,
      waiting: event.recipientCount,
      facts: JSON.stringify(facts),
      more: JSON.stringify(more),
    },
    ...octetsOf(details, sent),
    keepsSentHead: content !== 'none',
    keepsSentBody: content === 'full' && sent.length <= details.maxBodyOctets,
  };
}

function reasonOf({ code, message, field, pointer }: EventViolation): JournalReason {
  return { code, message, ...(field === undefined ? {} : { field }), ...(pointer === undefined ? {} : { pointer }) };
}

/** Makes the row of a refusal; undefined for one that has no account or no id of its own. */
export function refusedRow(event: RefusedEvent, details: JournalDetails | undefined): PackedJournal | undefined {
  const { journalId, violations } = event;
  if (journalId === undefined || event.account === '') return undefined;
  const facts = {
    ...{ credential: event.credential, via: event.via, client: event.clientAddress, helo: event.helo },
    sender: event.senderPath,
    recipients: firstAddresses(event.recipients, journalBounds.recipients),
    count: event.recipientCount ?? event.recipients.length,
    size: event.size,
    mailer: event.mailer,
    codes: onlyOnce(violations.map(({ code }) => code)) ?? (event.reply ? [String(event.reply.code)] : undefined),
    fields: onlyOnce(violations.map(({ field }) => field)),
    ...mailerAndSubject(details),
  } satisfies JournalFacts;
  const more = {
    session: event.sessionId,
    ...{ listener: event.listener, stage: event.stage, reason: event.reason, reply: event.reply },
    reasons: violations.map(reasonOf),
    reasonCount: event.violationCount,
    lacking: lackingOf(details, undefined),
    ...noted(details),
  } satisfies JournalMore;
  return {
    row: {
      id: journalId,
      at: event.at,
      account: event.account,
      outcome: outcomeNumbers.refused,
      waiting: 0,
      facts: JSON.stringify(facts),
      more: JSON.stringify(more),
    },
    ...octetsOf(details, undefined),
    keepsSentHead: false,
    keepsSentBody: false,
  };
}
