// The schemas of the journal's answers and questions.

import { type Static, Type } from 'typebox';
import { journalOutcomes } from '../../../spool/journal/journal-row.ts';
import { component } from '../../http/endpoint.ts';
import { eventSchema } from '../events/event-endpoints.ts';
import { closed, countOrNull, numberCursor, perPage, textOrNull, time, timeParameter } from '../schemas.ts';

/** The path parameter that names one entry. */
export const entryPath = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 64, want: 'the id of an entry of the journal' }),
});

const outcome = Type.Enum([...journalOutcomes], { want: `one of ${journalOutcomes.join(', ')}` });

/** A row of the journal. */
export const journalRow = component('JournalRow', {
  id: Type.String({
    description: 'Of an accepted message its queue id',
    example: '0199f3c1-1f0b-7c3a-9d8e-4f2a6b1c0d5e',
  }),
  at: time,
  account: Type.String({ description: 'Name of the account', example: 'dev' }),
  credential: textOrNull(),
  outcome,
  via: textOrNull(),
  client: textOrNull('The address that it came from'),
  helo: textOrNull(),
  mailer: textOrNull('How the program names itself, as it came'),
  sender: textOrNull(),
  recipients: Type.Array(Type.String(), { description: 'The first recipients' }),
  recipient_count: Type.Integer(),
  subject: textOrNull('Null where `journal.content` is none'),
  size: countOrNull(),
  codes: Type.Array(Type.String(), { description: 'Of the reasons, each once' }),
  fields: Type.Array(Type.String(), { description: 'Headers that the reasons name' }),
  message_id: textOrNull(),
  shadow: Type.Boolean({
    description:
      'A copy that came to a shadow listener: the outcome says what would have become of it, and nothing was sent',
  }),
  damaged: Type.Boolean({ description: 'What the database has of it cannot be read: facts are missing' }),
});

/** What cures a reason. */
export const cure = component('Cure', {
  kind: Type.Enum(['config', 'program']),
  text: Type.String(),
  yaml: Type.Optional(Type.String({ description: 'Lines for the entry of the credential' })),
});
/** A cure in answers. */
export type CureJson = Static<typeof cure>;

const verdict = component('FieldVerdict', {
  name: Type.String(),
  value: textOrNull('Null where `journal.content` is none'),
  verdict: Type.Enum(['lifted', 'read', 'kept', 'replaced', 'stripped', 'refused']),
  added: Type.Optional(Type.Boolean({ description: 'Written by the platform' })),
  code: Type.Optional(Type.String()),
  rule: Type.String(),
  reference: Type.Optional(Type.String({ description: 'The RFC' })),
  message: Type.Optional(Type.String()),
  cure: Type.Optional(cure),
});
/** A row of the table of verdicts. */
export type VerdictRow = Static<typeof verdict>;

const reason = component('JournalReason', {
  code: Type.String(),
  message: Type.String(),
  field: Type.Optional(Type.String()),
  pointer: Type.Optional(Type.String()),
  cure,
});

/** One entry of the journal. */
export const journalEntry = component('JournalEntry', {
  ...journalRow.properties,
  session: Type.String(),
  listener: textOrNull(),
  stage: textOrNull('What was refused: sender, recipient or message'),
  reply: Type.Union([Type.Object({ code: Type.Integer(), enhanced: Type.Optional(Type.String()) }), Type.Null()]),
  reasons: Type.Array(reason),
  reason_count: Type.Integer(),
  verdicts: Type.Array(verdict),
  dialogue: Type.Array(
    Type.Object({ from: Type.Enum(['client', 'server', 'note']), line: Type.String(), at_ms: Type.Integer() }),
  ),
  timings: Type.Array(Type.Object({ stage: Type.String(), ms: Type.Number() })),
  tls: Type.Union([Type.Object({ version: Type.String(), cipher: Type.String() }), Type.Null()]),
  content: Type.Enum(['none', 'headers', 'full'], { description: 'How much of the message is kept' }),
  content_note: textOrNull('Why less is kept than could be'),
  client_message_id: textOrNull(),
  size_as_sent: countOrNull(),
  recipient_states: Type.Array(
    Type.Object({
      address: Type.String(),
      state: Type.String(),
      since: time,
      history: Type.Array(eventSchema),
    }),
  ),
  events: Type.Array(eventSchema, { description: 'Those about no single recipient' }),
  links: Type.Record(Type.String(), Type.String(), { description: 'Paths of what else there is of it' }),
});

const filter = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 320, description }));
/** Rows of a page where nobody asks for another number. */
export const usualRows = 50;

/** The parameters of the list. */
export const journalParameters = closed({
  cursor: numberCursor,
  per_page: perPage(100, usualRows),
  outcome: Type.Optional(outcome),
  credential: filter('Name of a credential'),
  client: filter("The client's address"),
  code: filter('A code of a reason, such as E_HEADER_NOT_ALLOWED'),
  field: filter('A header that a reason names, in any case'),
  shadow: Type.Optional(
    Type.Enum(['true', 'false'], { description: 'Only copies that came to a shadow listener, or only what did not' }),
  ),
  search: filter(
    'Words of subject, addresses or the program’s mark, in any case; the last may be the beginning of one. Or what names one message: its id, its Message-ID, or within an account the client’s own Message-ID; what it names comes first',
  ),
  since: timeParameter('Only from this time on (RFC 3339)'),
  until: timeParameter('Only before this time (RFC 3339)'),
});

const part = Type.Union([
  component('MessagePart', {
    headers: Type.Array(Type.Object({ name: Type.String(), value: Type.String() })),
    text: textOrNull(),
    html: textOrNull(),
    truncated: Type.Boolean(),
    body_kept: Type.Boolean({ description: 'False where the journal has its header section alone' }),
    attachments: Type.Array(
      Type.Object({
        filename: textOrNull(),
        type: Type.String(),
        size: Type.Integer(),
        inline: Type.Boolean(),
        content_id: textOrNull(),
      }),
    ),
  }),
  component('UnreadablePart', { unreadable: Type.String({ description: 'Why it cannot be taken apart' }) }),
  Type.Null(),
]);

/** A message taken apart. */
export const previewAnswer = component('MessagePreview', { received: part, sent: part });

/** The verdict on a signature. */
export const signatureVerdict = component('SignatureVerdict', {
  domain: Type.String(),
  selector: Type.String(),
  algorithm: Type.String(),
  result: Type.String({ description: 'pass, fail, neutral, permerror ... (RFC 8601)', example: 'pass' }),
  reason: textOrNull(),
  signed_headers: Type.String(),
});
