// What ajv finds against a schema, as faults of the envelope: each with its pointer, in words that tell what is wanted.

import type { ErrorObject } from 'ajv';
import { closest } from '../base/closest.ts';
import { type Fault, maxFaults } from './envelope.ts';
import { quoted } from './json/cut-text.ts';
import { pointerStep } from './json/json-pointer.ts';

/** Part of a request that a schema judged. */
export type JudgedPart = 'body' | 'querystring' | 'params' | 'headers';

const partNames = {
  body: 'field',
  querystring: 'query parameter',
  params: 'path parameter',
  headers: 'header',
} as const satisfies Record<JudgedPart, string>;

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

function hintOf(error: ErrorObject, name: string): string {
  const known = knownNames(error);
  const near = closest(name, known);
  return near ? `; did you mean "${near}"?` : `; there are ${known.join(', ')}`;
}

function unknownName(error: ErrorObject, at: Judged): Omit<Extract<Fault, { token: unknown }>, 'token'> {
  const name = String(param(error, 'additionalProperty'));
  return {
    message: `${quoted(name)} is no ${partNames[at.part]}${at.isTold ? hintOf(error, name) : ''}`,
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

interface Judged {
  readonly part: JudgedPart;
  /** Whether an answer has room for it: the others are only counted, and looking for what was meant is dear. */
  readonly isTold: boolean;
}

function faultOf(error: ErrorObject, at: Judged): Fault {
  if (error.keyword === 'required') {
    const name = String(param(error, 'missingProperty'));
    const pointer = error.instancePath + pointerStep(name);
    return { token: 'E_FIELD_MISSING', message: `"${name}" is missing`, pointer };
  }
  if (error.keyword === 'additionalProperties') return { token: 'E_VALIDATION_ERROR', ...unknownName(error, at) };
  return { token: 'E_VALIDATION_ERROR', message: `${place(error)} ${wanted(error)}`, pointer: error.instancePath };
}

/** A branch of a union that did not fit says nothing of what was meant; the union itself does. */
function isBranch({ schemaPath }: ErrorObject): boolean {
  return schemaPath.includes('Of/') && /\/(?:anyOf|oneOf)\/[0-9]+\//.test(schemaPath);
}

function withoutPointer(fault: Fault): Fault {
  const { pointer: _, ...rest } = fault;
  return rest;
}

/** Turns what ajv found into faults, one a place, in ajv's order. Only faults of a body carry pointers. */
export function schemaFaults(errors: readonly ErrorObject[], part: JudgedPart): Fault[] {
  const seen = new Set<string>();
  const faults: Fault[] = [];
  for (const error of errors) {
    if (isBranch(error)) continue;
    const fault = faultOf(error, { part, isTold: faults.length < maxFaults });
    const key = fault.pointer ?? '';
    if (seen.has(key)) continue;
    seen.add(key);
    faults.push(part === 'body' ? fault : withoutPointer(fault));
  }
  return faults;
}
