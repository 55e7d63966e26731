// The words that the configuration's schema is written with. They make the JSON Schema that typebox's functions of the same names
// make, and have their types; but typebox is several hundred modules, which each start would wait for.

import type { Type as Typebox } from 'typebox';

type Schema = Readonly<Record<string, unknown>>;

/** Adds a member that does not show in a copy or in JSON; typebox reads it all the same. */
function withHidden(schema: object, name: '~optional' | '~refine', value: unknown): Schema {
  const all = Object.getOwnPropertyDescriptors(schema);
  return Object.defineProperties({}, { ...all, [name]: { value, enumerable: false } });
}

const words = {
  Array: (items: Schema, options?: object) => ({ type: 'array', items, ...options }),
  Boolean: (options?: object) => ({ type: 'boolean', ...options }),
  Enum: (values: readonly unknown[], options?: object) => ({ enum: values, ...options }),
  Integer: (options?: object) => ({ type: 'integer', ...options }),
  Number: (options?: object) => ({ type: 'number', ...options }),
  Object: (properties: Readonly<Record<string, Schema>>, options?: object) => {
    const required = Object.keys(properties).filter((key) => properties[key]?.['~optional'] !== true);
    return { type: 'object', ...(required.length > 0 ? { required } : {}), properties, ...options };
  },
  Optional: (schema: Schema) => withHidden(schema, '~optional', true),
  Record: ({ pattern }: Schema, value: Schema, options?: object) => ({
    type: 'object',
    patternProperties: { [typeof pattern === 'string' ? pattern : '^.*$']: value },
    ...options,
  }),
  Refine: (schema: Schema, check: (value: string) => boolean, error: () => string) =>
    withHidden(schema, '~refine', [{ check, error }]),
  String: (options?: object) => ({ type: 'string', ...options }),
  Union: (anyOf: readonly Schema[], options?: object) => ({ anyOf, ...options }),
} as const;

/** The words, with the types that typebox gives to what they make. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the types are typebox's, and a test compares what is made
export const Type = words as unknown as Pick<typeof Typebox, keyof typeof words>;
