// D1 as a property: the same custom headers get the same codes in the same order by SMTP and by REST; and `explain` never
// differs from `check`.

import { expect, test } from 'vitest';
import { check } from '../../../src/pipeline/policy/check.ts';
import { explain } from '../../../src/pipeline/policy/explain.ts';
import { type HeaderRow, headerCatalogue } from '../../../src/pipeline/policy/header-catalogue.ts';
import { codes, context, restSubmission, smtpHeadersUtf8 } from '../../support/policy-fixtures.ts';
import fc from '../../support/properties.ts';

const rows: readonly HeaderRow[] = Object.values(headerCatalogue);

// What D3 takes out of an SMTP message before the policy runs is no custom header there.
const customNames = rows
  .filter(({ overSmtp }) => overSmtp === 'custom' || overSmtp === 'refused' || overSmtp === 'trace')
  .map(({ name }) => name.replace('*', 'Seal'));

const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...customNames) },
  { weight: 2, arbitrary: fc.constantFrom('List-Unsubscribe', 'List-Unsubscribe-Post', 'X-A', 'x-a', 'X-B_c') },
  { weight: 1, arbitrary: fc.constantFrom('User-Agent', 'X-', 'List_Id', 'Foo.Bar', 'X-a.b', '', 'a'.repeat(101)) },
);

const cased = fc.tuple(name, fc.constantFrom('given', 'lower', 'upper')).map(([text, form]) => {
  if (form === 'given') return text;
  return form === 'lower' ? text.toLowerCase() : text.toUpperCase();
});

const piece = fc.constantFrom(
  'bulk',
  'LIST',
  'High',
  'List-Unsubscribe=One-Click',
  '<https://example.com/u>',
  '<mailto:a@b.example>',
  '<http://x>',
  ',',
  ' ',
  '\t',
  '(c)',
  'café',
  '\u212a',
  '=?utf-8?q?caf=C3=A9?=',
  '=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=',
  '=?utf-8?q?=0A?=',
  '=?utf-8?q?',
  '\0',
  '\x7f',
  '\r',
  '\n',
  'a'.repeat(700),
  'é'.repeat(350),
); // prettier-ignore

const value = fc
  .array(piece, { maxLength: 4 })
  .map((pieces) => pieces.join(''))
  .filter((text) => !text.includes('\r\n'));

const headers = fc.array(fc.tuple(cased, value), { maxLength: 24 });

test('SMTP and REST give one verdict', () => {
  fc.assert(
    fc.property(headers, (list) => {
      const rest = check(restSubmission(list), context);
      const smtp = check(smtpHeadersUtf8(list.map(([key, text]) => `${key}: ${text}`)), context);
      expect(codes(smtp)).toEqual(codes(rest));
      const usage = (result: typeof rest) => (result.ok ? result.checked.usage : result.usage);
      expect(usage(smtp)).toEqual(usage(rest));
      if (smtp.ok && rest.ok) {
        const leaving = (result: typeof smtp) =>
          result.checked.custom.map((field) => [field.name, field.text, field.decoded]);
        expect(leaving(smtp)).toEqual(leaving(rest));
      } else if (!smtp.ok && !rest.ok) {
        expect(smtp.violations.map((violation) => [violation.name, violation.message])).toEqual(
          rest.violations.map((violation) => [violation.name, violation.message]),
        );
      }
    }),
    { numRuns: 1500 },
  );
});

test('explain and check agree, and every refused header is told', () => {
  fc.assert(
    fc.property(headers, (list) => {
      const submission = smtpHeadersUtf8(list.map(([key, text]) => `${key}: ${text}`));
      const result = check(submission, context);
      const told = explain(submission, context);
      expect(told.admitted).toBe(result.ok);
      expect(told.violations).toEqual(result.ok ? [] : result.violations);
      expect(told.headers.map((header) => header.name)).toEqual(submission.fields.map((field) => field.name));
      const aboutHeaders = told.violations.filter((violation) => violation.name !== undefined);
      for (const violation of aboutHeaders) {
        expect(told.headers.some((header) => header.violation?.message === violation.message)).toBe(true);
      }
      for (const header of told.headers) {
        expect(header.verdict === 'refused').toBe(header.violation !== undefined);
        if (header.violation) expect(told.violations).toContainEqual(header.violation);
      }
    }),
    { numRuns: 500 },
  );
});
