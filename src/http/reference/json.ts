// Reading an OpenAPI document as plain JSON: what is not there, or of another type, is nothing.

import { isRecord } from '../../base/is-record.ts';

/** The member of a member; undefined where one on the way is no object or has no such name. */
export function member(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce<unknown>((at, name) => (isRecord(at) && Object.hasOwn(at, name) ? at[name] : undefined), value);
}

/** A text; empty for anything else. */
export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** An array; empty for anything else. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Names and values of an object; none for anything else. */
export function entries(value: unknown): readonly (readonly [string, unknown])[] {
  return isRecord(value) ? Object.entries(value) : [];
}

/** The name that a reference to a component ends with (`#/components/schemas/NAME`); empty where there is none. */
export function referredName(schema: unknown): string {
  const reference = text(member(schema, '$ref'));
  return reference.slice(reference.lastIndexOf('/') + 1);
}
