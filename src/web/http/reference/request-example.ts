// One request of an operation as values, which every language of the reference writes in its own way.

import { member } from '../../../base/is-record.ts';
import { entries, list, referredName, text } from './words.ts';

/** The members that an example shows: required ones, and those with an example of their own. Readers copy the whole. */
function exampleMembers(schema: unknown, schemas: unknown): Readonly<Record<string, unknown>> {
  const required = list(member(schema, 'required'));
  const shown = entries(member(schema, 'properties')).filter(
    ([name, property]) => required.includes(name) || list(member(property, 'examples')).length > 0,
  );
  return Object.fromEntries(shown.map(([name, property]) => [name, exampleValue(property, schemas)]));
}

/**
 * Makes an example of a schema as JSON: its own example, else its constant, the first of its list of values, or a value of its
 * type. @param schemas the components that `$ref` names, none of which leads to itself
 */
export function exampleValue(schema: unknown, schemas: unknown): unknown {
  const name = referredName(schema);
  if (name !== '') return exampleValue(member(schemas, name), schemas);
  const given = list(member(schema, 'examples'))[0] ?? member(schema, 'const') ?? list(member(schema, 'enum'))[0];
  if (given !== undefined) return given;
  const [first] = list(member(schema, 'anyOf'));
  if (first !== undefined) return exampleValue(first, schemas);
  const type = member(schema, 'type');
  if (type === 'object') return exampleMembers(schema, schemas);
  if (type === 'array') return [exampleValue(member(schema, 'items'), schemas)];
  if (type === 'integer') return member(schema, 'minimum') ?? 1;
  return type === 'boolean' ? true : 'text';
}

/** A request that can be sent as it is, once a base URL and a token are known. */
export interface RequestExample {
  /** In upper case. */
  readonly method: string;
  /** Path and query, percent-encoded; it begins with a slash. */
  readonly target: string;
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

/** Fills in the path, and puts behind it the query parameters that are required or have an example. */
function targetOf({ path, operation }: Operation, schemas: unknown): string {
  let target = path;
  const query: string[] = [];
  for (const parameter of list(member(operation, 'parameters'))) {
    const name = text(member(parameter, 'name'));
    const schema = member(parameter, 'schema');
    const value = encodeURIComponent(text(exampleValue(schema, schemas)));
    if (member(parameter, 'in') === 'path') target = target.replace(`{${name}}`, value);
    else if (member(parameter, 'required') === true || list(member(schema, 'examples')).length > 0)
      query.push(`${name}=${value}`);
  }
  return query.length === 0 ? target : `${target}?${query.join('&')}`;
}

/** Makes the example of an operation from what the document says of it. @param schemas the components that `$ref` names */
export function requestExample(shown: Operation, schemas: unknown): RequestExample {
  const schema = member(shown.operation, 'requestBody', 'content', 'application/json', 'schema');
  return {
    method: shown.method.toUpperCase(),
    target: targetOf(shown, schemas),
    ...(schema === undefined ? {} : { body: exampleValue(schema, schemas) }),
  };
}
