// The OpenAPI document as programs read it: a client generator needs a name for every operation, and no name twice.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from '../../support/postern-process.ts';

interface Operation {
  readonly operationId?: string;
  readonly tags: readonly string[];
}

// test/e2e/rest.test.ts holds that this file is what the server serves.
const document = JSON.parse(readFileSync(join(projectRoot, 'docs/openapi.json'), 'utf8')) as {
  readonly tags?: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, ...operation })),
);

test('every operation has an operationId of one camelCase word, and each another', () => {
  expect(operations.length).toBeGreaterThan(30);
  const bad = operations.filter(({ operationId }) => !/^[a-z]+(?:[A-Z][a-z]+)+$/.test(operationId ?? ''));
  expect(bad.map(({ name }) => name)).toEqual([]);
  const ids = operations.map(({ operationId }) => operationId);
  expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
});

test('every operation has one tag, and the document lists the tags in the order of their first operations', () => {
  expect(operations.filter(({ tags }) => tags.length !== 1).map(({ name }) => name)).toEqual([]);
  expect(document.tags?.map(({ name }) => name)).toEqual([...new Set(operations.flatMap(({ tags }) => tags))]);
});
