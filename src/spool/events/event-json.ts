// An event as the API and webhooks show it: names in snake_case, times as RFC 3339, Message-IDs without brackets (D52).

import type { EventKind, MailEvent } from './mail-event.ts';

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
