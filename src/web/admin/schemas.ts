// Schemas that the account endpoints share: path, flags, times, texts (D45, D52).

import { type TProperties, Type } from 'typebox';
import type { Scope } from '../../accounts/account.ts';
import type { Clock } from '../../base/clock.ts';
import type { EndpointTarget } from '../http/endpoint.ts';
import { type Fault, Refusal } from '../http/envelope.ts';

/** Where endpoints about an account's mail are. Programs need their scope, people who use the console those of it. */
export function mailPlace(what: string, tag: string, scope: Scope): EndpointTarget {
  const path = `/accounts/:account_id/email/sending/${what}`;
  return { path, tag, reads: [scope, 'console:read'], edits: [scope, 'console:edit'] };
}

/** The path parameter that names an entry of an account. */
export const entryPath = Type.Object({ id: Type.String({ want: 'an id', example: '0123456789abcdef'.repeat(2) }) });

/** A query parameter that is on or off. */
export const flag = Type.Enum(['0', '1', 'false', 'true'], { want: '1 or 0' });

/** Whether a flag is on; absent is off. */
export function isOn(value: string | undefined): boolean {
  return value === '1' || value === 'true';
}

/** `per_page` of a list. @param most entries of a page @param usual where it is absent */
export function perPage(most: 100 | 1000, usual: number) {
  return Type.Optional(
    Type.String({
      pattern: most === 100 ? '^(?:[1-9][0-9]?|100)$' : '^(?:[1-9][0-9]{0,2}|1000)$',
      want: `a whole number, 1 to ${most}`,
      description: `Entries of a page at most, 1 to ${most}; ${usual} where absent`,
    }),
  );
}

/** An object that takes no other members, such as the parameters of a query. */
export function closed<Properties extends TProperties>(properties: Properties) {
  return Type.Object(properties, { additionalProperties: false });
}

/** What `cursor` says of every list. */
export const cursorAbout = '`result_info.cursor` of the page before';

/** `cursor` of a list. @param pattern of those that its answers have */
export function cursorLike(pattern: string) {
  return Type.Optional(Type.String({ pattern, want: 'the cursor of an earlier answer', description: cursorAbout }));
}

/** `cursor` of a list whose entries have numbers. */
export const numberCursor = cursorLike('^[0-9]{1,15}$');

/** Text for people, without control characters; lone surrogates have been refused with the body. */
export const words = Type.String({
  pattern: '^[^\\p{Cc}]{0,500}$',
  want: 'a text of at most 500 characters without line ends',
});

/** A text in answers, or null for none. @param description of what it is */
export function textOrNull(description?: string) {
  return Type.Union([Type.String(), Type.Null()], description === undefined ? {} : { description });
}

/** A whole number in answers, or null for none. @param description of what it is */
export function countOrNull(description?: string) {
  return Type.Union([Type.Integer(), Type.Null()], description === undefined ? {} : { description });
}

/** A time in answers. */
export const time = Type.String({ format: 'date-time', example: '2026-11-21T12:35:51.931Z' });
/** A time in answers, or null for none. */
export const timeOrNull = Type.Union([time, Type.Null()]);

/** A parameter that is a time. */
export function timeParameter(description: string) {
  const example = '2026-11-21T12:00:00Z';
  return Type.Optional(Type.String({ want: `a time such as ${example}`, example, description }));
}

/** The time in a request at which something expires, or null for never. */
export const expiry = Type.Union([Type.String(), Type.Null()], {
  want: 'a time such as 2030-01-31T12:00:00Z, or null',
  description: 'When it ends (RFC 3339); absent or null: until it is removed',
  example: '2030-01-31T12:00:00Z',
});

/** Writes a time. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Writes a time, or null where there is none. */
export function isoTimeOrNull(ms: number | undefined): string | null {
  return ms === undefined ? null : isoTime(ms);
}

// RFC 3339 §5.6, with the upper case that ISO 8601 has.
const dateTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;

/** Reads a time of a request as milliseconds since 1970. @param faults get what is wrong; only those of a body carry pointers */
export function readTime(
  text: string | undefined,
  name: string,
  { faults, isOfBody = false }: { readonly faults: Fault[]; readonly isOfBody?: boolean },
): number | undefined {
  if (text === undefined) return undefined;
  const ms = dateTime.test(text) ? Date.parse(text) : Number.NaN;
  // Date.parse rolls the 31st of a short month over into the next.
  const day = Number(text.slice(8, 10));
  const lastDay = new Date(Date.UTC(Number(text.slice(0, 4)), Number(text.slice(5, 7)), 0)).getUTCDate();
  if (!Number.isNaN(ms) && day <= lastDay) return ms;
  const message = `${name} must be a time such as 2030-01-31T12:00:00Z, got ${JSON.stringify(text.slice(0, 60))}`;
  faults.push({ token: 'E_VALIDATION_ERROR', message, ...(isOfBody ? { pointer: `/${name}` } : {}) });
  return undefined;
}

/** Reads something of a request. @throws Refusal with all that `read` finds wrong with it */
export function faultless<Value>(read: (faults: Fault[]) => Value): Value {
  const faults: Fault[] = [];
  const value = read(faults);
  if (faults.length > 0) throw new Refusal(faults);
  return value;
}

/** How far back is looked where nobody says, as `postern report` does. */
const usualSpanMs = 7 * 86_400_000;

/** Reads the time from which on something is told; seven days back where none is named. @throws Refusal where it is no time */
export function readSince(text: string | undefined, clock: Pick<Clock, 'now'>): number {
  return faultless((faults) => readTime(text, 'since', { faults }) ?? clock.now() - usualSpanMs);
}

/** Reads `expires_at` of a body as milliseconds since 1970; undefined for no end. @param faults gets what is wrong with it */
export function readExpiry(text: string | null | undefined, now: number, faults: Fault[]): number | undefined {
  const ms = readTime(text ?? undefined, 'expires_at', { faults, isOfBody: true });
  if (ms === undefined || ms > now) return ms;
  const message = `expires_at must be in the future, got ${text}`;
  faults.push({ token: 'E_VALIDATION_ERROR', message, pointer: '/expires_at' });
  return undefined;
}

/** The answer to a DELETE. */
export const removed = Type.Object({ id: Type.String() });
