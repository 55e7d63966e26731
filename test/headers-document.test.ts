// docs/headers.json and docs/headers.schema.json are what the program's own tables say, and the one fits the other.

import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Compile } from 'typebox/schema';
import { expect, test } from 'vitest';
import { headerCatalogue } from '../src/pipeline/policy/header-catalogue.ts';
import { restAnswers } from '../src/pipeline/policy/rejections.ts';
import { renderHeaders, renderHeadersSchema } from './support/headers-document.ts';

const docs = resolve(import.meta.dirname, '../docs');
const command = 'UPDATE_DOCS=1 npx vitest run --project unit test/headers-document.test.ts';

test.each([
  ['headers.json', renderHeaders],
  ['headers.schema.json', renderHeadersSchema],
])('docs/%s is what the tables say', (name, render) => {
  const file = resolve(docs, name);
  const wanted = render();
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, wanted);
  expect(readFileSync(file, 'utf8') === wanted, `docs/${name} is out of date; write it anew with: ${command}`).toBe(
    true,
  );
});

test('the document fits its schema, and one with another member or without a limit does not', () => {
  const schema = Compile(JSON.parse(renderHeadersSchema()));
  const document = JSON.parse(renderHeaders()) as Record<string, unknown>;
  expect(schema.Errors(document)[1]).toEqual([]);
  expect(schema.Check({ ...document, more: 1 })).toBe(false);
  expect(schema.Check({ ...document, limits: { nameBytes: 100 } })).toBe(false);
});

test('it has every header and every token', () => {
  const { headers, rejections } = JSON.parse(renderHeaders()) as Record<string, { name: string; code: string }[]>;
  expect(headers?.map(({ name }) => name)).toEqual(Object.values(headerCatalogue).map(({ name }) => name));
  expect(rejections?.map(({ code }) => code)).toEqual(Object.keys(restAnswers));
});
