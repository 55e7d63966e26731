// What is kept of DNS is bounded by names and by octets.

import { expect, test } from 'vitest';
import { KeptFindings } from '../../../src/base/dns/dns-lookup.ts';

const keptOf = (text: string) => ({ finding: Promise.resolve(text), until: 0, failures: 0 });
const mebibyte = 2 ** 20;

test('more names than ten thousand do not stay', () => {
  const findings = new KeptFindings<string>();
  for (let index = 0; index < 30_000; index += 1) findings.begin(`n${index}.test`, keptOf('x'));
  expect(findings.size).toBe(10_000);
  expect(findings.get('n19999.test')).toBeUndefined();
  expect(findings.get('n20000.test')).toBeDefined();
});

test('the names that were asked for longest ago make room for octets', () => {
  const findings = new KeptFindings<string>();
  for (let index = 0; index < 1000; index += 1) {
    const kept = keptOf('x');
    findings.begin(`n${index}.test`, kept);
    findings.end(`n${index}.test`, kept, mebibyte);
  }
  expect({ size: findings.size, octets: findings.octets }).toEqual({ size: 8, octets: 8 * mebibyte });
  expect(findings.get('n992.test')).toBeDefined();
});

test('a name that is asked for again and again counts once, and one that is gone meanwhile not at all', () => {
  const findings = new KeptFindings<string>();
  for (let index = 0; index < 100; index += 1) {
    const [before, kept] = [keptOf('before'), keptOf('x')];
    findings.begin('same.test', before);
    findings.begin('same.test', kept);
    findings.end('same.test', before, mebibyte);
    findings.end('same.test', kept, mebibyte);
  }
  expect({ size: findings.size, octets: findings.octets }).toEqual({ size: 1, octets: mebibyte });
  findings.end('never.test', keptOf('x'), mebibyte);
  expect(findings.octets).toBe(mebibyte);
});
