// Reads members of an OpenAPI document as plain JSON. A member that is absent or of another type reads as empty.

import { isRecord, member } from '../../../base/is-record.ts';

/** Gives a string; an empty one for any other value. */
export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Gives an array; an empty one for any other value. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Gives the names and values of an object; none for any other value. */
export function entries(value: unknown): readonly (readonly [string, unknown])[] {
  return isRecord(value) ? Object.entries(value) : [];
}

/** The name that a reference to a component ends with (`#/components/schemas/NAME`); empty where there is none. */
export function referredName(schema: unknown): string {
  const reference = text(member(schema, '$ref'));
  return reference.slice(reference.lastIndexOf('/') + 1);
}
