// The messages between the main thread and the spool's thread: operations go out, results come back. The octets of all
// messages of a batch lie in one transferred ArrayBuffer, so that a batch costs one message and one allocation.

import type { ClockReading } from '../../base/clock.ts';
import type { EncodedEvent } from '../encoded-event.ts';
import { outcomeNumbers } from '../journal/journal-row.ts';
import type { WrittenJournal } from '../journal/writer/journal-of-event.ts';
import type { KeptSettings } from '../spool-limits.ts';
import type { AddCall } from './sqlite-messages.ts';
import type { Behind, OperationOutcome, ReadOperation, WriteOperation, WriteResult } from './sqlite-store.ts';

/** The octets of an add. `body` is absent where it is a file, and `sentBody`, the journal's, where it is the body of the message. */
export type AddOctets = readonly [
  head: Uint8Array,
  body: Uint8Array | undefined,
  receivedHead?: Uint8Array | undefined,
  receivedBody?: Uint8Array | undefined,
  sentBody?: Uint8Array | undefined,
];

/** An add as it is sent to the worker; the octets of all adds lie one behind the other in the batch's buffer. */
export interface EncodedAdd extends Pick<AddCall, 'entry' | 'claimUntil' | 'size'> {
  readonly kind: 'packed';
  /** The event of the acceptance as JSON; its other values are those of the entry. */
  readonly event: string;
  /** How long each of its octets are, in their order; -1 for what is absent. */
  readonly lengths: readonly number[];
  /** The row of the journal. */
  readonly journal?: JournalTuple | undefined;
}

/** Writes, sent from the main thread. One such batch is under way at a time; operations that come meanwhile form the next. */
export interface WriteBatch {
  readonly kind: 'writes';
  readonly operations: readonly (Exclude<WriteOperation, { kind: 'add' }> | EncodedAdd)[];
  readonly octets: ArrayBuffer;
  /** When it was sent. */
  readonly now: ClockReading;
}

/** Questions, one batch at a time. They are answered even while writes wait for a lock that another program holds. */
export interface ReadBatch {
  readonly kind: 'reads';
  readonly operations: readonly ReadOperation[];
}

/** Why the spool takes no mail. */
export interface SpoolFault {
  readonly reason: 'room' | 'store';
  /** The reason in words, for the log and the operator. */
  readonly text: string;
}

/** Messages from the worker: after opening, once a batch of writes is durable, after each answer and the last of a batch. */
export type WorkerMessage =
  | { readonly kind: 'open' }
  | { readonly kind: 'written'; readonly result: WriteResult }
  | { readonly kind: 'read'; readonly index: number; readonly outcome: OperationOutcome }
  | { readonly kind: 'allRead' }
  /** Sent once a second, and when it changes. */
  | {
      readonly kind: 'health';
      readonly freeBytes: number;
      readonly fault: SpoolFault | undefined;
      readonly behind: Behind;
    };

/** The data that the worker starts with; paths are absolute. */
export interface SpoolWorkerData extends KeptSettings {
  readonly file: string;
  /** Folder of the bodies that are files. */
  readonly bodies: string;
}

/** The journal's row of an accepted message, as a list: names of members would be sent with each. Its content is sent beside it. */
export function encodeJournal({ row, isSameBody, sentHead, sentBody }: WrittenJournal) {
  const leaves = [sentHead !== undefined, sentBody !== undefined] as const;
  return [row.facts, row.more, row.waiting, row.octets, isSameBody, ...leaves] as const;
}
type JournalTuple = ReturnType<typeof encodeJournal>;

/** Makes the row of a list, as it is written. @param event the acceptance */
export function decodeJournal(
  [facts, more, waiting, octets, isSameBody, keepsSentHead, keepsSentBody]: JournalTuple,
  { message, account, at }: EncodedEvent,
  [head, body, receivedHead, receivedBody, sentBody = body]: AddOctets,
): WrittenJournal {
  return {
    row: { id: message ?? '', at, account, outcome: outcomeNumbers.accepted, waiting, octets, facts, more },
    ...{ isSameBody, receivedHead, receivedBody },
    sentHead: keepsSentHead ? head : undefined,
    sentBody: keepsSentBody ? sentBody : undefined,
  };
}
