// What became of a message, made from its events.

import { type AcceptedEvent, type EventKind, eventKinds, kindNames, type MailEvent } from './mail-event.ts';

/** The state of a recipient: that of the last event about it which says so. */
export type HistoryState = NonNullable<(typeof eventKinds)[EventKind]['state']>;

/** Every state, each once. */
export const historyStates: readonly HistoryState[] = [
  ...new Set(kindNames.flatMap((kind) => eventKinds[kind].state ?? [])),
];

/** The kinds of events after which a recipient is in a state. */
export function kindsThatLeadTo(state: HistoryState): readonly EventKind[] {
  return kindNames.filter((kind) => eventKinds[kind].state === state);
}

/** A recipient of a message. */
export interface RecipientHistory {
  readonly address: string;
  readonly state: HistoryState;
  /** The time of the event that made this the state, milliseconds since 1970. */
  readonly since: number;
  /** Its events, oldest first. */
  readonly events: readonly MailEvent[];
}

/** A message with its recipients. */
export interface MessageHistory {
  /** The id in the spool. */
  readonly id: string;
  readonly accepted: (AcceptedEvent & { readonly id: number }) | undefined;
  /** The last event of all. */
  readonly last: MailEvent;
  readonly recipients: readonly RecipientHistory[];
  /** Events about no single recipient, oldest first; the acceptance is one. */
  readonly common: readonly MailEvent[];
}

/** The recipients that an event is about, beside the acceptance, which is about all. */
function recipientsOf(event: MailEvent): readonly string[] {
  // A complaint may be about nobody that it names.
  if ('recipient' in event) return event.recipient === undefined ? [] : [event.recipient];
  return 'recipients' in event && event.kind !== 'accepted' ? event.recipients : [];
}

/** Tells what became of a message. @param id in the spool @param events its own, oldest first @returns undefined without any */
export function historyOf(id: string, events: readonly MailEvent[]): MessageHistory | undefined {
  const last = events.at(-1);
  if (!last) return undefined;
  const accepted = events.find((event) => event.kind === 'accepted');
  const byAddress = new Map<string, MailEvent[]>((accepted?.recipients ?? []).map((address) => [address, []]));
  for (const event of events) {
    for (const address of recipientsOf(event)) {
      const own = byAddress.get(address);
      if (own) own.push(event);
      else byAddress.set(address, [event]);
    }
  }
  const recipients = [...byAddress].map(([address, own]) => {
    const decisive = own.findLast(({ kind }) => eventKinds[kind].state !== undefined) ?? accepted ?? last;
    return { address, state: eventKinds[decisive.kind].state ?? ('queued' as const), since: decisive.at, events: own };
  });
  return { id, accepted, last, recipients, common: events.filter((event) => recipientsOf(event).length === 0) };
}

/** How many recipients of a message are in each state; states that none is in are left out. */
export function countStates({ recipients }: MessageHistory): Readonly<Partial<Record<HistoryState, number>>> {
  const inState = Map.groupBy(recipients, ({ state }) => state);
  return Object.fromEntries([...inState].map(([state, own]) => [state, own.length]));
}

/** An event as JSON. Which members it has besides these depends on its kind. */
export interface EventJson {
  /** The event's number as text; a later event has a greater one. */
  readonly id: string;
  readonly kind: EventKind;
  /** RFC 3339. */
  readonly at: string;
  readonly [member: string]: unknown;
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function shown(value: unknown, name: string): unknown {
  // Members that hold a time have names like these, in every kind of event.
  if (typeof value === 'number' && (name === 'at' || name.endsWith('At'))) return new Date(value).toISOString();
  if ((name === 'messageId' || name === 'clientMessageId') && typeof value === 'string') {
    return value.replace(/^<([^<>]*)>$/, '$1');
  }
  if (Array.isArray(value)) return value.map((one: unknown) => shown(one, ''));
  if (typeof value !== 'object' || value === null) return value;
  return membersOf(value);
}

function membersOf(value: object): Readonly<Record<string, unknown>> {
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([key, member]) => [snakeCase(key), shown(member, key)]));
}

/** Shows an event; members without a value are left out. */
export function eventJson({ id, kind, at, ...facts }: MailEvent): EventJson {
  return { id: String(id), kind, at: new Date(at).toISOString(), ...membersOf(facts) };
}
