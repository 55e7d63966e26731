// Golden bodies: every code in every format, for one occurrence, under test/golden/edge. The two JSON types have the same
// body (D62). Write the files anew with UPDATE_GOLDEN=1, then read the difference.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { allEdgeErrors } from '../../src/edge/errors/catalogue.ts';
import { defaultAnswer } from '../../src/edge/errors/default-answer.ts';
import { edgeOccurrence } from '../support/edge-occurrence.ts';

const folder = resolve(import.meta.dirname, '../golden/edge');
const updates = process.env['UPDATE_GOLDEN'] === '1';
const files = allEdgeErrors.flatMap(({ code }) => [
  { code, format: 'json', file: `${code}.json` } as const,
  { code, format: 'markdown', file: `${code}.md` } as const,
  { code, format: 'html', file: `${code}.html` } as const,
]);

if (updates) mkdirSync(folder, { recursive: true });

test.each(files)('$file', ({ code, format, file }) => {
  const { body } = defaultAnswer(edgeOccurrence(code), format);
  if (updates) writeFileSync(join(folder, file), body);
  expect(body.toString(), 'the golden file; UPDATE_GOLDEN=1 writes it anew').toBe(
    readFileSync(join(folder, file), 'utf8'),
  );
});

test('the folder holds nothing else', () => {
  expect(readdirSync(folder).sort()).toEqual(files.map(({ file }) => file).sort());
});

test.each(allEdgeErrors)('$code as application/problem+json has the body of application/json', ({ code }) => {
  const occurrence = edgeOccurrence(code);
  expect(defaultAnswer(occurrence, 'problem').body).toEqual(defaultAnswer(occurrence, 'json').body);
});
