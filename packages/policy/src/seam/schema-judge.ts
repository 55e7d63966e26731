// Judges a value by the schemas of requests: the words of JSON Schema that they use, with the errors of the gateway's judge in
// its order. A test compares the two.

import type { SchemaError } from '../../../../src/base/schema-judge.ts';

interface Node {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Node[];
  readonly items?: Node;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxLength?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Node>>;
  readonly additionalProperties?: unknown;
}

interface Place {
  readonly instancePath: string;
  readonly schemaPath: string;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function error(node: Node, place: Place, keyword: string, message: string, params = {}): SchemaError {
  return { keyword, ...place, message, params, node };
}

function errorsOfObject(node: Node, value: object, place: Place): SchemaError[] {
  const { required = [], properties = {} } = node;
  const errors: SchemaError[] = [];
  for (const name of required) {
    if (!Object.hasOwn(value, name)) errors.push(error(node, place, 'required', 'is missing', { name }));
  }
  for (const name of node.additionalProperties === false ? Object.keys(value) : []) {
    if (!Object.hasOwn(properties, name))
      errors.push(error(node, place, 'additionalProperties', 'is unknown', { name }));
  }
  for (const [name, property] of Object.entries(properties)) {
    if (!Object.hasOwn(value, name)) continue;
    const below = {
      instancePath: `${place.instancePath}/${name}`,
      schemaPath: `${place.schemaPath}/properties/${name}`,
    };
    for (const found of errorsOf(property, Reflect.get(value, name), below)) errors.push(found);
  }
  return errors;
}

function errorsOfArray(node: Node, value: readonly unknown[], place: Place): SchemaError[] {
  const { items, minItems = 0, maxItems = Number.POSITIVE_INFINITY } = node;
  const errors: SchemaError[] = [];
  if (items) {
    value.forEach((item, index) => {
      const below = { instancePath: `${place.instancePath}/${index}`, schemaPath: `${place.schemaPath}/items` };
      for (const found of errorsOf(items, item, below)) errors.push(found);
    });
  }
  if (value.length < minItems)
    errors.push(error(node, place, 'minItems', `must not have fewer than ${minItems} items`));
  if (value.length > maxItems) errors.push(error(node, place, 'maxItems', `must not have more than ${maxItems} items`));
  return errors;
}

function errorsOf(node: Node, value: unknown, place: Place): SchemaError[] {
  if (node.anyOf) {
    const branches = node.anyOf.map((branch, index) =>
      errorsOf(branch, value, { ...place, schemaPath: `${place.schemaPath}/anyOf/${index}` }),
    );
    if (branches.some(({ length }) => length === 0)) return [];
    return [...branches.flat(), error(node, place, 'anyOf', 'must match a schema in anyOf')];
  }
  if (node.enum && !node.enum.includes(value)) {
    return [error(node, place, 'enum', 'must be equal to one of the allowed values', { allowed: node.enum })];
  }
  const types = typeof node.type === 'string' ? [node.type] : (node.type ?? []);
  if (types.length > 0 && !types.includes(typeOf(value))) {
    const [only, another] = types;
    return [error(node, place, 'type', another ? `must be either ${types.join(' or ')}` : `must be ${only}`)];
  }
  const { maxLength = Number.POSITIVE_INFINITY } = node;
  if (typeof value === 'string' && value.length > maxLength && Array.from(value).length > maxLength) {
    return [error(node, place, 'maxLength', `must not have more than ${maxLength} characters`)];
  }
  if (Array.isArray(value)) return errorsOfArray(node, value, place);
  return typeof value === 'object' && value !== null ? errorsOfObject(node, value, place) : [];
}

/** Makes the judge of a schema. */
export function compileSchema(schema: unknown): {
  fits(value: unknown): boolean;
  errors(value: unknown): SchemaError[];
} {
  const errors = (value: unknown): SchemaError[] =>
    errorsOf(schema as Node, value, { instancePath: '', schemaPath: '#' });
  return { errors, fits: (value) => errors(value).length === 0 };
}
