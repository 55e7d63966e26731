// JSON Merge Patch (RFC 7396) as applications need it: members of members, not deeper (D80).

import { isRecord, type UnknownRecord } from '../../base/is-record.ts';

/** A member of an object's own; null is absent (D82). */
export function member(object: UnknownRecord, name: string): unknown {
  return Object.hasOwn(object, name) ? (object[name] ?? undefined) : undefined;
}

function withoutNulls(object: UnknownRecord): UnknownRecord {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

/**
 * Merges a patch: members put in place, arrays replaced, null removes. RFC 7396 §2 goes on into every depth; no field of
 * an application is deeper than a member of a member, so this stops there, and no nesting can exhaust the stack.
 * @param fields names of the members that are taken over from the patch
 */
export function mergePatch(target: UnknownRecord, patch: UnknownRecord, fields: readonly string[]): UnknownRecord {
  const merged = new Map(Object.entries(target));
  for (const name of fields) {
    if (!Object.hasOwn(patch, name)) continue;
    const value = patch[name];
    const before = merged.get(name);
    if (value === null) merged.delete(name);
    else if (!isRecord(value)) merged.set(name, value);
    // RFC 7396 §2: what is no object is replaced by an object before it is merged into.
    else merged.set(name, withoutNulls({ ...(isRecord(before) ? before : {}), ...value }));
  }
  return Object.fromEntries(merged);
}
