// Compiles the schemas of routes with ajv: all errors at once, nothing coerced, filled in or removed.

import { Ajv, type ValidateFunction } from 'ajv';
import type { FastifySchemaCompiler } from 'fastify';

/** Makes a function that compiles JSON Schema as typebox writes it, with the annotations `want` and `example`. */
export function createCompiler(): (schema: object) => ValidateFunction {
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
  return (schema) => ajv.compile(schema);
}

/** Makes the compiler of an app's routes. */
export function schemaCompiler(): FastifySchemaCompiler<object> {
  const compile = createCompiler();
  return ({ schema }) => compile(schema);
}
