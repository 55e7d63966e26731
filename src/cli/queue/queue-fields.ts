// Fields by which messages of the queue are chosen exactly, beside the search for a part of a text.

import { comparableMailbox } from '../../mail/address/comparable-mailbox.ts';
import type { QueueItem } from '../../spool/spool.ts';

/** What a message must have; what is undefined does not matter. */
export interface QueueFields {
  /** Ours or the client's own, with or without brackets. */
  readonly messageId: string | undefined;
  /** An address in any spelling, in the state that is named if one is. */
  readonly recipient: string | undefined;
  /** The reverse-path that the client gave, in any spelling; `<>` and '' are null. */
  readonly sender: string | undefined;
  readonly state?: 'queued' | 'failed';
}

function bare(text: string): string {
  return text.trim().replace(/^<([^<>]*)>$/, '$1');
}

/** A part of a text that the messages have that are meant, for the store to search by; undefined where none is certain. */
export function roughly({ messageId, recipient }: QueueFields): string | undefined {
  if (messageId !== undefined && messageId !== '') return bare(messageId);
  // A local part may be written in several ways; a domain is kept in one.
  const domain = recipient === undefined ? undefined : comparableMailbox(recipient).split('@').at(-1);
  return domain === '' ? undefined : domain;
}

/** Whether a message has the fields. */
export function hasFields({ entry, recipients }: QueueItem, wanted: QueueFields): boolean {
  const { messageId, recipient, sender, state } = wanted;
  const ids = [entry.messageId, entry.clientMessageId ?? ''].map(bare);
  if (messageId !== undefined && !ids.includes(bare(messageId))) return false;
  if (sender !== undefined && comparableMailbox(bare(sender)) !== comparableMailbox(entry.senderPath)) return false;
  if (recipient === undefined) return true;
  const address = comparableMailbox(recipient);
  return recipients.some((one) => comparableMailbox(one.address) === address && (state ?? one.state) === one.state);
}
