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
import { type TextsFinder, textsFinder } from './find-texts.ts';

/** What expressions are asked about. */
export interface ErrorCondition {
  readonly error: Pick<EdgeError, 'code' | 'status' | 'category'>;
  readonly request: Pick<ErrorRequest, 'method' | 'path' | 'host' | 'header'>;
}

/** The steps of all rules for one error: one a comparison and value; `starts_with` and `contains` one a character, `contains` once a field. */
export const maxSteps = 100_000;

/** Rules being asked about one error. */
export class Evaluation {
  readonly condition: ErrorCondition;
  readonly #found = new Map<TextsFinder, Uint8Array>();
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

  /** What a search finds in the values of its field, which are read and searched once; undefined where the steps do not suffice. */
  found(search: TextsFinder, read: () => readonly Value[]): Uint8Array | undefined {
    const known = this.#found.get(search);
    if (known) return known;
    const values = read().map(String);
    if (!this.take(values.reduce((sum, { length }) => sum + length, 0))) return undefined;
    const found = search(values);
    this.#found.set(search, found);
    return found;
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

const tests: Readonly<Record<Exclude<Operator, 'contains'>, (wanted: readonly Value[]) => Test<Value>>> = {
  eq: isOneOf,
  ne: (wanted) => not(isOneOf(wanted)),
  in: isOneOf,
  lt: withOne((value, limit) => Number(value) < Number(limit)),
  gt: withOne((value, limit) => Number(value) > Number(limit)),
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

/** What is searched in one field by all expressions that are prepared together. */
class FieldSearch {
  readonly #wanted = new Map<string, number>();
  #find: TextsFinder | undefined;

  /** Gives what tells whether any value of the field holds a text. */
  add(text: string, values: (condition: ErrorCondition) => readonly Value[]): Test<Evaluation> {
    const index = this.#wanted.get(text) ?? this.#wanted.size;
    this.#wanted.set(text, index);
    return (evaluation) =>
      this.#find !== undefined && evaluation.found(this.#find, () => values(evaluation.condition))?.[index] === 1;
  }

  /** Prepares the search, once all texts are added. */
  async prepare(): Promise<void> {
    this.#find = await textsFinder([...this.#wanted.keys()]);
  }
}

type Searches = Map<string, FieldSearch>;

function compileComparison(
  { field, name, operator, values: wanted }: Comparison,
  searches: Searches,
): Test<Evaluation> {
  const given = valuesOf[field];
  const text = String(wanted[0]);
  if (operator === 'contains') {
    const search = searches.get(`${field} ${name}`) ?? new FieldSearch();
    searches.set(`${field} ${name}`, search);
    const isFound = search.add(text, (condition) => given(condition, name));
    return (evaluation) => evaluation.take(1) && isFound(evaluation);
  }
  const fits = tests[operator](wanted);
  const most = operator === 'starts_with' ? text.length : 0;
  // D65: true if any value fits, with `ne` as with every other operator; of an absent header none does.
  return (evaluation) => {
    // The values are not even counted once the steps are spent: there may be thousands.
    if (!evaluation.take(1)) return false;
    const values = given(evaluation.condition, name);
    const steps = values.reduce<number>((sum, value) => sum + 1 + Math.min(most, String(value).length), 0);
    return evaluation.take(steps) && values.some(fits);
  };
}

// The depth of the tree is bounded where it is read.
function compile(syntax: Syntax, searches: Searches): Test<Evaluation> {
  if (syntax.kind === 'comparison') return compileComparison(syntax, searches);
  if (syntax.kind === 'not') return not(compile(syntax.part, searches));
  const parts = syntax.parts.map((part) => compile(part, searches));
  return syntax.kind === 'and'
    ? (evaluation) => parts.every((part) => part(evaluation))
    : (evaluation) => parts.some((part) => part(evaluation));
}

/** Prepares expressions that are asked together: what they search in one field is found in one pass. @returns what answers each */
export async function compileExpressions(expressions: readonly Syntax[]): Promise<readonly Test<Evaluation>[]> {
  const searches: Searches = new Map();
  const tests = expressions.map((syntax) => compile(syntax, searches));
  for (const search of searches.values()) await search.prepare();
  return tests;
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
