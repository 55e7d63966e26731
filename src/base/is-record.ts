// Objects with members, as JSON, YAML and schemas have them, and what is in them.

/** An object whose members may be anything, as JSON, YAML and schemas have them. */
export type UnknownRecord = Readonly<Record<string, unknown>>;

/** Whether a value is an object with members, and not null or an array. */
export function isRecord(value: unknown): value is UnknownRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The member at the end of a path of names and places; undefined where a value on the path has no such member of its own. */
export function member(value: unknown, ...path: readonly (string | number)[]): unknown {
  let at = value;
  for (const name of path) {
    at = typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? Reflect.get(at, name) : undefined;
  }
  return at;
}
