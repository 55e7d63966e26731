// The expression of a Custom Error Rule (D65): what it says of an error and the request that met it.

import type { EdgeError, ErrorRequest } from '../errors/edge-error.ts';
import type { IntegerField, IntegerOperator, StringField, StringOperator, Syntax } from './expression-fields.ts';
import { readSyntax } from './expression-syntax.ts';
import { ExpressionFault } from './expression-tokens.ts';
import { textFinder } from './find-text.ts';

/** What an expression is asked about. */
export interface ErrorCondition {
  readonly error: Pick<EdgeError, 'code' | 'status' | 'category'>;
  readonly request: Pick<ErrorRequest, 'method' | 'path' | 'host' | 'header'>;
}

/** An expression that can be asked, or what is wrong with it and where, in characters from 0. */
export type ParsedExpression =
  | { readonly ok: true; readonly matches: (condition: ErrorCondition) => boolean }
  | { readonly ok: false; readonly message: string; readonly offset: number };

type Test<T> = (value: T) => boolean;

function isOneOf<T>(values: readonly T[]): Test<T> {
  const members = new Set(values);
  return (value) => members.has(value);
}

function not<T>(test: Test<T>): Test<T> {
  return (value) => !test(value);
}

const integerTests = {
  eq: isOneOf,
  ne: (values) => not(isOneOf(values)),
  in: isOneOf,
  lt:
    ([limit = 0]) =>
    (value) =>
      value < limit,
  gt:
    ([limit = 0]) =>
    (value) =>
      value > limit,
} as const satisfies Record<IntegerOperator, (values: readonly number[]) => Test<number>>;

const stringTests = {
  eq: isOneOf,
  ne: (values) => not(isOneOf(values)),
  in: isOneOf,
  contains: ([part = '']) => textFinder(part),
  starts_with:
    ([start = '']) =>
    (value) =>
      value.startsWith(start),
} as const satisfies Record<StringOperator, (values: readonly string[]) => Test<string>>;

const integerValues = {
  error_code: ({ error }) => error.code,
  status: ({ error }) => error.status,
} as const satisfies Record<IntegerField, (condition: ErrorCondition) => number>;

const stringValues = {
  error_category: ({ error }) => [error.category],
  method: ({ request }) => [request.method],
  path: ({ request }) => [request.path],
  host: ({ request }) => [request.host],
  header: ({ request }, name) => request.header(name),
} as const satisfies Record<StringField, (condition: ErrorCondition, name: string) => readonly string[]>;

// The depth of the tree is bounded where it is read.
function compile(syntax: Syntax): Test<ErrorCondition> {
  if (syntax.kind === 'integer') {
    const fits: Test<number> = integerTests[syntax.operator](syntax.values);
    const valueOf = integerValues[syntax.field];
    return (condition) => fits(valueOf(condition));
  }
  if (syntax.kind === 'string') {
    const { field, name, operator, values } = syntax;
    const fits: Test<string> = stringTests[operator](values);
    const valuesOf = stringValues[field];
    // D65: true if any value fits, with `ne` as with every other operator; of an absent header none does.
    return (condition) => valuesOf(condition, name).some(fits);
  }
  if (syntax.kind === 'not') return not(compile(syntax.part));
  const parts = syntax.parts.map(compile);
  return syntax.kind === 'and'
    ? (condition) => parts.every((part) => part(condition))
    : (condition) => parts.some((part) => part(condition));
}

/**
 * Reads an expression: at most 4,096 characters, 32 levels deep. `not` binds tighter than `and`, `and` tighter than `or`.
 * Never throws.
 * @returns what answers it, in time linear in the expression, the request's path and its headers; or what is wrong
 */
export function parseExpression(text: string): ParsedExpression {
  try {
    return { ok: true, matches: compile(readSyntax(text)) };
  } catch (error) {
    if (error instanceof ExpressionFault) return { ok: false, message: error.message, offset: error.offset };
    throw error;
  }
}
