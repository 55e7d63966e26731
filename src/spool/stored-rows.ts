// Converts rows of the spool's tables into values, and states into numbers.

import type { Row } from '../base/database/database.ts';
import type { DsnRequest, RecipientRequest } from '../mail/envelope.ts';
import { oneMessageId } from '../mail/message-ids.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import { type Hold, type Holds, holdKinds } from './hold.ts';
import type { DueMessage, Origin, QueueItem, SpoolEntry, SpooledRecipient } from './spool.ts';
import type { RecipientState } from './tally.ts';

/** A message without its octets. */
export type EntryMeta = Omit<SpoolEntry, 'head' | 'body' | 'received' | 'journal'>;

/** The number of each state in the table. */
export const stateNumbers = { queued: 0, delivered: 1, failed: 2 } as const satisfies Record<RecipientState, number>;

const states = ['queued', 'delivered', 'failed'] as const;

/** What a message's row has that its entry does not say. */
interface StoredFacts {
  readonly size: number;
  /** Stored time. */
  readonly expiresAt: number;
}

type MessageValue = (entry: EntryMeta, stored: StoredFacts) => null | number | string;

/** The columns of a message that `entryOf` reads: the type in PostgreSQL, and the value. */
const messageTable: Readonly<Record<string, readonly [type: string, value: MessageValue]>> = {
  id: ['uuid', ({ id }) => id],
  account: ['text', ({ account }) => account],
  credential: ['text', ({ credential }) => credential],
  session_id: ['text', ({ sessionId }) => sessionId],
  message_id: ['text', ({ messageId }) => messageId],
  client_message_id: ['text', ({ clientMessageId }) => clientMessageId ?? null],
  reverse_path: ['text', ({ reversePath }) => reversePath],
  sender_path: ['text', ({ senderPath }) => senderPath],
  smtputf8: ['smallint', ({ smtputf8 }) => (smtputf8 ? 1 : 0)],
  // 1 is REQUIRETLS, 2 is TLS-Required: No.
  require_tls: ['smallint', ({ requireTls, tlsOptional }) => (requireTls ? 1 : tlsOptional ? 2 : 0)],
  accepted_at: ['bigint', ({ acceptedAt }) => acceptedAt],
  expires_at: ['bigint', (_, { expiresAt }) => expiresAt],
  signature_start: ['integer', ({ platformSignature }) => platformSignature?.start ?? null],
  signature_end: ['integer', ({ platformSignature }) => platformSignature?.end ?? null],
  size: ['bigint', (_, { size }) => size],
  via: ['text', ({ origin }) => origin?.via ?? null],
  client_address: ['text', ({ origin }) => origin?.clientAddress ?? null],
  helo: ['text', ({ origin }) => origin?.helo ?? null],
  ret: ['text', ({ dsn }) => dsn?.ret ?? null],
  envid: ['text', ({ dsn }) => dsn?.envid ?? null],
};

/** The columns of a message that `entryOf` reads, in both engines. */
export const messageColumns = Object.keys(messageTable);

/** Their types in PostgreSQL. */
export const messageTypes = Object.values(messageTable).map(([type]) => type);

/** The values of a new message, in the order of its columns. */
export function messageValues(entry: EntryMeta, stored: StoredFacts): readonly (null | number | string)[] {
  return Object.values(messageTable).map(([, value]) => value(entry, stored));
}

/** The column as text; '' for NULL. */
export function text(row: Row, column: string): string {
  return optional(row, column) ?? '';
}

/** The column as a number; 0 for NULL. */
export function integer(row: Row, column: string): number {
  return Number(row[column] ?? 0);
}

/** The column's octets; empty for NULL. */
export function octets(row: Row, column: string): Uint8Array {
  const value = row[column];
  return value instanceof Uint8Array ? value : new Uint8Array(0);
}

/** The column as text; undefined for NULL. */
export function optional(row: Row, column: string): string | undefined {
  const value = row[column];
  return typeof value === 'string' ? value : undefined;
}

const vias: readonly Origin['via'][] = ['smtp', 'rest', 'raw', 'dsn'];

/** What the sender asked about reports, of a row of spool_messages and all rows of its recipients. */
function dsnOf(row: Row, recipients: readonly Row[]): DsnRequest | undefined {
  const { ret, envid } = row;
  const asked = new Map<string, RecipientRequest>();
  for (const recipient of recipients) {
    const { notify, orcpt } = recipient;
    if (typeof notify !== 'string' && typeof orcpt !== 'string') continue;
    asked.set(text(recipient, 'address'), {
      ...(typeof notify === 'string' ? { notify } : {}),
      ...(typeof orcpt === 'string' ? { orcpt } : {}),
    });
  }
  if (asked.size === 0 && ret === null && envid === null) return undefined;
  return {
    ...(ret === 'FULL' || ret === 'HDRS' ? { ret } : {}),
    ...(typeof envid === 'string' ? { envid } : {}),
    ...(asked.size > 0 ? { recipients: asked } : {}),
  };
}

/** Turns stored times into wall times. */
export interface WallTimes {
  wall(storedTime: number): number;
}

/** Makes the message of a row of spool_messages and the rows of its recipients. */
export function entryOf(row: Row, recipients: readonly Row[], times: WallTimes): EntryMeta {
  const via = vias.find((one) => one === row['via']);
  return {
    id: text(row, 'id'),
    account: text(row, 'account'),
    credential: text(row, 'credential'),
    sessionId: text(row, 'session_id'),
    messageId: text(row, 'message_id'),
    clientMessageId: optional(row, 'client_message_id'),
    reversePath: text(row, 'reverse_path'),
    senderPath: text(row, 'sender_path'),
    recipients: recipients.map((recipient) => text(recipient, 'address')),
    origin: via && { via, clientAddress: optional(row, 'client_address'), helo: optional(row, 'helo') },
    smtputf8: integer(row, 'smtputf8') === 1,
    requireTls: integer(row, 'require_tls') === 1,
    dsn: dsnOf(row, recipients),
    ...(integer(row, 'require_tls') === 2 ? { tlsOptional: true } : {}),
    acceptedAt: integer(row, 'accepted_at'),
    expiresAt: times.wall(integer(row, 'expires_at')),
    ...(row['signature_start'] === null
      ? {}
      : { platformSignature: { start: integer(row, 'signature_start'), end: integer(row, 'signature_end') } }),
  };
}

/** Makes a claimed message of its row, those of all its recipients, and those of the claimed ones. */
export function dueMessage(row: Row, recipients: readonly Row[], due: readonly Row[], times: WallTimes): DueMessage {
  return {
    entry: entryOf(row, recipients, times),
    size: integer(row, 'size'),
    due: due.map((one) => ({ address: text(one, 'address'), attempts: integer(one, 'attempts') })),
  };
}

/** Lists the recipients of an entry with their transports; a recipient that is named repeatedly comes once. */
export function distinctRecipients({
  recipients,
  transports = [],
}: Pick<SpoolEntry, 'recipients' | 'transports'>): readonly { readonly address: string; readonly transport: string }[] {
  const [only] = recipients;
  if (only !== undefined && recipients.length === 1) return [{ address: only, transport: transports[0] ?? '' }];
  const transportByAddress = new Map(recipients.map((address, index) => [address, transports[index] ?? '']));
  return [...transportByAddress].map(([address, transport]) => ({ address, transport }));
}

/** The client's id of a message whose thread is to be repaired; undefined where there is nothing to keep. */
export function keptClientId(entry: {
  readonly keepsClientId?: boolean;
  readonly clientMessageId?: string | undefined;
}): string | undefined {
  return entry.keepsClientId === true ? oneMessageId(entry.clientMessageId ?? '') : undefined;
}

/** Gives the state in a row of spool_recipients. */
export function stateOf(row: Row): RecipientState {
  return states[integer(row, 'state')] ?? 'queued';
}

function recipientOf(row: Row, times: WallTimes): SpooledRecipient {
  return {
    address: text(row, 'address'),
    state: stateOf(row),
    attempts: integer(row, 'attempts'),
    nextAttemptAt: times.wall(integer(row, 'next_attempt_at')),
    lastReply: replyOf(row),
    lastHost: optional(row, 'host'),
  };
}

/** The reply in a row; undefined where it has none. */
export function replyOf(row: Row): SmtpReply | undefined {
  if (row['reply_code'] === null) return undefined;
  const enhanced = row['reply_enhanced'];
  return {
    code: integer(row, 'reply_code'),
    ...(typeof enhanced === 'string' ? { enhanced } : {}),
    text: text(row, 'reply_text'),
  };
}

/** Reads the holds of a store, in the order in which they were made. */
export const readHolds = 'SELECT id, kind, value, made_at, made_by, why FROM spool_holds ORDER BY id';

/** The holds of `readHolds`. */
export function holdsOf(rows: readonly Row[], times: WallTimes): readonly Hold[] {
  return rows.flatMap((row) => {
    const kind = holdKinds.find((one) => one === row['kind']);
    if (!kind) return [];
    const words = { by: text(row, 'made_by'), why: text(row, 'why') };
    return [
      { id: integer(row, 'id'), kind, value: text(row, 'value'), at: times.wall(integer(row, 'made_at')), ...words },
    ];
  });
}

/** Messages that are examined for one page of a list. */
export const examinedAtOnce = 2000;
/** A page of a list is full once its messages have more recipients than this. */
export const shownRecipientsAtOnce = 5000;

/** The pattern of LIKE for a search; '%' where there is none. */
export function patternOf(search: string | undefined): string {
  return search === undefined ? '%' : `%${search.replace(/[\\%_]/g, '\\$&')}%`;
}

/** Makes a message of its row and those of its recipients. */
export function queueItem(row: Row, rows: readonly Row[], holds: Holds, clock: WallTimes): QueueItem {
  const { recipients: _, ...entry } = entryOf(row, rows, clock);
  const recipients = rows.map((one) => {
    const recipient = recipientOf(one, clock);
    if (recipient.state !== 'queued' || holds.isEmpty) return recipient;
    const line = { transport: text(one, 'waits_for'), account: entry.account };
    const hold = holds.ofLine(line) ?? holds.ofRecipient({ id: entry.id, address: recipient.address });
    return { ...recipient, hold };
  });
  return { entry, size: integer(row, 'size'), recipients };
}
