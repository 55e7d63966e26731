// The words that the configuration's schema is written with. They make the JSON Schema that typebox's functions of the same names
// make, and have their types; but typebox is several hundred modules, which each start would wait for. A configuration is right at
// nearly every start, which is judged here: only one that is not has to be judged by typebox, which tells in which way.

import type { Type as Typebox } from 'typebox';
import { isRecord, type UnknownRecord as Schema } from '../is-record.ts';

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

type Judge = (schema: Schema, value: unknown) => boolean;

const types: Readonly<Record<string, (value: unknown) => boolean>> = {
  object: isRecord,
  array: Array.isArray,
  string: (value) => typeof value === 'string',
  integer: Number.isInteger,
  number: Number.isFinite,
  boolean: (value) => typeof value === 'boolean',
};

/** Whether each member fits the schema under its name, or under a pattern that its name matches. */
function membersFit({ properties = {}, patternProperties = {}, additionalProperties }: Schema, value: unknown) {
  if (!isRecord(properties) || !isRecord(patternProperties) || !isRecord(value)) return false;
  const patterns = Object.entries(patternProperties).map(([text, schema]) => ({ text: new RegExp(text, 'u'), schema }));
  return Object.entries(value).every(([name, member]) => {
    const own = Object.hasOwn(properties, name) ? [properties[name]] : [];
    const all = [...own, ...patterns.flatMap(({ text, schema }) => (text.test(name) ? [schema] : []))];
    if (all.length === 0) return additionalProperties !== false;
    return all.every((schema) => fitsPlainly(schema, member));
  });
}

function isRefined(rules: unknown, value: unknown): boolean {
  return Array.isArray(rules) && rules.every((rule: { check(value: unknown): boolean }) => rule.check(value));
}

const annotation: Judge = () => true;

const judges: Readonly<Record<string, Judge>> = {
  type: ({ type }, value) => typeof type === 'string' && types[type]?.(value) === true,
  properties: membersFit,
  patternProperties: membersFit,
  additionalProperties: ({ additionalProperties }) => additionalProperties === false,
  required: ({ required }, value) =>
    Array.isArray(required) && isRecord(value) && required.every((name: string) => Object.hasOwn(value, name)),
  items: ({ items }, value) => Array.isArray(value) && value.every((item) => fitsPlainly(items, item)),
  minItems: ({ minItems }, value) => Array.isArray(value) && value.length >= Number(minItems),
  maxItems: ({ maxItems }, value) =>
    Array.isArray(value) && (maxItems === undefined || value.length <= Number(maxItems)),
  minimum: ({ minimum }, value) => typeof value === 'number' && value >= Number(minimum),
  maximum: ({ maximum }, value) => typeof value === 'number' && value <= Number(maximum),
  enum: ({ enum: values }, value) => Array.isArray(values) && values.includes(value),
  anyOf: ({ anyOf }, value) => Array.isArray(anyOf) && anyOf.some((branch) => fitsPlainly(branch, value)),
  '~refine': (schema, value) => isRefined(schema['~refine'], value),
  '~optional': annotation,
  want: annotation,
  keyWant: annotation,
  secret: annotation,
  digits: annotation,
};

/** Whether a value fits a schema. @returns false too where the schema has a word that is not known here */
export function fitsPlainly(schema: unknown, value: unknown): boolean {
  if (!isRecord(schema)) return false;
  return Object.getOwnPropertyNames(schema).every((word) => judges[word]?.(schema, value) === true);
}
