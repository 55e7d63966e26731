// Events as the stores keep them: the values of the table's columns, and the whole event as JSON.

import { eventKeys } from '../events/event-keys.ts';
import { type EventFacts, type EventKind, type EventShare, type MailEvent } from '../events/mail-event.ts';

/** An event: the values of the table's columns, and the whole event as JSON. */
export interface PackedEvent {
  readonly at: number;
  readonly account: string;
  readonly kind: EventKind;
  /** The id of its message in the spool; null where it has none. */
  readonly message: string | null;
  /** What it is found by besides (`eventKeys`). */
  readonly keys: readonly string[];
  readonly json: string;
}

/** A page of events that were found, each as JSON. */
export interface PackedPage {
  readonly events: readonly { readonly id: number; readonly json: string }[];
  readonly next: number;
  readonly hasMore: boolean;
}

/** Packs an event. */
export function packEvent(event: EventFacts): PackedEvent {
  const message = 'queueId' in event ? event.queueId : null;
  const { at, account, kind } = event;
  return { at, account, kind, message, keys: eventKeys(event), json: JSON.stringify(event) };
}

/** Unpacks an event that was found. */
export function unpackEvent({ id, json }: PackedPage['events'][number]): MailEvent {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only `packEvent` writes them
  return { ...(JSON.parse(json) as EventFacts), id };
}

/** The number of each share in the tables. */
export const shareNumbers = { mail: 0, refusals: 1 } as const satisfies Record<EventShare, number>;
/** Every share. */
export const shares = ['mail', 'refusals'] as const satisfies readonly EventShare[];
