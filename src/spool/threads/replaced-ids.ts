// Which Message-ID a message left with in place of the client's own (D23), for thread repair: what is kept, how long.

import { createHash } from 'node:crypto';
import { oneMessageId } from '../../mail/message-ids.ts';

/** How long an id is kept, in milliseconds: 180 days. */
export const threadMilliseconds = 180 * 24 * 60 * 60 * 1000;
/** Ids that one account may have; the oldest go first. Each takes some 150 octets. */
export const threadsOfAccount = 1_000_000;

/** What is kept of the client's id: 16 octets, whatever its length. */
export function threadKey(clientId: string): Buffer {
  return createHash('sha256').update(clientId).digest().subarray(0, 16);
}

/** The client's id of a message whose thread is to be repaired; undefined where there is nothing to keep. */
export function keptClientId(entry: {
  readonly keepsClientId?: boolean;
  readonly clientMessageId?: string | undefined;
}): string | undefined {
  return entry.keepsClientId === true ? oneMessageId(entry.clientMessageId ?? '') : undefined;
}
