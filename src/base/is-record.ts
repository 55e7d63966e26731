// Tells an object with members from every other value.

/** An object whose members may be anything, as JSON, YAML and schemas have them. */
export type UnknownRecord = Readonly<Record<string, unknown>>;

/** Whether a value is an object with members, and not null or an array. */
export function isRecord(value: unknown): value is UnknownRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
