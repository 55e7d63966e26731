// What ajv finds against a schema, as faults of the envelope: each with its pointer, in words that tell what is wanted.

import type { ErrorObject } from 'ajv';
import { closest } from '../base/closest.ts';
import type { Fault } from './envelope.ts';
import { pointerStep } from './json-reader.ts';

/** Part of a request that a schema judged. */
export type JudgedPart = 'body' | 'querystring' | 'params' | 'headers';

const partNames = {
  body: 'field',
  querystring: 'query parameter',
  params: 'path parameter',
  headers: 'header',
} as const satisfies Record<JudgedPart, string>;

function shown(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}...` : text);
}

function place(error: ErrorObject): string {
  return error.instancePath === '' ? 'The body' : error.instancePath.slice(1).replaceAll('/', '.');
}

function param(error: ErrorObject, name: string): unknown {
  const params: Readonly<Record<string, unknown>> = error.params;
  return params[name];
}

function knownNames(error: ErrorObject): string[] {
  const schema: unknown = error.parentSchema?.['properties'];
  return typeof schema === 'object' && schema !== null ? Object.keys(schema) : [];
}

function unknownName(error: ErrorObject, part: JudgedPart): Omit<Extract<Fault, { token: string }>, 'token'> {
  const name = String(param(error, 'additionalProperty'));
  const known = knownNames(error);
  const near = closest(name, known);
  const hint = near ? `did you mean "${near}"?` : `there are ${known.join(', ')}`;
  return {
    message: `${shown(name)} is no ${partNames[part]}; ${hint}`,
    pointer: error.instancePath + pointerStep(name),
  };
}

function wanted(error: ErrorObject): string {
  const want: unknown = error.parentSchema?.['want'];
  if (typeof want === 'string') return `must be ${want}`;
  const allowed = param(error, 'allowedValues');
  if (Array.isArray(allowed)) return `must be one of ${allowed.join(', ')}`;
  return error.message ?? 'is not as the schema wants it';
}

function faultOf(error: ErrorObject, part: JudgedPart): Fault {
  if (error.keyword === 'required') {
    const name = String(param(error, 'missingProperty'));
    const pointer = error.instancePath + pointerStep(name);
    return { token: 'E_FIELD_MISSING', message: `"${name}" is missing`, pointer };
  }
  if (error.keyword === 'additionalProperties') return { token: 'E_VALIDATION_ERROR', ...unknownName(error, part) };
  return { token: 'E_VALIDATION_ERROR', message: `${place(error)} ${wanted(error)}`, pointer: error.instancePath };
}

/** A branch of a union that did not fit says nothing of what was meant; the union itself does. */
function isBranch({ schemaPath }: ErrorObject): boolean {
  return /\/(?:anyOf|oneOf)\/[0-9]+\//.test(schemaPath);
}

/** Turns what ajv found into faults, one a place, in ajv's order. Only faults of a body carry pointers. */
export function schemaFaults(errors: readonly ErrorObject[], part: JudgedPart): Fault[] {
  const seen = new Set<string>();
  const faults: Fault[] = [];
  for (const error of errors) {
    if (isBranch(error)) continue;
    const fault = faultOf(error, part);
    const key = fault.pointer ?? '';
    if (seen.has(key)) continue;
    seen.add(key);
    const { pointer: _, ...withoutPointer } = fault;
    faults.push(part === 'body' ? fault : withoutPointer);
  }
  return faults;
}
