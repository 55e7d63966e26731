// Schemas that the account endpoints share: path, flags, times, texts (D45, D52).

import { Type } from 'typebox';
import type { Fault } from '../http/envelope.ts';

/** The path parameter that names the account. */
export const accountPath = Type.Object({
  account_id: Type.String({
    want: 'the id or the name of an account',
    description: 'Id or name of the account',
    example: 'dev',
  }),
});

/** The path parameters that name an entry of an account. */
export const entryPath = Type.Object({
  ...accountPath.properties,
  id: Type.String({ want: 'an id', example: '0123456789abcdef'.repeat(2) }),
});

/** A query parameter that is on or off. */
export const flag = Type.Enum(['0', '1', 'false', 'true'], { want: '1 or 0' });

/** Whether a flag is on; absent is off. */
export function isOn(value: string | undefined): boolean {
  return value === '1' || value === 'true';
}

/** Text for people, without control characters; lone surrogates have been refused with the body. */
export const words = Type.String({
  pattern: '^[^\\p{Cc}]{0,500}$',
  want: 'a text of at most 500 characters without line ends',
});

/** A time in answers. */
export const time = Type.String({ format: 'date-time', example: '2026-11-21T12:35:51.931Z' });
/** A time in answers, or null for none. */
export const timeOrNull = Type.Union([time, Type.Null()]);

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

// RFC 3339 §5.6, with the upper case that ISO 8601 has.
const dateTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;

/**
 * Reads a time of a request.
 * @param name of the field or parameter, for the fault
 * @returns milliseconds since 1970, or what is wrong with it
 */
export function readTime(text: string, name: string): number | Fault {
  const ms = dateTime.test(text) ? Date.parse(text) : Number.NaN;
  // Date.parse rolls the 31st of a short month over into the next.
  const day = Number(text.slice(8, 10));
  const lastDay = new Date(Date.UTC(Number(text.slice(0, 4)), Number(text.slice(5, 7)), 0)).getUTCDate();
  if (!Number.isNaN(ms) && day <= lastDay) return ms;
  const message = `${name} must be a time such as 2030-01-31T12:00:00Z, got ${JSON.stringify(text.slice(0, 60))}`;
  return { token: 'E_VALIDATION_ERROR', message, pointer: `/${name}` };
}

/**
 * Reads `expires_at`.
 * @param text absent or null: it does not end
 * @returns milliseconds since 1970, undefined for no end, or what is wrong with it
 */
export function readExpiry(text: string | null | undefined, now: number): number | undefined | Fault {
  if (text === undefined || text === null) return undefined;
  const ms = readTime(text, 'expires_at');
  if (typeof ms === 'object' || ms > now) return ms;
  return {
    token: 'E_VALIDATION_ERROR',
    message: `expires_at must be in the future, got ${text}`,
    pointer: '/expires_at',
  };
}

/** The answer to a DELETE. */
export const removed = Type.Object({ id: Type.String() });
