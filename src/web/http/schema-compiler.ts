// Compiles the schemas of routes so that all errors of a value are found at once. Before a value is judged, optional fields that
// are null are removed: null means the same as leaving the field out (D5).

import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { isRecord } from '../../base/is-record.ts';
import { compileSchema, type SchemaError } from '../../base/schema-judge.ts';

/** Judges a value; its errors stand in `errors` until the next call. */
export interface RequestJudge {
  (value: unknown): boolean;
  errors?: SchemaError[] | null;
}

/**
 * Removes members that are null where the schema has them as optional, at every depth that the schema describes. Required and
 * unknown members keep their null, and are refused by name.
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
    else if (!Array.isArray(required) || !required.includes(name)) Reflect.deleteProperty(value, name);
  }
}

/** Compiles the schema of a route. */
export function compileJudge(schema: TSchema): RequestJudge {
  const compiled = compileSchema(schema);
  const judge: RequestJudge = (value) => {
    removeNulls(schema, value);
    const fits = compiled.fits(value);
    judge.errors = fits ? null : compiled.errors(value);
    return fits;
  };
  return judge;
}

/** The compiler of an app's routes. A schema is compiled when its route is first asked: of some two hundred few ever are. */
export const schemaCompiler: FastifySchemaCompiler<TSchema> = ({ schema }) => {
  let compiled: RequestJudge | undefined;
  const judge: RequestJudge = (value) => {
    compiled ??= compileJudge(schema);
    const fits = compiled(value);
    judge.errors = compiled.errors ?? null;
    return fits;
  };
  return judge;
};
