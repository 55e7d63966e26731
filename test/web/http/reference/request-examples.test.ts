// The examples of requests: each body fits its schema, and every language says the same request, whatever is in it.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { curlExample, pythonExample, scriptExample } from '../../../../src/web/http/reference/example-languages.ts';
import {
  exampleValue,
  type RequestExample,
  requestExample,
} from '../../../../src/web/http/reference/request-example.ts';
import { projectRoot } from '../../../support/postern-process.ts';
import fc from '../../../support/properties.ts';

interface Described {
  readonly operationId: string;
  readonly parameters: readonly { readonly in: string; readonly name: string; readonly required: boolean }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
}

const document = JSON.parse(readFileSync(join(projectRoot, 'docs/openapi.json'), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
};
const { schemas } = document.components;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ id: operation.operationId, method, path, operation })),
);

describe.each(operations)('$id', ({ method, path, operation }) => {
  const example = requestExample({ method, path, operation }, schemas);

  test('asks for the path with every required parameter, and a body where there is one', () => {
    expect(example.method).toBe(method.toUpperCase());
    // It stands between quotation marks of every language as it is.
    expect(example.target).toMatch(/^\/[\w/.~%?&=-]+$/);
    expect(example.target.split('?')[0]?.split('/').length).toBe(path.split('/').length);
    for (const { in: place, name } of operation.parameters.filter(({ required }) => required))
      expect([place, example.target]).toEqual([
        place === 'query' ? 'query' : 'path',
        place === 'path' ? example.target : expect.stringContaining(`${name}=`),
      ]);
    expect('body' in example).toBe(operation.requestBody !== undefined);
  });

  test('has a body that fits its schema', () => {
    const schema = operation.requestBody?.content['application/json']?.schema;
    if (schema === undefined) {
      expect(example.body).toBeUndefined();
      return;
    }
    const ajv = new Ajv2020({ strict: false, formats: { uuid: true, 'date-time': true } });
    ajv.addSchema({ $id: 'doc:', components: document.components });
    const local = JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"doc:#/components/')) as object;
    const fits = ajv.compile(local);
    expect([fits(example.body), fits.errors]).toEqual([true, null]);
    expect(Object.keys(example.body as object).length).toBeGreaterThan(0);
  });
});

describe('a value of a schema', () => {
  test.each([
    [{ type: 'string', examples: ['a', 'b'] }, 'a'],
    [{ const: 'x' }, 'x'],
    [{ enum: ['one', 'two'] }, 'one'],
    [{ anyOf: [{ type: 'boolean' }, { type: 'null' }] }, true],
    [{ type: 'integer', minimum: 400 }, 400],
    [{ type: 'object', properties: {} }, {}],
    [{ type: 'array', items: { $ref: '#/components/schemas/Thing' } }, [{ name: 'text' }]],
    [{ $ref: '#/components/schemas/Nothing' }, 'text'],
    [{}, 'text'],
  ])('%j: %j', (schema, wanted) => {
    const known = {
      Thing: { type: 'object', required: ['name'], properties: { name: { type: 'string' }, more: { type: 'string' } } },
    };
    expect(exampleValue(schema, known)).toEqual(wanted);
  });
});

/** Text of every kind, with what ends a quotation or begins something in a shell, a template or a string. */
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom(
        "'",
        '"',
        '`',
        '\\',
        '$',
        '${x}',
        '$(x)',
        '\n',
        '\r',
        '\u2028',
        '!',
        '#{x}',
        '%s',
        '\u0000',
        '\ud800',
      ),
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(''));
const json = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    hostile,
    fc.boolean(),
    fc.constant(null),
    fc.integer(),
    fc.array(tie('value'), { maxLength: 3 }),
    // JavaScript would take the name for the prototype; no field of the API has it.
    fc.dictionary(
      hostile.filter((name) => name !== '__proto__'),
      tie('value'),
      { maxKeys: 3 },
    ),
  ),
})).value;
const example: fc.Arbitrary<RequestExample> = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE'),
  target: fc.constant('/x/a%20b?c=%C3%9F'),
  body: json,
});
const environment = { POSTERN_URL: 'http://gateway.test', POSTERN_TOKEN: 'secret' };

test('the JavaScript sends exactly the request', async () => {
  const run = Object.getPrototypeOf(async () => undefined).constructor as FunctionConstructor;
  await fc.assert(
    fc.asyncProperty(example, async (request) => {
      const sent: unknown[] = [];
      const fetch = async (url: string, init: { readonly body: string }): Promise<object> => {
        sent.push({ url, ...init, body: JSON.parse(init.body) as unknown });
        return { json: () => undefined };
      };
      const quiet = { log: () => undefined };
      await (run(
        'fetch',
        'process',
        'console',
        scriptExample(request),
      )(fetch, { env: environment }, quiet) as Promise<void>);
      const headers = { Authorization: 'Bearer secret', 'Content-Type': 'application/json' };
      expect(sent).toEqual([
        { url: `http://gateway.test${request.target}`, method: request.method, headers, body: request.body },
      ]);
    }),
    { numRuns: 300 },
  );
});

test('the command gives curl exactly the request', () => {
  // A shell reads the command; in curl's place stands a function that prints its arguments, each behind its end.
  const samples = fc.sample(example, { numRuns: 60, seed: 7 }).map((request) => ({
    ...request,
    // POSIX: an argument has no NUL; JSON writes it as an escape, so that it never has one.
    command: curlExample(request),
  }));
  const script = `curl() { for word in "$@"; do printf '%s\\036' "$word"; done; printf '\\035'; }\n${samples
    .map(({ command }) => command)
    .join('\n')}\n`;
  const output = execFileSync('/bin/sh', ['-s'], { input: script, env: environment, maxBuffer: 10_000_000 }).toString();
  const calls = output.split('\u001d').slice(0, -1);
  expect(calls.length).toBe(samples.length);
  for (const [index, request] of samples.entries()) {
    const words = (calls[index] ?? '').split('\u001e').slice(0, -1);
    const after = (option: string): string[] => words.filter((_, at) => words[at - 1] === option);
    expect(words[0]).toBe(`http://gateway.test${request.target}`);
    expect(after('--request')).toEqual(request.method === 'GET' ? [] : [request.method]);
    expect(after('--header')).toEqual(['Authorization: Bearer secret', 'Content-Type: application/json']);
    expect(JSON.parse(after('--data')[0] ?? '')).toEqual(request.body);
  }
});

test('Python of a body that has every kind of value', () => {
  const body = { a: [true, false, null, 1.5, 'it’s "so"\\\n'], true: {} };
  expect(pythonExample({ method: 'PUT', target: '/x?y=z', body })).toBe(`import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["POSTERN_URL"] + "/x?y=z",
    method="PUT",
    headers={
        "Authorization": "Bearer " + os.environ["POSTERN_TOKEN"],
        "Content-Type": "application/json",
    },
    data=json.dumps({
        "a": [
            True,
            False,
            None,
            1.5,
            "it’s \\"so\\"\\\\\\n"
        ],
        "true": {}
    }).encode(),
)
with urllib.request.urlopen(request) as response:
    print(response.status, json.load(response))`);
});

test('nothing is sent in a body where there is none', () => {
  const request = { method: 'GET', target: '/x' };
  expect(curlExample(request)).toBe('curl "$POSTERN_URL/x" \\\n  --header "Authorization: Bearer $POSTERN_TOKEN"');
  expect(scriptExample(request)).not.toContain('body');
  expect(pythonExample(request)).not.toContain('data=');
});
