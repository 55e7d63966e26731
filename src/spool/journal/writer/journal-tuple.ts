// The journal's row of an accepted message on its way to the spool's thread.

import type { EncodedEvent } from '../../encoded-event.ts';
import { outcomeNumbers } from '../journal-row.ts';
import type { WrittenJournal } from './journal-of-event.ts';

/**
 * The journal's row of an accepted message, without what its event tells as well. It is a list, because the names of members
 * would be sent and read again with each message.
 */
export type JournalTuple = readonly [
  facts: string,
  more: string,
  /** Recipients without an outcome for good. */
  waiting: number,
  /** All that are kept. */
  octets: number,
  /** Octets of what came; -1: not kept. */
  receivedHead: number,
  receivedBody: number,
  isSameBody: boolean,
  keepsSentHead: boolean,
  /** Octets of the body that leaves where that is sent beside the row; -1: it is not kept, 0: it is the message's own, or empty. */
  sentBody: number,
];

/**
 * Makes the list of a row. What is kept of the message that came is sent beside it.
 * @param apart octets of the body that leaves, where it is sent beside the row because the message's own is a file
 */
export function encodeJournal({ row, isSameBody, ...kept }: WrittenJournal, apart = 0): JournalTuple {
  const came = [kept.receivedHead?.length ?? -1, kept.receivedBody?.length ?? -1] as const;
  const leaves = [kept.sentHead !== undefined, kept.sentBody === undefined ? -1 : apart] as const;
  return [row.facts, row.more, row.waiting, row.octets, ...came, isSameBody, ...leaves];
}

/**
 * Makes the row of a list, as it is written.
 * @param event the acceptance
 * @param octets.take gives the next octets of what came
 */
export function decodeJournal(
  [facts, more, waiting, all, received, receivedBody, isSameBody, keepsSentHead, sentBody]: JournalTuple,
  { message, account, at }: EncodedEvent,
  octets: {
    readonly head: Uint8Array;
    readonly body: Uint8Array | undefined;
    readonly take: (length: number) => Uint8Array;
  },
): WrittenJournal {
  return {
    row: { id: message ?? '', at, account, outcome: outcomeNumbers.accepted, waiting, octets: all, facts, more },
    isSameBody,
    receivedHead: received >= 0 ? octets.take(received) : undefined,
    receivedBody: receivedBody >= 0 ? octets.take(receivedBody) : undefined,
    sentHead: keepsSentHead ? octets.head : undefined,
    sentBody: sentBody > 0 ? octets.take(sentBody) : sentBody === 0 ? octets.body : undefined,
  };
}
