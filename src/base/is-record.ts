// Telling an object with members from every other value.

/** An object whose members may be anything, as JSON, YAML and schemas have them. */
export type UnknownRecord = Readonly<Record<string, unknown>>;

/** Tells an object with members from null, an array, and what is no object. */
export function isRecord(value: unknown): value is UnknownRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
