// One request of an operation as values, which every language of the reference writes in its own way.

import { member } from '../../../base/is-record.ts';
import { exampleValue } from './example-value.ts';
import { list, text } from './json.ts';

/** A request that can be sent as it is, once a base URL and a token are known. */
export interface RequestExample {
  /** In upper case. */
  readonly method: string;
  /** Path and query, percent-encoded; it begins with a slash. */
  readonly target: string;
  /** The header fields besides Authorization. */
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

/** The parameters that an example shows: the required ones, and those that have an example of their own. */
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

/**
 * Makes the example of an operation from what the document says of it.
 * @param schemas the components that `$ref` names
 */
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
