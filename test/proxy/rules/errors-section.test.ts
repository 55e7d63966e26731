// The table against the specification's: codes, statuses, order.

import { expect, test } from 'vitest';
import { ruleRows } from '../../../src/proxy/rules/rules.ts';
import { renderProxyErrors } from '../../support/errors-sections.ts';

// D82: 403 for three, 409 for one, 500 or 503 for one, 400 for the rest.
const wanted: readonly (readonly [number, number])[] = [
  [10002, 500],
  [10012, 400],
  [11000, 400],
  [11001, 400],
  [11002, 400],
  [11004, 400],
  [11014, 403],
  [11018, 403],
  [11019, 400],
  [11026, 403],
  [11033, 400],
  [11034, 400],
  [11041, 400],
  [11042, 400],
  [11043, 400],
  [11044, 400],
  [11045, 400],
  [11050, 400],
  [12005, 400],
  [13002, 400],
  [16001, 409],
];

test('the table has every code, in order, with its status', () => {
  expect(ruleRows.map(({ code, rule }) => [code, rule.status])).toEqual(wanted);
});

test('the section has every code once, with what to do', () => {
  const lines = renderProxyErrors().split('\n');
  for (const { code, rule } of ruleRows) {
    const rows = lines.filter((line) => line.startsWith(`| ${code} |`));
    expect(rows).toHaveLength(1);
    expect(rows[0]).toContain(rule.resolution);
    expect(rows[0]?.split(' | ')).toHaveLength(5);
  }
  expect(lines.find((line) => line.startsWith('| 10002 |'))).toContain('500 or 503');
});
