// One request of an operation as values, which every language of the reference writes in its own way.

import { member } from '../../../base/is-record.ts';
import { entries, list, referredName, text } from './words.ts';

/** How deep nested schemas are followed, and how many schemas for one example; beyond these bounds a value is null. */
const deepest = 16;
const mostSchemas = 1000;

interface Walk {
  /** The components that `$ref` names. */
  readonly schemas: unknown;
  /** Schemas looked at so far. Without this count, components that refer to one another could be followed without end. */
  seen: number;
}

const ofFormat: ReadonlyMap<unknown, string> = new Map([
  ['uuid', '00000000-0000-8000-8000-000000000000'],
  ['date-time', '2030-01-31T12:00:00Z'],
]);

/** A value that the schema states itself: its example, else its constant, its default, or the first of its list of values. */
function givenValue(schema: unknown): unknown {
  const [example] = list(member(schema, 'examples'));
  if (example !== undefined) return example;
  const constant = member(schema, 'const') ?? member(schema, 'default');
  return constant ?? list(member(schema, 'enum'))[0];
}

/** The members that an example shows: required ones, and those with an example of their own. Readers copy the whole. */
function exampleMembers(schema: unknown, walk: Walk, depth: number): Readonly<Record<string, unknown>> {
  const required = list(member(schema, 'required'));
  const shown = entries(member(schema, 'properties')).filter(
    ([name, property]) => required.includes(name) || list(member(property, 'examples')).length > 0,
  );
  return Object.fromEntries(shown.map(([name, property]) => [name, valueOf(property, walk, depth + 1)]));
}

function valueOf(schema: unknown, walk: Walk, depth: number): unknown {
  walk.seen += 1;
  if (depth > deepest || walk.seen > mostSchemas) return null;
  const name = referredName(schema);
  if (name !== '') return valueOf(member(walk.schemas, name), walk, depth + 1);
  const given = givenValue(schema);
  if (given !== undefined) return given;
  const [first] = [...list(member(schema, 'anyOf')), ...list(member(schema, 'oneOf'))];
  if (first !== undefined) return valueOf(first, walk, depth + 1);
  const type = [member(schema, 'type')].flat()[0];
  if (type === 'object') return exampleMembers(schema, walk, depth);
  if (type === 'array') return [valueOf(member(schema, 'items'), walk, depth + 1)];
  if (type === 'integer' || type === 'number') return member(schema, 'minimum') ?? 1;
  if (type === 'boolean') return true;
  if (type === 'null') return null;
  return ofFormat.get(member(schema, 'format')) ?? 'text';
}

/** Makes an example of a schema (JSON Schema 2020-12) as JSON; deterministic. @param schemas the components that `$ref` names */
export function exampleValue(schema: unknown, schemas: unknown): unknown {
  return valueOf(schema, { schemas, seen: 0 }, 0);
}

/** A request that can be sent as it is, once a base URL and a token are known. */
export interface RequestExample {
  /** In upper case. */
  readonly method: string;
  /** Path and query, percent-encoded; it begins with a slash. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON; absent where the operation takes no body. */
  readonly body?: unknown;
}

/** An operation and where it stands in the document. */
export interface Operation {
  /** In lower case, as the document has it. */
  readonly method: string;
  /** With `{name}` parameters. */
  readonly path: string;
  readonly operation: unknown;
}

interface Parameter {
  readonly place: string;
  readonly name: string;
  readonly value: string;
}

/** Writes a parameter's value: a string as it is, anything else as JSON. */
function parameterText(value: unknown): string {
  return (typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed();
}

function shownParameters(operation: unknown, schemas: unknown): readonly Parameter[] {
  return list(member(operation, 'parameters'))
    .filter(
      (parameter) => member(parameter, 'required') === true || list(member(parameter, 'schema', 'examples')).length > 0,
    )
    .map((parameter) => ({
      place: text(member(parameter, 'in')),
      name: text(member(parameter, 'name')),
      value: parameterText(exampleValue(member(parameter, 'schema'), schemas)),
    }));
}

function targetOf(path: string, parameters: readonly Parameter[]): string {
  const filled = path.replace(/\{([^}]*)\}/g, (whole, name: string) => {
    const found = parameters.find((parameter) => parameter.place === 'path' && parameter.name === name);
    return found ? encodeURIComponent(found.value) : whole;
  });
  const query = parameters
    .filter(({ place }) => place === 'query')
    .map(({ name, value }) => `${encodeURIComponent(name.toWellFormed())}=${encodeURIComponent(value)}`);
  return query.length === 0 ? filled : `${filled}?${query.join('&')}`;
}

/** Makes the example of an operation from what the document says of it. @param schemas the components that `$ref` names */
export function requestExample({ method, path, operation }: Operation, schemas: unknown): RequestExample {
  const parameters = shownParameters(operation, schemas);
  const schema = member(operation, 'requestBody', 'content', 'application/json', 'schema');
  const headers = parameters.filter(({ place }) => place === 'header').map(({ name, value }) => [name, value] as const);
  return {
    method: method.toUpperCase(),
    target: targetOf(path, parameters),
    headers: Object.fromEntries([
      ...(schema === undefined ? [] : [['Content-Type', 'application/json'] as const]),
      ...headers,
    ]),
    ...(schema === undefined ? {} : { body: exampleValue(schema, schemas) }),
  };
}
