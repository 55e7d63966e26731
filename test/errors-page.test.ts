import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { headerCatalogue } from '../src/pipeline/policy/header-catalogue.ts';
import { restAnswers } from '../src/pipeline/policy/rejections.ts';
import { renderEdgeErrors, renderProxyErrors } from './support/errors-sections.ts';
import { renderRejections } from './support/policy-errors-page.ts';

const file = resolve(import.meta.dirname, '../docs/errors.md');
const command = 'UPDATE_DOCS=1 npx vitest run --project unit test/errors-page.test.ts';

const opening = `# Errors

This page is for whoever was refused, or writes a program that is told of it.
This page lists everything that Postern refuses or fails with, what it means, and what to do about it. It is written from the
program's own tables, and \`npm test\` fails when the two differ. The sentence behind a token is not in the table: it names the header and its
fault, as in \`E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist\`.

- [Why a message is refused](#why-a-message-is-refused): the tokens of mail by SMTP and REST, limits, and the rule for each header
- [Edge errors](#edge-errors): what visitors of a site get when the edge cannot complete a request
- [Why a proxy application is refused](#why-a-proxy-application-is-refused): the codes of its API`;

test('docs/errors.md is what the tables say', () => {
  const wanted = [opening, renderRejections(), renderEdgeErrors(), renderProxyErrors()]
    .filter((section) => section !== '')
    .map((section) => section.trim())
    .join('\n\n')
    .concat('\n');
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, wanted);
  expect(readFileSync(file, 'utf8') === wanted, `docs/errors.md is out of date; write it anew with: ${command}`).toBe(
    true,
  );
});

test('the page names every token and every header once in its first column', () => {
  const firstColumn = renderRejections()
    .split('\n')
    .map((line) => /^\| (\S+) \|/.exec(line)?.[1]);
  for (const token of Object.keys(restAnswers)) expect(firstColumn.filter((cell) => cell === token)).toEqual([token]);
  for (const { name } of Object.values(headerCatalogue)) {
    expect(firstColumn.filter((cell) => cell === name)).toEqual([name]);
  }
});
