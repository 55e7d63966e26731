// The keys of mail_event_index: the events of an account, of a message, and of a kind that is rare. Each is a number, so that a row
// is two numbers and one tree serves all three; who searches compares the event itself.

import { shares } from '../encoded-event.ts';
import { type EventKind, type EventShare, eventKinds } from '../events/mail-event.ts';
import { keyNumber } from './searched-event.ts';

/** Kinds that most events of their share have: they are found among the events of the account. */
const common: ReadonlySet<string> = new Set(['accepted', 'delivered', 'refused'] satisfies EventKind[]);

/** The key of all events of an account in a share. */
export function accountKey(account: string, share: EventShare): bigint {
  return keyNumber(account, `a ${share}`);
}

/** Whether events of the kind have a key of their kind. */
export function isRare(kind: string): boolean {
  return !common.has(kind);
}

/** The key of all events of an account of a rare kind. */
export function kindKey(account: string, kind: string): bigint {
  return keyNumber(account, `k ${kind}`);
}

/** The keys under which all events of an account are that may be of these kinds; absent: of any. Each event is under one of them. */
export function keysOfKinds(account: string, kinds: readonly EventKind[] | undefined): readonly bigint[] {
  if (kinds?.every(isRare)) return [...new Set(kinds)].map((kind) => kindKey(account, kind));
  return shares
    .filter((share) => !kinds || kinds.some((kind) => eventKinds[kind].share === share))
    .map((share) => accountKey(account, share));
}

/**
 * The key of all events of a message. Of a UUIDv7 it is its time and the last 16 bits, so that what is new in the tree stands
 * together; messages that share both are told apart by their events.
 */
export function messageKey(id: string): bigint {
  if (/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/.test(id))
    return BigInt.asIntN(64, BigInt(`0x${id.slice(0, 8)}${id.slice(9, 13)}${id.slice(-4)}`));
  return keyNumber('', `m ${id}`);
}
