// What an event is found by beside its message, kind and time: the addresses that it names, and the client's own Message-ID.

import { comparableMailbox } from '../../mail/address/comparable-mailbox.ts';
import { bareId } from '../../mail/message-ids.ts';
import type { EventSearch } from './event-store.ts';
import type { EventFacts } from './mail-event.ts';

const recipientKey = (address: string): string => `r ${comparableMailbox(address)}`;
const senderKey = (address: string): string => `s ${comparableMailbox(address)}`;
// With brackets or without, it is one message.
const clientKey = (messageId: string): string => `c ${bareId(messageId)}`;

/** The keys of an event, each once. The sender is a key of events that name several recipients alone, so that outcomes stay cheap. */
export function eventKeys(event: EventFacts): readonly string[] {
  const keys: string[] = [];
  if ('recipients' in event) {
    for (const address of event.recipients) keys.push(recipientKey(address));
    if (event.senderPath !== undefined) keys.push(senderKey(event.senderPath));
  }
  if ('recipient' in event && event.recipient !== undefined) keys.push(recipientKey(event.recipient));
  if ('clientMessageId' in event && event.clientMessageId !== undefined) keys.push(clientKey(event.clientMessageId));
  return keys.length < 2 ? keys : [...new Set(keys)];
}

/** The keys that an event must all have to be found; the one that is likely to be rarest comes first. */
export function searchedKeys({ clientMessageId, recipient, sender }: EventSearch): readonly string[] {
  return [
    ...(clientMessageId === undefined ? [] : [clientKey(clientMessageId)]),
    ...(recipient === undefined ? [] : [recipientKey(recipient)]),
    ...(sender === undefined ? [] : [senderKey(sender)]),
  ];
}
