// The expression of a Custom Error Rule (D65): what it says of an error and the request that met it.

import type { ErrorCondition, Evaluation } from './evaluation.ts';
import {
  type IntegerField,
  type IntegerOperator,
  readSyntax,
  type StringField,
  type StringOperator,
  type Syntax,
} from './expression-syntax.ts';
import { ExpressionFault } from './expression-tokens.ts';
import { type TextsFinder, textsFinder } from './find-texts.ts';

/** An expression that was read, with the number of its comparisons; or what is wrong with it and where, in characters from 0. */
export type ParsedExpression =
  | { readonly ok: true; readonly syntax: Syntax; readonly comparisons: number }
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
  lt: (values) => (value) => value < (values[0] ?? 0),
  gt: (values) => (value) => value > (values[0] ?? 0),
} as const satisfies Record<IntegerOperator, (values: readonly number[]) => Test<number>>;

const stringTests = {
  eq: isOneOf,
  ne: (values) => not(isOneOf(values)),
  in: isOneOf,
  starts_with: (values) => (value) => value.startsWith(values[0] ?? ''),
} as const satisfies Record<Exclude<StringOperator, 'contains'>, (values: readonly string[]) => Test<string>>;

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

/** What is searched in one field by all expressions that are prepared together. */
class FieldSearch {
  readonly #wanted = new Map<string, number>();
  #find: TextsFinder | undefined;

  /** Gives what tells whether any value of the field holds a text. */
  add(text: string, values: (evaluation: Evaluation) => readonly string[]): Test<Evaluation> {
    const index = this.#wanted.get(text) ?? this.#wanted.size;
    this.#wanted.set(text, index);
    return (evaluation) => this.#find !== undefined && evaluation.found(this.#find, values(evaluation))?.[index] === 1;
  }

  /** Prepares the search, once all texts are added. */
  prepare(): void {
    this.#find = textsFinder([...this.#wanted.keys()]);
  }
}

type Searches = Map<string, FieldSearch>;

function compileString(
  { field, name, operator, values: wanted }: Extract<Syntax, { readonly kind: 'string' }>,
  searches: Searches,
): Test<Evaluation> {
  const valuesOf = stringValues[field];
  const values = ({ condition }: Evaluation): readonly string[] => valuesOf(condition, name);
  if (operator === 'contains') {
    const search = searches.get(`${field} ${name}`) ?? new FieldSearch();
    searches.set(`${field} ${name}`, search);
    const isFound = search.add(wanted[0] ?? '', values);
    return (evaluation) => evaluation.take(1) && isFound(evaluation);
  }
  const fits: Test<string> = stringTests[operator](wanted);
  const most = operator === 'starts_with' ? (wanted[0]?.length ?? 0) : 0;
  const stepsOf = (sum: number, { length }: string): number => sum + 1 + Math.min(most, length);
  // D65: true if any value fits, with `ne` as with every other operator; of an absent header none does.
  return (evaluation) => {
    // The values are not even counted once the steps are spent: there may be thousands.
    if (!evaluation.take(1)) return false;
    const given = values(evaluation);
    return evaluation.take(given.reduce(stepsOf, 0)) && given.some(fits);
  };
}

// The depth of the tree is bounded where it is read.
function compile(syntax: Syntax, searches: Searches): Test<Evaluation> {
  if (syntax.kind === 'integer') {
    const fits: Test<number> = integerTests[syntax.operator](syntax.values);
    const valueOf = integerValues[syntax.field];
    return (evaluation) => evaluation.take(1) && fits(valueOf(evaluation.condition));
  }
  if (syntax.kind === 'string') return compileString(syntax, searches);
  if (syntax.kind === 'not') return not(compile(syntax.part, searches));
  const parts = syntax.parts.map((part) => compile(part, searches));
  return syntax.kind === 'and'
    ? (evaluation) => parts.every((part) => part(evaluation))
    : (evaluation) => parts.some((part) => part(evaluation));
}

/**
 * Prepares expressions that are asked together: whatever they search in one field is found in one pass.
 * @returns what answers each, where the evaluation is not spent afterwards
 */
export function compileExpressions(expressions: readonly Syntax[]): readonly Test<Evaluation>[] {
  const searches: Searches = new Map();
  const tests = expressions.map((syntax) => compile(syntax, searches));
  for (const search of searches.values()) search.prepare();
  return tests;
}

function comparisonsOf(syntax: Syntax): number {
  if (syntax.kind === 'not') return comparisonsOf(syntax.part);
  if (syntax.kind === 'integer' || syntax.kind === 'string') return 1;
  return syntax.parts.reduce((sum, part) => sum + comparisonsOf(part), 0);
}

/**
 * Reads an expression: at most 4,096 characters, 32 levels deep. `not` binds tighter than `and`, `and` tighter than `or`.
 * Never throws.
 */
export function parseExpression(text: string): ParsedExpression {
  try {
    const syntax = readSyntax(text);
    return { ok: true, syntax, comparisons: comparisonsOf(syntax) };
  } catch (error) {
    if (error instanceof ExpressionFault) return { ok: false, message: error.message, offset: error.offset };
    throw error;
  }
}
