// Custom errors in the configuration: limits, and where a page's file lies (D65).

import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { loadYaml, scratchFolder } from '../../support/scratch.ts';

const rule = { expression: 'error_code eq 522', content: 'x', contentType: 'text/plain' };

/** The faults of a zone and of an account with these custom errors, without their places in the text. */
function faultsOf(customErrors: unknown): string[] {
  const yaml = stringify({
    accounts: [{ name: 'dev', id: 'a1'.repeat(16), customErrors }],
    zones: [{ name: 'a.example', id: '11'.repeat(16), account: 'dev', customErrors }],
  });
  try {
    loadYaml(yaml);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return error.message.split('\n').map((line) => line.replace(/^postern\.yaml:\d+:\d+: /, ''));
  }
}

/** The same fault at both places. */
const both = (text: string): string[] => [`accounts[0].customErrors.${text}`, `zones[0].customErrors.${text}`];

describe('limits', () => {
  test.each([
    [10_239, []],
    [10_240, []],
    [10_241, both('rules[0].content: is 10241 octets, want at most 10240')],
  ])('content of %i octets', (octets, wanted) => {
    expect(faultsOf({ rules: [{ ...rule, content: `\u00e4${'x'.repeat(octets - 2)}` }] })).toEqual(wanted);
  });

  test.each([
    [1_499_999, []],
    [1_500_000, []],
    [1_500_001, both('errorPage.html: is 1500001 octets, want at most 1500000')],
  ])('a page of %i octets', (octets, wanted) => {
    expect(faultsOf({ errorPage: { html: 'x'.repeat(octets) } })).toEqual(wanted);
  });

  test.each([
    [399, both('rules[0].statusCode: got 399, want a whole number, 400 to 599')],
    [400, []],
    [599, []],
    [600, both('rules[0].statusCode: got 600, want a whole number, 400 to 599')],
  ])('statusCode %i', (statusCode, wanted) => {
    expect(faultsOf({ rules: [{ ...rule, statusCode }] })).toEqual(wanted);
  });

  test.each([
    [99, []],
    [100, []],
    [101, both('rules: got 101 rules, want at most 100')],
  ])('%i rules', (count, wanted) => {
    expect(faultsOf({ rules: Array.from({ length: count }, () => ({ ...rule })) })).toEqual(wanted);
  });

  test.each([
    [2000, []],
    [2001, both('rules: have 2001 comparisons together, want at most 2000; a set behind in counts as one')],
  ])('%i comparisons in all rules together', (count, wanted) => {
    const expressionOf = (length: number): string => Array.from({ length }, () => 'status lt 1').join(' or ');
    const expressions = [...Array.from({ length: 10 }, () => expressionOf(199)), expressionOf(count - 1990)];
    expect(faultsOf({ rules: expressions.map((expression) => ({ ...rule, expression })) })).toEqual(wanted);
  });

  test.each([
    [4096, []],
    [
      4097,
      both(
        `rules[0].expression: character 4097 of "path eq \\"${'a'.repeat(51)}...": the expression has 4097 characters, want at most 4096`,
      ),
    ],
  ])('an expression of %i characters', (length, wanted) => {
    expect(faultsOf({ rules: [{ ...rule, expression: `path eq "${'a'.repeat(length - 10)}"` }] })).toEqual(wanted);
  });
});

describe('a page’s file', () => {
  function filesOf(file: string, cwd: string): (string | undefined)[] {
    const customErrors = { rules: [rule], errorPage: { file } };
    const yaml = stringify({
      accounts: [{ name: 'dev', id: 'a1'.repeat(16), customErrors }],
      zones: [{ name: 'a.example', id: '11'.repeat(16), account: 'dev', customErrors }],
    });
    const { zones, edgeAccounts } = loadYaml(yaml, {}, cwd);
    expect(zones[0]?.customErrors?.rules).toEqual([rule]);
    return [zones[0]?.customErrors?.errorPage?.file, edgeAccounts[0]?.customErrors?.errorPage?.file];
  }

  test('lies under the working directory where it is relative', () => {
    const cwd = scratchFolder();
    expect(filesOf('pages/error.html', cwd)).toEqual([join(cwd, 'pages/error.html'), join(cwd, 'pages/error.html')]);
  });

  test('is where it says where it is absolute', () => {
    const file = resolve('/srv/pages/error.html');
    expect(filesOf(file, scratchFolder())).toEqual([file, file]);
  });
});
