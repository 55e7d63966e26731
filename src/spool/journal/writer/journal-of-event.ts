// Makes the journal's row of a message, as the stores write it, from the event of the message and what the pipeline knows
// beside it. What only a reader needs, such as the table of verdicts, is made when it is read.

import { cutText, dialogueWithoutQuotes, firstAddresses, keptName } from '../../events/event-bounds.ts';
import { type AcceptedEvent, type EventFacts, wouldPass } from '../../events/mail-event.ts';
import type { WrittenRefusal } from '../../events/refusal.ts';
import type { ContentGauge } from '../content-gauge.ts';
import {
  type JournalContent,
  type JournalDetails,
  type JournalFacts,
  type JournalMore,
  type JournalReason,
  type JournalRow,
  journalBounds,
  outcomeNumbers,
  withoutContent,
} from '../journal-row.ts';

interface KeptOctets extends Readonly<Partial<Record<keyof JournalContent, Uint8Array | undefined>>> {
  /** The body that leaves is the one that came, octet by octet, and is kept once. */
  readonly isSameBody: boolean;
}

/** A row with what is kept of its message. */
export interface WrittenJournal extends KeptOctets {
  readonly row: JournalRow;
}

interface Sent {
  readonly head: Buffer;
  readonly body: Buffer;
}

const noRoom = 'more content came than journal.maxOctets lets be kept, faster than the oldest is removed';

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
  if (!details || details.content === 'none' || details.lacking !== undefined) return { isSameBody: false };
  const { octets, body, content, fields, maxBodyOctets } = details;
  const keepsSent = content === 'full' && sent !== undefined && sent.body.length <= maxBodyOctets;
  const leaves = { sentHead: sent?.head, sentBody: keepsSent ? sent.body : undefined };
  if (fields.length === 0) return { isSameBody: false, ...leaves };
  if (!octets || !body) return { isSameBody: false, ...leaves, receivedHead: headOf(details) };
  const receivedHead = octets.subarray(0, octets.length - body.length);
  if (content === 'headers' || (details.largeBody ?? body.length) > maxBodyOctets)
    return { receivedHead, isSameBody: false, ...leaves };
  const isSameBody = sent !== undefined && sent.body.length === body.length && sent.body.equals(body);
  return { receivedHead, receivedBody: isSameBody ? undefined : body, isSameBody, ...leaves };
}

function lackingOf(details: JournalDetails | undefined, body: Buffer | undefined): string | undefined {
  if (details?.lacking !== undefined) return details.lacking;
  const largest = Math.max(details?.largeBody ?? details?.body?.length ?? 0, body?.length ?? 0);
  if (details?.content !== 'full' || largest <= details.maxBodyOctets) return undefined;
  return `the body has ${largest} octets, and bodies over ${details.maxBodyOctets} (journal.maxBodyOctets) are not kept`;
}

type RowEvent = AcceptedEvent | WrittenRefusal['event'];

/** The facts of a row. Plain members, none of them spread, here and below: this is made for each message that is accepted. */
function factsOf(
  event: RowEvent,
  details: JournalDetails | undefined,
  reasons: readonly JournalReason[] | undefined,
): JournalFacts {
  const reply = event.kind === 'accepted' ? undefined : event.reply;
  const subject = details?.subject;
  return {
    credential: event.credential,
    via: event.via,
    client: event.clientAddress,
    helo: event.helo,
    mailer: details ? details.mailer : event.mailer,
    sender: event.senderPath,
    recipients: firstAddresses(event.recipients, journalBounds.recipients),
    count: event.recipientCount ?? event.recipients.length,
    subject: details?.content === 'none' || subject === undefined ? undefined : cutText(subject, journalBounds.subject),
    size: event.size,
    codes: (reasons && onlyOnce(reasons.map(({ code }) => code))) ?? (reply && [String(reply.code)]),
    fields: reasons && onlyOnce(reasons.map(({ field }) => field)),
    messageId: event.kind === 'accepted' ? event.messageId : undefined,
    shadow: event.kind === 'shadowed' ? event.shadow : undefined,
  };
}

function made(event: RowEvent, id: string, details: JournalDetails | undefined, sent?: Sent): WrittenJournal {
  const accepted = event.kind === 'accepted' ? event : undefined;
  const refused = event.kind === 'accepted' ? undefined : event;
  const observed = accepted?.observed?.map(({ field, code, message }) => ({ code, field, message: message ?? '' }));
  const reasons: readonly JournalReason[] | undefined = refused?.violations ?? observed;
  const { names, verdicts, timings, dialogue, tls } = noted(details);
  const more: JournalMore = {
    session: event.sessionId,
    listener: refused?.listener,
    stage: refused?.stage,
    reason: refused?.reason,
    reply: refused?.reply,
    reasons,
    reasonCount: accepted ? accepted.observedCount : refused?.violationCount,
    names,
    verdicts,
    dialogue,
    tls,
    timings,
    clientMessageId: accepted?.clientMessageId,
    sizeAsSent: accepted?.sizeAsSent,
    lacking: lackingOf(details, sent?.body),
  };
  const kept = octetsOf(details, sent);
  const { receivedHead, receivedBody, sentHead, sentBody } = kept;
  const isInOrder = event.kind === 'accepted' || (event.kind === 'shadowed' && wouldPass(event));
  const row: JournalRow = {
    id,
    at: event.at,
    account: event.account,
    outcome: outcomeNumbers[isInOrder ? 'accepted' : 'refused'],
    waiting: accepted?.recipientCount ?? 0,
    octets:
      (receivedHead?.length ?? 0) + (receivedBody?.length ?? 0) + (sentHead?.length ?? 0) + (sentBody?.length ?? 0),
    facts: JSON.stringify(factsOf(event, details, reasons)),
    more: JSON.stringify(more),
  };
  return { row, ...kept };
}

/** Makes a row with the content of its message, where there is room for it. @param gauge says so; absent: there is */
function whereRoom(
  make: (details: JournalDetails | undefined) => WrittenJournal,
  details: JournalDetails | undefined,
  gauge: ContentGauge | undefined,
): WrittenJournal {
  const whole = make(details);
  if (!details || !gauge || gauge.take(whole.row.octets)) return whole;
  return make(withoutContent(details, noRoom));
}

/** Makes the row of an accepted message. @param gauge says whether there is room for its content; absent: there is */
export function acceptedRow(
  event: AcceptedEvent,
  { details, sent }: { readonly details: JournalDetails; readonly sent: Sent },
  gauge?: ContentGauge,
): WrittenJournal {
  return whereRoom((kept) => made(event, event.queueId, kept, sent), details, gauge);
}

/** Makes the row of a refusal or of a copy's verdict, as above; undefined for one that has no account or no id of its own. */
export function refusedRow({ event, journal }: WrittenRefusal, gauge?: ContentGauge): WrittenJournal | undefined {
  const { journalId, account } = event;
  if (journalId === undefined || account === '') return undefined;
  return whereRoom((details) => made(event, journalId, details), journal, gauge);
}

/** What the events of a message make of its row; what came before it was queued again counts for `waiting` alone. */
export type Noted = typeof nothingNoted;
const nothingNoted = { ended: 0, again: 0, dropped: 0, requeued: 0, failed: 0, deferred: 0 };

/** What an event adds. Kinds that are not named change nothing. */
const changes: Partial<Record<string, (noted: Noted, facts: () => EventFacts | undefined) => void>> = {
  delivered: (noted) => void (noted.ended += 1),
  deferred: (noted) => void (noted.deferred = 1),
  failed: (noted) => {
    noted.ended += 1;
    noted.failed = 1;
  },
  requeued: (noted, facts) => {
    Object.assign(noted, { requeued: 1, failed: 0, deferred: 0 });
    const event = facts();
    if (event?.kind === 'requeued') noted.again += event.failedCount;
  },
  dropped: (noted) => void (noted.dropped = 1),
};

/** What events make of the rows of their messages, by message. @param factsOf undefined for an event that is damaged */
export function notesOf<Event extends { readonly kind: string; readonly message: string | null }>(
  events: readonly Event[],
  factsOf: (event: Event) => EventFacts | undefined,
): ReadonlyMap<string, Noted> {
  const notes = new Map<string, Noted>();
  for (const event of events) {
    const change = changes[event.kind];
    if (!change || event.message === null) continue;
    const noted = notes.get(event.message) ?? { ...nothingNoted };
    change(noted, () => factsOf(event));
    notes.set(event.message, noted);
  }
  return notes;
}

/** What is noted makes this of a row. */
export function withNotes<Row extends { readonly waiting: number; readonly outcome: number }>(
  row: Row,
  noted: Noted | undefined,
): Row {
  if (!noted) return row;
  const left = row.waiting - noted.ended + noted.again;
  const { accepted, delivered, deferred, failed, dropped } = outcomeNumbers;
  const isAgain = noted.requeued === 1;
  const outcomes: readonly (readonly [boolean, number])[] = [
    [noted.dropped === 1, dropped],
    [noted.failed === 1 || (row.outcome === failed && !isAgain), failed],
    [noted.ended > 0 && left <= 0, delivered],
    [noted.deferred === 1 && (row.outcome === accepted || isAgain), deferred],
    [isAgain, accepted],
  ];
  const [, outcome] = outcomes.find(([isSo]) => isSo) ?? [true, row.outcome];
  return { ...row, waiting: noted.dropped === 1 ? 0 : Math.max(left, 0), outcome };
}
