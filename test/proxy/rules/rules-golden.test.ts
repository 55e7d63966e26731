// Golden requests: each test/golden/proxy/CODE-name.json has requests that give the code and near misses that do not;
// order.json has several codes at once, accepted.json what is fine. Write the expectations anew with UPDATE_GOLDEN=1, then
// read the difference.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JudgedWrite } from '../../../src/proxy/rules/judge-write.ts';
import { rules } from '../../../src/proxy/rules/rules.ts';
import { Refusal } from '../../../src/web/http/envelope.ts';
import { factsWith, type JudgedCase, judgeCase } from '../../support/judge-fixtures.ts';

type GoldenCase = JudgedCase & { readonly name: string; expected?: unknown };

interface GoldenFile {
  readonly code?: number;
  readonly cases: readonly GoldenCase[];
}

const folder = resolve(import.meta.dirname, '../../golden/proxy');
const isUpdate = process.env['UPDATE_GOLDEN'] === '1';
const files = readdirSync(folder)
  .filter((file) => file.endsWith('.json'))
  .map((file) => ({ file, golden: JSON.parse(readFileSync(join(folder, file), 'utf8')) as GoldenFile }));

/** What a file keeps of a verdict. */
function summary(verdict: JudgedWrite): unknown {
  if (verdict.ok) return { fields: verdict.fields, claims: verdict.claims };
  return { faults: verdict.faults };
}

function codesOf(expected: unknown): readonly number[] {
  const { faults = [] } = expected as { readonly faults?: readonly { readonly number: number }[] };
  return faults.map(({ number }) => number);
}

/** What is said of an application that is not there. */
function absent(error: unknown): { readonly notFound: true } {
  if (error instanceof Refusal) return { notFound: true };
  throw error;
}

async function verdictOn(golden: GoldenCase): Promise<unknown> {
  const store = await factsWith(golden.existing);
  return JSON.parse(JSON.stringify(await judgeCase(golden, store).then(summary, absent)));
}

describe.each(files)('$file', ({ file, golden }) => {
  test.each(golden.cases)('$name', async (golden) => {
    const actual = await verdictOn(golden);
    if (isUpdate) golden.expected = actual;
    expect(golden.expected).toBeDefined();
    expect(actual, 'the golden file; UPDATE_GOLDEN=1 writes it anew').toEqual(golden.expected);
  });

  test('the file says what it is', () => {
    if (isUpdate) writeFileSync(join(folder, file), `${JSON.stringify(golden, undefined, 2)}\n`);
    const { code, cases } = golden;
    if (code === undefined) return;
    const giving = cases.filter(({ expected }) => codesOf(expected).includes(code));
    expect(giving.length).toBeGreaterThanOrEqual(2);
    expect(cases.length - giving.length).toBeGreaterThanOrEqual(1);
    expect(file.startsWith(String(code))).toBe(true);
  });
});

test('every code has its file', () => {
  const codes = files.flatMap(({ golden: { code } }) => (code === undefined ? [] : [code]));
  expect(codes.sort((one, other) => one - other)).toEqual([10001, ...Object.keys(rules).map(Number)]);
});
