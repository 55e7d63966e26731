// One way to page and to search: every list of the API takes `per_page` and `cursor`, and `search` where it can be searched. Lists of
// proxy applications are numbered (`page`), as D80 has it.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from '../../support/postern-process.ts';

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly deprecated?: boolean;
}

type Operations = Readonly<Record<string, { readonly parameters?: readonly Parameter[] }>>;

const { paths } = JSON.parse(readFileSync(join(projectRoot, 'docs/openapi.json'), 'utf8')) as {
  readonly paths: Readonly<Record<string, Operations>>;
};

const queries = Object.entries(paths).flatMap(([path, operations]) =>
  Object.entries(operations).flatMap(([method, { parameters = [] }]) => {
    const query = parameters.filter((parameter) => parameter.in === 'query');
    return query.length === 0 ? [] : [{ of: `${method} ${path}`, query }];
  }),
);

/** The names that lists had before, with those of now. */
const olderNames: Readonly<Record<string, string>> = { limit: 'per_page', q: 'search' };

test.each(queries)('$of', ({ of, query }) => {
  const current = query.filter(({ deprecated }) => deprecated !== true).map(({ name }) => name);
  const older = query.filter(({ deprecated }) => deprecated === true).map(({ name }) => name);
  for (const name of ['limit', 'q', 'size', 'offset', 'after', 'query']) expect(current).not.toContain(name);
  for (const name of older) expect(current).toContain(olderNames[name]);
  const isNumbered = /\/(?:proxy\/apps|networks\/\w+)$/.test(of);
  expect(current.includes('cursor')).toBe(current.includes('per_page') && !isNumbered);
});

test('the older names are still told of, where they were', () => {
  const withOlder = queries.filter(({ query }) => query.some(({ deprecated }) => deprecated === true));
  expect(withOlder.map(({ of }) => of.replace(/^.*\/email/, ''))).toEqual([
    '/sending/journal',
    '/sending/journal',
    '/sending/queue/messages',
    '/sending/queue/messages',
  ]);
});
