// A row of the journal, and one entry with what became of each recipient, as the API shows them.

import { bareId } from '../../../mail/message-ids.ts';
import { eventJson } from '../../../spool/events/event-json.ts';
import type { MailEvent } from '../../../spool/events/mail-event.ts';
import type { MessageHistory } from '../../../spool/events/message-history.ts';
import type { JournalEntry, JournalItem } from '../../../spool/journal/journal.ts';
import type { JournalContent } from '../../../spool/journal/journal-row.ts';
import { shownRecipient } from '../events/message-endpoints.ts';
import { isoTime } from '../schemas.ts';
import { type VerdictParts, verdictTable } from './verdict-table.ts';

/** Shows a row. */
export function rowJson({ id, at, account, outcome, facts, isDamaged = false }: JournalItem) {
  return {
    id,
    at: isoTime(at),
    account,
    credential: facts.credential ?? null,
    outcome,
    via: facts.via ?? null,
    client: facts.client ?? null,
    helo: facts.helo ?? null,
    mailer: facts.mailer ?? null,
    sender: facts.sender ?? null,
    recipients: facts.recipients,
    recipient_count: facts.count,
    subject: facts.subject ?? null,
    size: facts.size ?? null,
    codes: facts.codes ?? [],
    fields: facts.fields ?? [],
    shadow: facts.shadow === true,
    damaged: isDamaged,
    message_id: facts.messageId === undefined ? null : bareId(facts.messageId),
  };
}

const speakers: Readonly<Record<string, 'client' | 'server' | 'note'>> = { C: 'client', S: 'server', '-': 'note' };

/** Reads a dialogue as `Transcript.text` writes it. */
function dialogueOf(text = ''): readonly { readonly from: string; readonly line: string; readonly at_ms: number }[] {
  return text.split('\n').flatMap((line) => {
    const found = /^([CS-]) (\d+) ([^]*)$/.exec(line);
    if (!found) return [];
    const [, who = '', at = '', said = ''] = found;
    return [{ from: speakers[who] ?? 'note', line: said, at_ms: Number(at) }];
  });
}

const stages = ['read', 'check', 'compose', 'sign'] as const;

/** The time of the first event of some kinds, from the acceptance on, in milliseconds. */
function after(at: number, events: readonly MailEvent[], kinds: readonly string[]): number | undefined {
  let first: number | undefined;
  for (const event of events) if (kinds.includes(event.kind)) first = Math.min(first ?? event.at, event.at);
  return first === undefined ? undefined : Math.max(0, first - at);
}

function timingsOf({ at, more }: JournalEntry, history: MessageHistory | undefined) {
  const own = more.timings ?? {};
  const events = history?.recipients.flatMap((one) => one.events) ?? [];
  const told = [
    ...stages.map((stage) => ({ stage: stage as string, ms: own[stage] })),
    { stage: 'first attempt', ms: after(at, events, ['delivered', 'deferred', 'failed']) },
    { stage: 'delivered', ms: after(at, events, ['delivered']) },
  ];
  return told.flatMap(({ stage, ms }) => (ms === undefined ? [] : [{ stage, ms }]));
}

function levelOf(content: JournalContent | undefined): 'none' | 'headers' | 'full' {
  if (!content?.receivedHead && !content?.sentHead) return 'none';
  return content.receivedBody || content.sentBody ? 'full' : 'headers';
}

interface EntryParts extends VerdictParts {
  readonly history: MessageHistory | undefined;
  /** The path of the entry in the API. */
  readonly path: string;
}

function linksOf({ path, content, entry }: EntryParts): Readonly<Record<string, string>> {
  const { shadow } = entry.facts;
  const isAccepted = entry.outcome !== 'refused' && !shadow;
  return {
    self: path,
    ...(content?.receivedHead ? { received: `${path}/received`, preview: `${path}/preview` } : {}),
    ...(content?.sentHead ? { sent: `${path}/sent` } : {}),
    ...(content?.sentBody ? { dkim: `${path}/dkim` } : {}),
    ...(content?.receivedBody && !shadow ? { resend: `${path}/resend` } : {}),
    ...(isAccepted ? { message: path.replace(/\/journal\/[^/]*$/, `/messages/${entry.id}`) } : {}),
  };
}

/** Shows an entry. */
export function entryJson(parts: EntryParts) {
  const { entry, content, history } = parts;
  const { more } = entry;
  const { rows, reasons } = verdictTable(parts);
  return {
    ...rowJson(entry),
    session: more.session,
    listener: more.listener ?? null,
    stage: more.stage ?? null,
    reply: more.reply ?? null,
    reasons: reasons.length > 0 || more.reason === undefined ? reasons : [plainReason(more.reason, more.reply?.code)],
    reason_count: more.reasonCount ?? reasons.length,
    verdicts: rows,
    dialogue: dialogueOf(more.dialogue),
    timings: timingsOf(entry, history),
    tls: more.tls ?? null,
    content: levelOf(content),
    content_note: more.lacking ?? null,
    client_message_id: more.clientMessageId ?? null,
    size_as_sent: more.sizeAsSent ?? null,
    recipient_states: (history?.recipients ?? []).map(({ events, ...recipient }) => ({
      ...shownRecipient(recipient),
      history: events.map(eventJson),
    })),
    events: (history?.common ?? []).map(eventJson),
    links: linksOf(parts),
  };
}

/** A reason without a code: a refusal for want of room. */
function plainReason(message: string, code: number | undefined) {
  const text = 'Nothing: it is temporary, and mailers come again by themselves.';
  return { code: String(code ?? ''), message, cure: { kind: 'program', text } };
}
