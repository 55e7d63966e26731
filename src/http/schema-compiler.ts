// Compiles the schemas of routes with ajv: all errors at once, nothing coerced or filled in. One thing is taken away before:
// null in an optional field, which is the same as leaving the field out (D5).

import { Ajv, type ErrorObject } from 'ajv';
import type { FastifySchemaCompiler } from 'fastify';

/** Judges a value; what is wrong with it stands in `errors` until the next call. */
export interface SchemaJudge {
  (value: unknown): boolean;
  errors?: ErrorObject[] | null;
}

type Json = Record<string, unknown>;

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Removes members that are null and that the schema knows and does not require, at every depth that the schema describes.
 * A required field keeps its null, and so does an unknown one: both are refused by name.
 */
function removeNulls(schema: unknown, value: unknown): void {
  if (!isRecord(schema) || typeof value !== 'object' || value === null) return;
  const { anyOf, items, properties, required } = schema;
  if (Array.isArray(anyOf)) for (const branch of anyOf) removeNulls(branch, value);
  if (Array.isArray(value)) {
    if (isRecord(items)) for (const item of value) removeNulls(items, item);
    return;
  }
  if (!isRecord(properties) || !isRecord(value)) return;
  for (const [name, property] of Object.entries(properties)) {
    if (!Object.hasOwn(value, name)) continue;
    if (value[name] !== null) removeNulls(property, value[name]);
    else if (!Array.isArray(required) || !required.includes(name)) delete value[name];
  }
}

/** Makes a function that compiles JSON Schema as typebox writes it, with the annotations `want` and `example`. */
export function createCompiler(): (schema: object) => SchemaJudge {
  const ajv = new Ajv({
    allErrors: true,
    coerceTypes: false,
    useDefaults: false,
    removeAdditional: false,
    verbose: true,
    strict: true,
    strictTypes: false,
    strictRequired: false,
  });
  for (const annotation of ['want', 'example']) ajv.addKeyword(annotation);
  return (schema) => {
    const validate = ajv.compile(schema);
    const judge: SchemaJudge = (value) => {
      removeNulls(schema, value);
      const fits = validate(value);
      judge.errors = validate.errors ?? null;
      return fits;
    };
    return judge;
  };
}

/** Makes the compiler of an app's routes. */
export function schemaCompiler(): FastifySchemaCompiler<object> {
  const compile = createCompiler();
  return ({ schema }) => compile(schema);
}
