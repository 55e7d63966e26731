// Compiles the schemas of routes with ajv: all errors at once, nothing coerced, filled in or removed.

import { Ajv } from 'ajv';
import type { FastifySchemaCompiler } from 'fastify';

/** Makes the compiler. It reads JSON Schema as typebox writes it. */
export function schemaCompiler(): FastifySchemaCompiler<object> {
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
  for (const annotation of ['want', 'example', 'format']) {
    if (!ajv.getKeyword(annotation)) ajv.addKeyword(annotation);
  }
  return ({ schema }) => ajv.compile(schema);
}
