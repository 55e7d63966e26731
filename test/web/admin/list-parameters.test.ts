// One way to page and to search: every list of the API takes `per_page` and `cursor`, and `search` where it can be searched. Lists of
// proxy applications are numbered (`page`), as D80 has it.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from '../../support/postern-process.ts';

interface Parameter {
  readonly name: string;
  readonly in: string;
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

test.each(queries)('$of', ({ of, query }) => {
  const names = query.map(({ name }) => name);
  for (const name of ['limit', 'q', 'size', 'offset', 'after', 'query']) expect(names).not.toContain(name);
  const isNumbered = /\/(?:proxy\/apps|networks\/\w+)$/.test(of);
  expect(names.includes('cursor')).toBe(names.includes('per_page') && !isNumbered);
});
