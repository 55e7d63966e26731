// Events as the stores keep them: the values of the table's columns, and the whole event as JSON.

import type { Row } from '../base/database/database.ts';
import { isRecord } from '../base/is-record.ts';
import type { EventNews, EventPage } from './events/event-store.ts';
import { type EventFacts, type EventKind, type EventShare, isEventKind } from './events/mail-event.ts';

/** An event: the values of the table's columns, and the whole event as JSON. */
export interface EncodedEvent {
  readonly at: number;
  readonly account: string;
  readonly kind: EventKind;
  /** The id of its message in the spool; null where it has none. */
  readonly message: string | null;
  readonly json: string;
}

/** A page of events that were found, each as JSON. */
export interface EncodedPage extends Omit<EventPage, 'events'> {
  readonly events: readonly { readonly id: number; readonly json: string }[];
}

/** Packs an event. */
export function encodeEvent(event: EventFacts): EncodedEvent {
  const message = 'queueId' in event ? event.queueId : null;
  const { at, account, kind } = event;
  return { at, account, kind, message, json: JSON.stringify(event) };
}

/** Reads an event from JSON. @returns undefined where it is damaged, such as on a disk that has lost some of it */
export function readFacts(json: string): EventFacts | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { kind, at, account } = value;
  if (!isEventKind(String(kind)) || !Number.isFinite(at) || typeof account !== 'string') return undefined;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only `encodeEvent` writes them
  return value as unknown as EventFacts;
}

/** Unpacks a page. Damaged events are left out, so that they keep nobody from reading what is behind them. */
export function decodePage({ events, ...page }: EncodedPage): EventPage {
  const unpacked = events.flatMap(({ id, json }) => {
    const facts = readFacts(json);
    return facts ? [{ ...facts, id }] : [];
  });
  return { ...page, events: unpacked };
}

/** The accounts and kinds of rows that have both; kinds that a newer program knows are passed over. */
export function toldOf(rows: readonly Row[]): EventNews['told'] {
  return rows.flatMap(({ account, kind }) => {
    const known = String(kind);
    return isEventKind(known) ? [{ account: String(account), kind: known }] : [];
  });
}

/** The number of each share in the tables. */
export const shareNumbers = { mail: 0, refusals: 1, copies: 2 } as const satisfies Record<EventShare, number>;
/** Every share. */
export const shares = ['mail', 'refusals', 'copies'] as const satisfies readonly EventShare[];
