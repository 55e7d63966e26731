// Checks a value against the schema. typebox judges what does not fit; this file turns its errors into faults that say what is wanted.

import { createRequire } from 'node:module';
import { closest } from '../../base/closest.ts';
import { member } from '../../base/is-record.ts';
import { fitsPlainly } from '../../base/schema/schema-type.ts';
import type * as SchemaJudging from '../../base/schema-judge.ts';
import { type ConfigFault, type ConfigPath, kindOf, quote } from './fault.ts';
import { type FileContents, schema } from './schema.ts';

interface Node {
  readonly want?: string;
  /** What is wanted of the keys of a mapping that has no fixed keys. */
  readonly keyWant?: string;
  readonly secret?: boolean;
  readonly digits?: boolean;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Node>>;
  readonly patternProperties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** The schema's node and the value at a path; `schemaPath` is how typebox writes the way to the node. */
interface SchemaPosition {
  readonly node: Node;
  readonly value: unknown;
  readonly schemaPath: string;
  readonly path: ConfigPath;
}

/** The branch of a union that the value was probably meant for, judged by the value's type. */
function chooseBranch(place: SchemaPosition): SchemaPosition {
  const branches = place.node.anyOf;
  if (!branches) return place;
  const type = Array.isArray(place.value) ? 'array' : typeof place.value;
  const index = branches.findIndex((branch) => branch.type === type);
  const branch = branches[index];
  return branch ? { ...place, node: branch, schemaPath: `${place.schemaPath}/anyOf/${index}` } : place;
}

function step(from: SchemaPosition, token: string): SchemaPosition | undefined {
  const place = chooseBranch(from);
  const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
  if (Array.isArray(place.value)) {
    const node = place.node.items;
    const path = [...place.path, Number(name)];
    return node && { node, value: place.value[Number(name)], schemaPath: `${place.schemaPath}/items`, path };
  }
  const under = { value: member(place.value, name), path: [...place.path, name] };
  const known = place.node.properties;
  const node = known && Object.hasOwn(known, name) ? known[name] : undefined;
  if (node) return { node, schemaPath: `${place.schemaPath}/properties/${name}`, ...under };
  const [pattern, ofAnyName] = Object.entries(place.node.patternProperties ?? {})[0] ?? [];
  return ofAnyName && { node: ofAnyName, schemaPath: `${place.schemaPath}/patternProperties/${pattern}`, ...under };
}

function positionOf(top: SchemaPosition, instancePath: string): SchemaPosition | undefined {
  let place: SchemaPosition | undefined = top;
  for (const token of instancePath.split('/').slice(1)) place = place && step(place, token);
  return place;
}

function unknownKey(place: SchemaPosition, key: string): ConfigFault {
  const path = [...place.path, key];
  const known = Object.keys(place.node.properties ?? {});
  const near = closest(key, known);
  const others = known.length > 0 ? `want one of ${known.join(', ')}` : `want ${place.node.keyWant ?? 'a name'}`;
  const hint = near ? `did you mean "${near}"?` : others;
  return { path, text: `unknown key; ${hint}`, atKey: true };
}

function missingKey(place: SchemaPosition, key: string): ConfigFault {
  const want = place.node.properties?.[key]?.want;
  return { path: [...place.path, key], text: `missing${want ? `, want ${want}` : ''}` };
}

function wrongValue(place: SchemaPosition): ConfigFault {
  const { node, value, path } = place;
  const isSecret = node.secret === true || (node.anyOf ?? []).some((branch) => branch.secret === true);
  const got = isSecret ? kindOf(value) : quote(value);
  return { path, text: `got ${got}, want ${node.want ?? 'another value'}${hintFor(node, value)}` };
}

/** A hint at the likely cause: YAML reads bare digits and some words as other types than text. */
function hintFor(node: Node, value: unknown): string {
  if (node.digits === true && (typeof value === 'number' || typeof value === 'boolean')) return '; put it in quotes';
  if (typeof value === 'string' && node.type === 'array') return '; put it in [ ]';
  return '';
}

function faultsOf(error: SchemaJudging.SchemaError, top: SchemaPosition): ConfigFault[] {
  const at = positionOf(top, error.instancePath);
  if (!at) return [];
  const place = chooseBranch(at);
  // Errors of a branch that the value was not meant for are ignored.
  if (error.schemaPath !== place.schemaPath && error.schemaPath !== at.schemaPath) return [];
  const { name = '' } = error.params;
  if (error.keyword === 'additionalProperties') return [unknownKey(place, name)];
  if (error.keyword === 'required') return [missingKey(place, name)];
  return [wrongValue(at)];
}

let judge: SchemaJudging.SchemaJudge | undefined;

/** The judge that can tell what is wrong. It is loaded when something is, and at once, because a configuration is read at once. */
function fullJudge(): SchemaJudging.SchemaJudge {
  const load: (file: string) => typeof SchemaJudging = createRequire(import.meta.url);
  judge ??= load('../../base/schema-judge.ts').compileSchema(schema);
  return judge;
}

/** Whether the value is what the schema says. */
export function isFileContents(value: unknown): value is FileContents {
  return fitsPlainly(schema, value) || fullJudge().fits(value);
}

/** All faults of a value, in the order of the schema. */
export function schemaFaults(value: unknown): ConfigFault[] {
  if (fitsPlainly(schema, value)) return [];
  const top: SchemaPosition = { node: schema, value, schemaPath: '#', path: [] };
  const errors = fullJudge().errors(value);
  return keepOneEach(errors.flatMap((error) => faultsOf(error, top)));
}

/** Keeps one fault per path, and none for a value whose parts have faults of their own (a union reports itself, too). */
function keepOneEach(faults: readonly ConfigFault[]): ConfigFault[] {
  const byPath = new Map(faults.toReversed().map((fault) => [JSON.stringify(fault.path), fault]));
  const outer = new Set(faults.flatMap(({ path }) => path.map((_, depth) => JSON.stringify(path.slice(0, depth)))));
  return [...byPath].toReversed().flatMap(([key, fault]) => (fault.path.length > 0 && outer.has(key) ? [] : [fault]));
}
