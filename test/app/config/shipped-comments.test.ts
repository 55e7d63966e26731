// config/postern.yaml shows every key that there is, with a comment: docs/operations.md promises it.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { schema } from '../../../src/app/config/schema.ts';

/** What is read of a schema, in the form of JSON Schema. */
interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly anyOf?: readonly Node[];
  readonly items?: Node;
  readonly patternProperties?: Readonly<Record<string, Node>>;
}

/** The paths of all keys below a part of the schema. */
function keysOf({ properties = {}, anyOf = [], items, patternProperties = {} }: Node, path = ''): readonly string[] {
  const inner = [...anyOf, ...(items ? [items] : []), ...Object.values(patternProperties)];
  return [
    ...Object.entries(properties).flatMap(([key, value]) => [`${path}${key}`, ...keysOf(value, `${path}${key}.`)]),
    ...inner.flatMap((value) => keysOf(value, path)),
  ];
}

/** Fields of the API's bodies, which docs/proxy.md and docs/edge-custom-errors.md tell, and types of records in DNS. */
const elsewhere = /^zones\.(?:applications|records)\.|\.(?:content_type|status_code)$/;

test('config/postern.yaml names every key', () => {
  const yaml = readFileSync(join(import.meta.dirname, '../../../config/postern.yaml'), 'utf8');
  const keys = keysOf(JSON.parse(JSON.stringify(schema)) as Node).filter((path) => !elsewhere.test(path));
  expect(keys.length).toBeGreaterThan(200);
  const last = (path: string): string => path.slice(path.lastIndexOf('.') + 1);
  expect(keys.filter((path) => !new RegExp(`(?<![\\w.])${last(path)}:`).test(yaml))).toEqual([]);
});
