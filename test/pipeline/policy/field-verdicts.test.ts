// A letter for each field says what the explanation of the same message says.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { check } from '../../../src/pipeline/policy/check.ts';
import { explain, readVerdict } from '../../../src/pipeline/policy/explain.ts';
import { context, smtpSubmission } from '../../support/policy-fixtures.ts';

const folder = join(import.meta.dirname, '../../golden');

test('of every golden message, each field has the same verdict and rule in both', () => {
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.eml'))) {
    const given = smtpSubmission(readFileSync(join(folder, file)));
    let letters = '';
    check(given, { ...context, tellVerdicts: (told) => (letters = told()) });
    const told = explain(given, context).headers;
    expect(letters).toHaveLength(told.length);
    for (const [at, { name, verdict }] of told.entries())
      expect([file, name, readVerdict(letters[at] ?? '', name).verdict]).toEqual([file, name, verdict]);
  }
});
