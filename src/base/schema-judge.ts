// Judges values by typebox's JSON Schema, of the configuration and of requests alike, without converting or filling in.

import type { TSchema } from 'typebox';
import type { TLocalizedValidationError } from 'typebox/error';
// Not `typebox/compile`, which loads half as many modules again for conversions that nothing here asks for.
import { Compile } from 'typebox/schema';
import { Settings } from 'typebox/system';
import { member } from './is-record.ts';

// All errors are wanted: those of the branches of a union, which are not reported, come before the union's own error. Their
// number is bounded, because the values to judge are (D5: the values of a JSON text).
Settings.Set({ maxErrors: Number.MAX_SAFE_INTEGER });

/** One way in which a value breaks a schema. */
export interface SchemaError {
  /** The keyword of JSON Schema that the value breaks. */
  readonly keyword: string;
  /** JSON pointer of the value, or of the object where a member is missing or unknown. */
  readonly instancePath: string;
  /** The way from the schema, `#`, to the node that judged. */
  readonly schemaPath: string;
  readonly params: {
    /** The member that is missing (`required`) or unknown (`additionalProperties`). */
    readonly name?: string;
    readonly allowed?: readonly unknown[];
  };
  readonly message: string;
  /** The node that judged, with its annotations. */
  readonly node: unknown;
}

/** A compiled schema. */
export interface SchemaJudge {
  fits(value: unknown): boolean;
  /** Everything that is wrong with a value, a missing or unknown member each by itself, in the order of the schema. */
  errors(value: unknown): SchemaError[];
}

function errorsOf(schema: object, error: TLocalizedValidationError): SchemaError[] {
  const { keyword, instancePath, schemaPath, message } = error;
  const found = {
    keyword,
    instancePath,
    schemaPath,
    message,
    params: {},
    node: member(schema, ...schemaPath.split('/').slice(1)),
  };
  // typebox reports this for each unknown member in addition to `additionalProperties`.
  if (error.keyword === 'boolean') return [];
  if (error.keyword === 'required')
    return error.params.requiredProperties.map((name) => ({ ...found, params: { name } }));
  if (error.keyword === 'additionalProperties') {
    return error.params.additionalProperties.map((name) => ({ ...found, params: { name } }));
  }
  return [error.keyword === 'enum' ? { ...found, params: { allowed: error.params.allowedValues } } : found];
}

/** Compiles a schema. Annotations such as `want` have no effect. */
export function compileSchema(schema: TSchema): SchemaJudge {
  const validator = Compile(schema);
  return {
    fits: (value) => validator.Check(value),
    errors(value) {
      if (validator.Check(value)) return [];
      const [, errors] = validator.Errors(value);
      return errors.flatMap((error) => errorsOf(schema, error));
    },
  };
}
