// Turns errors of a schema into faults of the envelope, with pointers and words that tell what is wanted.

import type { TSchema } from 'typebox';
import { closest } from '../../base/closest.ts';
import { isRecord, member } from '../../base/is-record.ts';
import { compileSchema, type SchemaError, type SchemaJudge } from '../../base/schema-judge.ts';
import { type Fault, maxFaults } from './envelope.ts';
import { pointerStep, quoted } from './json/cut-text.ts';
import type { JsonDocument } from './json/json-reader.ts';

// All errors are found at once. Optional fields that are null are removed first: null means leaving the field out (D5).

/** Judges a value; its errors stand in `errors` until the next call. */
export interface RequestJudge {
  (value: unknown): boolean;
  errors?: SchemaError[] | null;
}

/** Removes null members that the schema has as optional, at every depth. Required and unknown ones keep it, and are refused. */
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

/** Makes what judges by a schema, which is compiled when it is first asked: of the routes' some two hundred few ever are. */
export function compileJudge(schema: TSchema): RequestJudge {
  let compiled: SchemaJudge | undefined;
  const judge: RequestJudge = (value) => {
    compiled ??= compileSchema(schema);
    removeNulls(schema, value);
    const fits = compiled.fits(value);
    judge.errors = fits ? null : compiled.errors(value);
    return fits;
  };
  return judge;
}

/** Part of a request that a schema judged. */
export type JudgedPart = 'body' | 'querystring' | 'params' | 'headers';

const partNames = {
  body: 'field',
  querystring: 'query parameter',
  params: 'path parameter',
  headers: 'header',
} as const satisfies Record<JudgedPart, string>;

function hintOf(error: SchemaError, name: string): string {
  const known = Object.keys(member(error.node, 'properties') ?? {});
  const near = closest(name, known);
  return near ? `; did you mean "${near}"?` : `; there are ${known.join(', ')}`;
}

/** The words for an error. @param isTold the answer has room for it; the others are only counted, since finding what was meant takes time */
function messageOf(error: SchemaError, part: JudgedPart, isTold: boolean): string {
  const { keyword, instancePath, node } = error;
  const { name = '', allowed } = error.params;
  if (keyword === 'required') return `"${name}" is missing`;
  if (keyword === 'additionalProperties')
    return `${quoted(name)} is no ${partNames[part]}${isTold ? hintOf(error, name) : ''}`;
  const place = instancePath === '' ? 'The body' : instancePath.slice(1).replaceAll('/', '.');
  const want = member(node, 'want') ?? (allowed && `one of ${allowed.join(', ')}`);
  return `${place} ${typeof want === 'string' ? `must be ${want}` : error.message}`;
}

/** Whether an error comes from one branch of a union. It does not tell what was meant; the error of the union itself does. */
function isBranch({ schemaPath }: SchemaError): boolean {
  return schemaPath.includes('Of/') && /\/(?:anyOf|oneOf)\/[0-9]/.test(schemaPath);
}

/** Turns errors into faults, one for each place, in the same order. Only faults of a body carry pointers. */
export function schemaFaults(errors: readonly SchemaError[], part: JudgedPart): Fault[] {
  const seen = new Set<string>();
  const faults: Fault[] = [];
  for (const error of errors) {
    if (isBranch(error)) continue;
    const { instancePath, keyword, params } = error;
    const pointer = params.name === undefined ? instancePath : instancePath + pointerStep(params.name);
    if (seen.has(pointer)) continue;
    seen.add(pointer);
    const token = keyword === 'required' ? 'E_FIELD_MISSING' : 'E_VALIDATION_ERROR';
    const message = messageOf(error, part, faults.length < maxFaults);
    faults.push({ token, message, ...(part === 'body' ? { pointer } : {}) });
  }
  return faults;
}

function faultAt(pointer: string, message: string): Fault {
  return { token: 'E_VALIDATION_ERROR', message, pointer };
}

/** The faults of a document apart from its schema: repeated names and lone surrogates. */
export function documentFaults({ repeated, illFormed }: JsonDocument): Fault[] {
  return [
    ...repeated.map((pointer) => faultAt(pointer, 'This name stands twice in its object')),
    ...illFormed.map((pointer) => faultAt(pointer, 'This text has a lone surrogate, which is no character')),
  ];
}
