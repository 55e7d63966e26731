// A row of the journal, and an entry with its recipients and verdicts, as the API shows them; rules are the catalogue's, cures the report's.

import type { Credential } from '../../../accounts/account.ts';
import { readMessage } from '../../../mail/header/header-reader.ts';
import { readRawText } from '../../../mail/header/raw-text.ts';
import { bareId } from '../../../mail/message-ids.ts';
import { readVerdict, shownVerdicts } from '../../../pipeline/policy/explain.ts';
import { type Cure, cureOf } from '../../../pipeline/report/cure.ts';
import {
  credentialLines,
  type Setting,
  setSentences,
  settingKey,
  yamlLines,
} from '../../../pipeline/report/settings.ts';
import type { MailEvent } from '../../../spool/events/mail-event.ts';
import { eventJson, type MessageHistory } from '../../../spool/events/message-history.ts';
import type { JournalEntry, JournalItem } from '../../../spool/journal/journal.ts';
import type { JournalContent, JournalReason } from '../../../spool/journal/journal-row.ts';
import { shownRecipient } from '../events/message-endpoints.ts';
import { isoTime } from '../schemas.ts';
import type { CureJson, VerdictRow } from './schemas.ts';

/** Shows a cure with the credential's present lines and those of all reasons `together`. @param present absent: no longer there */
export function cureJson(
  cure: Cure,
  {
    name,
    together,
    present,
  }: { readonly name: string; readonly together: readonly Setting[]; readonly present: Credential | undefined },
): CureJson {
  if (cure.kind === 'program') return { kind: 'program', text: cure.text };
  const own = yamlLines(credentialLines(cure.settings)).join('; ');
  const settings = new Map([...together, ...cure.settings].map((setting) => [settingKey(setting), setting]));
  const lines = credentialLines([...settings.values()], present);
  const yaml = yamlLines(lines).join('\n');
  const sets = setSentences(lines)
    .map((sentence) => ` ${sentence}`)
    .join('');
  const place = name === '' ? 'the credential' : `credential "${name}"`;
  const others =
    settings.size > cure.settings.length ? ` The lines also cure the other reasons; this one needs ${own}.` : '';
  const text = `Put these lines into the configuration, at ${place}, and run postern reload.`;
  const instead = cure.instead === undefined ? '' : ` In place of that the program can be changed. ${cure.instead}`;
  return { kind: 'config', text: `${text}${instead}${others}${sets}`, yaml };
}

/** Characters of a value, and of a name, that are shown. */
const valueCharacters = 4096;
const nameCharacters = 200;

interface VerdictParts {
  readonly entry: JournalEntry;
  readonly content: JournalContent | undefined;
  readonly credential: Credential | undefined;
  readonly sendingDomains: readonly string[];
}

interface ShownField {
  readonly name: string;
  readonly value: string | null;
}

function valueOf(rawBytes: Buffer): string {
  const text = readRawText(rawBytes.subarray(0, valueCharacters * 4), {
    legacyCharset: 'windows-1252',
    folded: true,
    structured: false,
  });
  return text.trim().slice(0, valueCharacters).toWellFormed();
}

function fieldsOf(head: Buffer | undefined): readonly ShownField[] | undefined {
  return head && readMessage(head).fields.map(({ name, rawBytes }) => ({ name, value: valueOf(rawBytes) }));
}

function receivedFields({ entry, content }: VerdictParts): readonly ShownField[] {
  const kept = fieldsOf(content?.receivedHead);
  if (kept) return kept;
  const names = entry.more.names ?? '';
  return names === '' ? [] : names.split('\n').map((name) => ({ name, value: null }));
}

function createCure({ entry, credential: present, sendingDomains }: VerdictParts, fieldNames: readonly string[]) {
  const { mailer, sender, credential: name = '' } = entry.facts;
  const facts = { mailer, senderPath: sender, sendingDomains, fieldNames };
  const cures = new Map((entry.more.reasons ?? []).map((reason) => [reason, cureOf(reason, facts)]));
  const together = [...cures.values()].flatMap((cure) => (cure.kind === 'config' ? cure.settings : []));
  return (reason: JournalReason): CureJson =>
    cureJson(cures.get(reason) ?? cureOf(reason, facts), { name, together, present });
}

/** Makes the table: the fields that came, reasons about no field of them, and the fields that were added. */
export function verdictTable(parts: VerdictParts): {
  readonly rows: readonly VerdictRow[];
  readonly reasons: readonly (JournalReason & { readonly cure: CureJson })[];
} {
  const { entry, content } = parts;
  const { verdicts = '', reasons = [] } = entry.more;
  const fields = receivedFields(parts);
  const cure = createCure(
    parts,
    fields.map(({ name }) => name),
  );
  // Where the reason is a word of the request rather than a header, the pointer says so.
  const reasonOf = new Map(reasons.map((reason) => [(reason.field ?? reason.pointer ?? '').toLowerCase(), reason]));
  const kept = new Set<string>();
  const rows = fields.map(({ name, value }, index): VerdictRow => {
    const { verdict, rule, standard, isObserved } = readVerdict(verdicts[index] ?? '', name);
    if (verdict === 'lifted' || verdict === 'mime' || verdict === 'admitted' || verdict === 'trace')
      kept.add(name.toLowerCase());
    const reason = verdict === 'refused' || isObserved ? reasonOf.get(name.toLowerCase()) : undefined;
    return {
      ...{ name: name.slice(0, nameCharacters), value, verdict: shownVerdicts[verdict], rule },
      ...(standard === undefined ? {} : { reference: standard }),
      ...(reason ? { code: reason.code, message: reason.message, cure: cure(reason) } : {}),
    };
  });
  const added = (fieldsOf(content?.sentHead) ?? [])
    .filter(({ name }) => !kept.has(name.toLowerCase()))
    .map(({ name, value }): VerdictRow => {
      const { rule, standard } = readVerdict('', name);
      return { ...{ name, value, verdict: 'kept', added: true, rule }, ...(standard ? { reference: standard } : {}) };
    });
  return { rows: [...rows, ...added], reasons: reasons.map((reason) => ({ ...reason, cure: cure(reason) })) };
}

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

function after(at: number, events: readonly MailEvent[], kinds: readonly string[]): number | undefined {
  const told = events.filter(({ kind }) => kinds.includes(kind));
  const first = told.reduce((least, event) => Math.min(least, event.at), Infinity);
  return told.length === 0 ? undefined : Math.max(0, first - at);
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
