// The codes are closed unions. What must not compile stands below a `@ts-expect-error`: should it compile one day, then
// `tsc` finds nothing to expect there and `npm run check` fails. When it runs, the file holds each union against its table.

import { expect, expectTypeOf, test } from 'vitest';
import { allEdgeErrors, type EdgeCode, type EdgeError, edgeErrors } from '../src/edge/errors/catalogue.ts';
import { brokenConnection, type OriginFailure } from '../src/edge/origin/dial-origin.ts';
import type { Forwarded } from '../src/edge/origin/message-heads.ts';
import type { Verdict } from '../src/edge/zone/judge-request.ts';
import { type RestCode, restAnswers } from '../src/pipeline/policy/rejections.ts';
import { type Rule, ruleRows, rules } from '../src/proxy/rules/rules.ts';
import {
  type AnswerTable,
  type Fault,
  failureOf,
  type RuleCode,
  type TokenNumber,
  type V4Number,
  type V4Token,
} from '../src/web/http/envelope.ts';

test('the edge names only errors of its catalogue', () => {
  const fail: Forwarded['fail'] = (code) => expectTypeOf(code).toEqualTypeOf<EdgeCode>();
  fail(520);
  // @ts-expect-error 519 is no code of the catalogue
  fail(519);
  // @ts-expect-error what is just a number may be any
  fail(Number('520'));
  // @ts-expect-error 1005.5 is no code of the catalogue
  const verdict: Verdict = { kind: 'error', code: 1005.5, asked: false };
  // @ts-expect-error 599 is no code of the catalogue
  const failure: OriginFailure = { code: 599, cause: '' };
  expect([verdict, failure]).toHaveLength(2);
  expectTypeOf(brokenConnection(undefined, false).code).toEqualTypeOf<EdgeCode>();
  expectTypeOf<EdgeError['code']>().toEqualTypeOf<EdgeCode>();
  expectTypeOf<keyof typeof edgeErrors>().toEqualTypeOf<EdgeCode>();
  expect(allEdgeErrors.map(({ code }) => code)).toEqual(Object.keys(edgeErrors).map(Number));
});

test('a fault of the v4 API has a token and a number that the API knows', () => {
  const known: Fault = { token: 'E_NOT_FOUND', message: 'There is none' };
  // @ts-expect-error the API has no such token
  const unknown: Fault = { token: 'E_NOT_FUOND', message: 'There is none' };
  // @ts-expect-error what is just a text may be any
  const open: Fault = { token: 'E_NOT_FOUND'.trim(), message: 'There is none' };
  // @ts-expect-error the API has no such number
  const numbered: Fault = { number: 11003, status: 400, message: 'There is none' };
  expect([unknown, open, numbered]).toHaveLength(3);
  const { E_NOT_FOUND: _, ...fewer } = restAnswers;
  // @ts-expect-error a token without an answer
  const table: AnswerTable = fewer;
  expect(failureOf(restAnswers, [known]).body.errors).toEqual([{ code: 10000, message: 'E_NOT_FOUND: There is none' }]);
  expect(table).not.toHaveProperty('E_NOT_FOUND');
});

test('the tokens and numbers of the v4 API are those of the two tables', () => {
  expectTypeOf<V4Token>().toEqualTypeOf<RestCode>();
  expectTypeOf<(typeof restAnswers)[V4Token]['number']>().toEqualTypeOf<TokenNumber>();
  expectTypeOf<keyof typeof rules>().toEqualTypeOf<RuleCode>();
  expectTypeOf<RuleCode | TokenNumber>().toEqualTypeOf<V4Number>();
  // @ts-expect-error a code without a rule
  const missing: Record<RuleCode | 11003, Rule> = rules;
  expect(ruleRows.map(({ code }) => ({ status: 400, ...missing[code] }))).toEqual(ruleRows.map(({ rule }) => rule));
});
