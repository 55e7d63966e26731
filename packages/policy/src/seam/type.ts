// Writes the schemas of requests as JSON Schema, in place of the library that the gateway has for it: only what those schemas use.

type Schema = Readonly<Record<string, unknown>>;

const optional = new WeakSet<object>();

const plain =
  (type: string) =>
  (more: Schema = {}): Schema => ({ type, ...more });

/** The words that schemas are written with. */
export const Type = {
  String: plain('string'),
  Integer: plain('integer'),
  Boolean: plain('boolean'),
  Null: plain('null'),
  Enum: (values: readonly string[], more: Schema = {}): Schema => ({ enum: values, ...more }),
  Array: (items: Schema, more: Schema = {}): Schema => ({ type: 'array', items, ...more }),
  Union: (anyOf: readonly Schema[], more: Schema = {}): Schema => ({ anyOf, ...more }),
  Unsafe: (schema: Schema): Schema => schema,
  Optional(schema: Schema): Schema {
    const marked = { ...schema };
    optional.add(marked);
    return marked;
  },
  Object(properties: Readonly<Record<string, Schema>>, more: Schema = {}): Schema {
    const required = Object.entries(properties).flatMap(([name, schema]) => (optional.has(schema) ? [] : [name]));
    return { type: 'object', required, properties, ...more };
  },
};
