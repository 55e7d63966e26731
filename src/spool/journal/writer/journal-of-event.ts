// Makes the journal's row of a message, as the stores write it, from the event of the message and what the pipeline knows
// beside it. What only a reader needs, such as the table of verdicts, is made when it is read.

import { cutText, firstAddresses } from '../../events/event-bounds.ts';
import { dialogueWithoutQuotes, keptName } from '../../events/kept-words.ts';
import { type AcceptedEvent, wouldPass } from '../../events/mail-event.ts';
import type { WrittenRefusal } from '../../events/refusal.ts';
import type { ContentGauge } from '../content-gauge.ts';
import { type JournalDetails, withoutContent } from '../journal-details.ts';
import { type JournalFacts, type JournalMore, type JournalRow, journalBounds, outcomeNumbers } from '../journal-row.ts';

/** What is kept of a message itself. */
interface KeptOctets {
  readonly receivedHead: Uint8Array | undefined;
  readonly receivedBody: Uint8Array | undefined;
  /** The body that leaves is the one that came, octet by octet, and is kept once. */
  readonly isSameBody: boolean;
  readonly sentHead: Uint8Array | undefined;
  readonly sentBody: Uint8Array | undefined;
}

/** A row with what is kept of its message. */
export interface WrittenJournal extends KeptOctets {
  readonly row: JournalRow;
}

/** The head and the body that leave. */
interface Sent {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** Why a row lacks the content that the configuration asks for. */
const noRoom = 'more content came than journal.maxOctets lets be kept, faster than the oldest is removed';

const noOctets = {
  ...{ receivedHead: undefined, receivedBody: undefined, isSameBody: false },
  ...{ sentHead: undefined, sentBody: undefined },
} as const;

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

/** The octets of a message, as much as is kept of them. */
function octetsOf(details: JournalDetails | undefined, sent: Sent | undefined): KeptOctets {
  if (!details || details.content === 'none' || details.lacking !== undefined) return noOctets;
  const { octets, body, content, fields, maxBodyOctets } = details;
  const keepsSent = content === 'full' && sent !== undefined && sent.body.length <= maxBodyOctets;
  const leaves = { sentHead: sent?.head, sentBody: keepsSent ? sent.body : undefined };
  if (fields.length === 0) return { ...noOctets, ...leaves };
  if (!octets || !body) return { ...noOctets, ...leaves, receivedHead: headOf(details) };
  const receivedHead = octets.subarray(0, octets.length - body.length);
  if (content === 'headers' || (details.largeBody ?? body.length) > maxBodyOctets)
    return { receivedHead, receivedBody: undefined, isSameBody: false, ...leaves };
  const isSameBody = sent !== undefined && sent.body.length === body.length && sent.body.equals(body);
  return { receivedHead, receivedBody: isSameBody ? undefined : body, isSameBody, ...leaves };
}

/** Joins a row with what is kept of its message. */
function written(
  row: Omit<JournalRow, 'octets' | 'facts' | 'more'>,
  told: { readonly facts: JournalFacts; readonly more: JournalMore },
  kept: KeptOctets,
): WrittenJournal {
  const { receivedHead, receivedBody, sentHead, sentBody } = kept;
  const octets =
    (receivedHead?.length ?? 0) + (receivedBody?.length ?? 0) + (sentHead?.length ?? 0) + (sentBody?.length ?? 0);
  return { row: { ...row, octets, facts: JSON.stringify(told.facts), more: JSON.stringify(told.more) }, ...kept };
}

function lackingOf(details: JournalDetails | undefined, body: Buffer | undefined): string | undefined {
  if (details?.lacking !== undefined) return details.lacking;
  const largest = Math.max(details?.largeBody ?? details?.body?.length ?? 0, body?.length ?? 0);
  if (details?.content !== 'full' || largest <= details.maxBodyOctets) return undefined;
  return `the body has ${largest} octets, and bodies over ${details.maxBodyOctets} (journal.maxBodyOctets) are not kept`;
}

/** Makes the row of an accepted message. @param gauge says whether there is room for its content; absent: there is */
export function acceptedRow(
  event: AcceptedEvent,
  { details, sent }: { readonly details: JournalDetails; readonly sent: Sent },
  gauge?: ContentGauge,
): WrittenJournal {
  const made = madeAccepted(event, details, sent);
  if (!gauge || gauge.take(made.row.octets)) return made;
  return madeAccepted(event, withoutContent(details, noRoom), sent);
}

function madeAccepted(event: AcceptedEvent, details: JournalDetails, sent: Sent): WrittenJournal {
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
    lacking: lackingOf(details, sent.body),
  };
  const { queueId: id, at, account, recipientCount: waiting } = event;
  return written(
    { id, at, account, outcome: outcomeNumbers.accepted, waiting },
    { facts, more },
    octetsOf(details, sent),
  );
}

/**
 * Makes the row of a refusal or of a copy's verdict; undefined for one that has no account or no id of its own.
 * @param gauge says whether there is room for its content; absent: there is
 */
export function refusedRow({ event, journal }: WrittenRefusal, gauge?: ContentGauge): WrittenJournal | undefined {
  const made = madeRefused(event, journal);
  if (!made || !journal || !gauge || gauge.take(made.row.octets)) return made;
  return madeRefused(event, withoutContent(journal, noRoom));
}

function madeRefused(event: WrittenRefusal['event'], details: JournalDetails | undefined): WrittenJournal | undefined {
  const { journalId, violations } = event;
  const isInOrder = event.kind === 'shadowed' && wouldPass(event);
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
    ...(event.kind === 'shadowed' ? { shadow: event.shadow } : {}),
  } satisfies JournalFacts;
  const more = {
    session: event.sessionId,
    ...{ listener: event.listener, stage: event.stage, reason: event.reason, reply: event.reply },
    reasons: violations,
    reasonCount: event.violationCount,
    lacking: lackingOf(details, undefined),
    ...noted(details),
  } satisfies JournalMore;
  const { at, account } = event;
  return written(
    { id: journalId, at, account, outcome: outcomeNumbers[isInOrder ? 'accepted' : 'refused'], waiting: 0 },
    { facts, more },
    octetsOf(details, undefined),
  );
}
