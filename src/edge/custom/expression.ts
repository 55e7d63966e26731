// The expression of a Custom Error Rule (D65). Its cost is bounded: a customer writes it, a stranger the request, and others wait.

import type { EdgeError, ErrorRequest } from '../errors/catalogue.ts';
import {
  type Comparison,
  ExpressionFault,
  type Field,
  type Operator,
  readSyntax,
  type Syntax,
  type Value,
} from './expression-syntax.ts';

/** What expressions are asked about. */
export interface ErrorCondition {
  readonly error: Pick<EdgeError, 'code' | 'status' | 'category'>;
  readonly request: Pick<ErrorRequest, 'method' | 'path' | 'host' | 'header'>;
}

/** The steps of all rules for one error: one a comparison and value; `starts_with` one a character, `contains` one for eight. */
export const maxSteps = 100_000;
/** The engine finds longer texts in time that grows with their length, too: 0.2 us a character for one of 1,000, else 7 ns at most. */
const longestQuick = 250;

/** Rules being asked about one error. */
export class Evaluation {
  readonly condition: ErrorCondition;
  #left: number;

  /** @param steps how many steps it may take */
  constructor(condition: ErrorCondition, steps = maxSteps) {
    this.condition = condition;
    this.#left = steps;
  }

  /** Whether more steps were wanted than it may take. What rules say is then worth nothing. */
  get isSpent(): boolean {
    return this.#left < 0;
  }

  /** Takes steps. Gives false where there are not so many left, and from then on. */
  take(steps: number): boolean {
    this.#left = this.#left < steps ? -1 : this.#left - steps;
    return this.#left >= 0;
  }
}

/** An expression that was read, with the number of its comparisons; or what is wrong with it and where, in characters from 0. */
export type ParsedExpression =
  | { readonly ok: true; readonly syntax: Syntax; readonly comparisons: number }
  | { readonly ok: false; readonly message: string; readonly offset: number };

type Test<T> = (value: T) => boolean;

function isOneOf(wanted: readonly Value[]): Test<Value> {
  const members = new Set(wanted);
  return (value) => members.has(value);
}

function withOne(fits: (value: Value, wanted: Value | undefined) => boolean) {
  return ([wanted]: readonly Value[]): Test<Value> =>
    (value) =>
      fits(value, wanted);
}

function not<T>(test: Test<T>): Test<T> {
  return (value) => !test(value);
}

const tests: Readonly<Record<Operator, (wanted: readonly Value[]) => Test<Value>>> = {
  eq: isOneOf,
  ne: (wanted) => not(isOneOf(wanted)),
  in: isOneOf,
  lt: withOne((value, limit) => Number(value) < Number(limit)),
  gt: withOne((value, limit) => Number(value) > Number(limit)),
  contains: withOne((value, part) => String(value).includes(String(part))),
  starts_with: withOne((value, start) => String(value).startsWith(String(start))),
};

const valuesOf: Readonly<Record<Field, (condition: ErrorCondition, name: string) => readonly Value[]>> = {
  error_code: ({ error }) => [error.code],
  status: ({ error }) => [error.status],
  error_category: ({ error }) => [error.category],
  method: ({ request }) => [request.method],
  path: ({ request }) => [request.path],
  host: ({ request }) => [request.host],
  header: ({ request }, name) => request.header(name),
};

/** The steps that a comparison of a value takes beside one for the value. */
function stepsOf({ operator, values: [wanted] }: Comparison): (value: Value) => number {
  const { length } = String(wanted);
  if (operator === 'starts_with') return (value) => Math.min(length, String(value).length);
  if (operator !== 'contains') return () => 0;
  const eighths = length > longestQuick ? length : 1;
  return (value) => Math.ceil((String(value).length * eighths) / 8);
}

function compileComparison(comparison: Comparison): Test<Evaluation> {
  const { field, name, operator, values: wanted } = comparison;
  const given = valuesOf[field];
  const fits = tests[operator](wanted);
  const stepsFor = stepsOf(comparison);
  // D65: true if any value fits, with `ne` as with every other operator; of an absent header none does.
  return (evaluation) => {
    // The values are not even counted once the steps are spent: there may be thousands.
    if (!evaluation.take(1)) return false;
    const values = given(evaluation.condition, name);
    const steps = values.reduce<number>((sum, value) => sum + 1 + stepsFor(value), 0);
    return evaluation.take(steps) && values.some(fits);
  };
}

/** Makes what answers an expression. The depth of the tree is bounded where it is read. */
export function compileExpression(syntax: Syntax): Test<Evaluation> {
  if (syntax.kind === 'comparison') return compileComparison(syntax);
  if (syntax.kind === 'not') return not(compileExpression(syntax.part));
  const parts = syntax.parts.map(compileExpression);
  return syntax.kind === 'and'
    ? (evaluation) => parts.every((part) => part(evaluation))
    : (evaluation) => parts.some((part) => part(evaluation));
}

function comparisonsOf(syntax: Syntax): number {
  if (syntax.kind === 'not') return comparisonsOf(syntax.part);
  if (syntax.kind === 'comparison') return 1;
  return syntax.parts.reduce((sum, part) => sum + comparisonsOf(part), 0);
}

/** Reads an expression of at most 4,096 characters, 32 levels deep: `not` binds tighter than `and`, that than `or`. Never throws. */
export function parseExpression(text: string): ParsedExpression {
  try {
    const syntax = readSyntax(text);
    return { ok: true, syntax, comparisons: comparisonsOf(syntax) };
  } catch (error) {
    if (error instanceof ExpressionFault) return { ok: false, message: error.message, offset: error.offset };
    throw error;
  }
}
