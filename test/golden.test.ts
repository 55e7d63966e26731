// Golden messages: each test/golden/NN-name.eml is refused with the reasons of its .rejected.json, or admitted where it
// has none. A .case.json beside it names the credential and the reverse-path. Write the files anew with UPDATE_GOLDEN=1,
// then read the difference.

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { check } from '../src/pipeline/policy/check.ts';
import { readGoldenCase } from './support/golden-gateway.ts';
import { context, smtpSubmission } from './support/policy-fixtures.ts';

const folder = resolve(import.meta.dirname, 'golden');
const names = readdirSync(folder)
  .filter((file) => file.endsWith('.eml') && !file.endsWith('.sent.eml'))
  .map((file) => file.slice(0, -'.eml'.length));

test('there are golden messages of both verdicts', () => {
  const refused = names.filter((name) => existsSync(join(folder, `${name}.rejected.json`)));
  expect(refused.length).toBeGreaterThan(20);
  expect(names.length - refused.length).toBeGreaterThan(10);
});

test.each(names)('%s', (name) => {
  const submission = smtpSubmission(readFileSync(join(folder, `${name}.eml`)), readGoldenCase(folder, name));
  const result = check(submission, context);
  const file = join(folder, `${name}.rejected.json`);
  const violations = result.ok ? undefined : result.violations;
  if (process.env['UPDATE_GOLDEN'] === '1' && violations) {
    writeFileSync(file, `${JSON.stringify({ violations }, undefined, 2)}\n`);
  }
  const wanted: unknown = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { violations: undefined };
  expect({ violations }, 'the golden file; UPDATE_GOLDEN=1 writes it anew').toEqual(wanted);
});
