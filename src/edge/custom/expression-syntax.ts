// The syntax of a Custom Error Rule's expression (D65), read by descent with a bound on its depth, types judged at once:
//
//   expression = all *( "or" all )
//   all        = one *( "and" one )
//   one        = "not" one / "(" expression ")" / comparison
//   comparison = field operator value
//   field      = "error_code" / "status" / "error_category" / "method" / "path" / "host" / "header" "[" string "]"
//   operator   = "eq" / "ne" / "in" / "lt" / "gt" / "contains" / "starts_with"
//   value      = integer / string / "{" 1*integer "}" / "{" 1*string "}"

import { closest } from '../../base/closest.ts';
import { categories as categoryTable } from '../errors/categories.ts';

const maxExpressionLength = 4096;

/** One part of an expression; `at` is where it begins, counted in characters from 0. */
type ExpressionToken = { readonly at: number /** As it is written. */; readonly text: string } & (
  | { readonly kind: 'word' | 'mark' | 'end' }
  | { readonly kind: 'integer'; readonly value: number }
  | { readonly kind: 'string'; readonly value: string }
);

/** What is wrong with an expression. It is thrown and caught while one is read. */
export class ExpressionFault extends Error {
  override readonly name = 'ExpressionFault';
  /** The place of the fault, in characters from 0. */
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** Quotes a part of an expression for a message, cut to a sane length. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}...` : text);
}

const marks: ReadonlySet<string> = new Set(['(', ')', '{', '}', '[', ']']);

/** What the author of one of these has most likely meant. */
const hints: Readonly<Record<string, string>> = {
  '=': 'for equality write eq',
  '!': 'write ne for inequality, not for negation',
  '<': 'write lt',
  '>': 'write gt',
  '&': 'write and',
  '|': 'write or',
  '~': 'there are no regular expressions; write contains or starts_with',
  ',': 'members of a set are separated by blanks',
  '.': 'numbers are whole, and a header is written header["name"]',
  '-': 'numbers are not negative, and words are joined by _',
  "'": 'strings stand in double quotation marks',
  '‘': 'strings stand in plain double quotation marks',
  '“': 'strings stand in plain double quotation marks',
  '”': 'strings stand in plain double quotation marks',
};

/** The most digits of an integer; no code or status comes near it. */
const maxDigits = 9;

function readInteger(text: string, at: number): ExpressionToken {
  const [run = ''] = /^[A-Za-z0-9_]+/.exec(text.slice(at, at + 60)) ?? [];
  if (!/^[0-9]+$/.test(run)) {
    throw new ExpressionFault(`${quoted(run)} is no whole number; a string stands in double quotation marks`, at);
  }
  if (run.length > maxDigits) throw new ExpressionFault(`a number has at most ${maxDigits} digits`, at);
  return { kind: 'integer', at, text: run, value: Number(run) };
}

/** What ends a string, or does not stand for itself in one. */
const special = /["\\\x00-\x08\x0a-\x1f\x7f]/g;

function readString(text: string, at: number): ExpressionToken {
  const parts: string[] = [];
  for (let from = at + 1; ; ) {
    special.lastIndex = from;
    const end = special.exec(text)?.index;
    if (end === undefined) throw new ExpressionFault('this string has no closing quotation mark', at);
    parts.push(text.slice(from, end));
    const character = text.charAt(end);
    if (character === '"') return { kind: 'string', at, text: text.slice(at, end + 1), value: parts.join('') };
    if (character !== '\\') throw new ExpressionFault('a string has no line ends and no other control characters', end);
    const escaped = text.charAt(end + 1);
    if (escaped !== '"' && escaped !== '\\') {
      throw new ExpressionFault('a backslash in a string stands before " or another backslash', end);
    }
    parts.push(escaped);
    from = end + 2;
  }
}

function readToken(text: string, at: number): ExpressionToken {
  const character = text.charAt(at);
  if (marks.has(character)) return { kind: 'mark', at, text: character };
  if (character === '"') return readString(text, at);
  if (/[0-9]/.test(character)) return readInteger(text, at);
  if (/[A-Za-z_]/.test(character)) {
    let end = at;
    while (end < text.length && /[A-Za-z0-9_]/.test(text.charAt(end))) end += 1;
    return { kind: 'word', at, text: text.slice(at, end) };
  }
  const shown = String.fromCodePoint(text.codePointAt(at) ?? 0).toWellFormed();
  const hint = hints[character];
  throw new ExpressionFault(`${quoted(shown)} has no meaning here${hint === undefined ? '' : `; ${hint}`}`, at);
}

/** Takes an expression apart; the last token is the `end`. @throws ExpressionFault */
function readTokens(text: string): readonly ExpressionToken[] {
  if (text.length > maxExpressionLength) {
    const message = `the expression has ${text.length} characters, want at most ${maxExpressionLength}`;
    throw new ExpressionFault(message, maxExpressionLength);
  }
  const tokens: ExpressionToken[] = [];
  for (let at = 0; at < text.length; ) {
    if (' \t\r\n'.includes(text.charAt(at))) {
      at += 1;
      continue;
    }
    const token = readToken(text, at);
    tokens.push(token);
    at += token.text.length;
  }
  tokens.push({ kind: 'end', at: text.length, text: '' });
  return tokens;
}

/** The type of each field's values; `header` comes with a name. */
const typeOf = {
  error_code: 'integer',
  status: 'integer',
  error_category: 'string',
  method: 'string',
  path: 'string',
  host: 'string',
  header: 'string',
} as const;
const operatorsOf = {
  integer: ['eq', 'ne', 'in', 'lt', 'gt'],
  string: ['eq', 'ne', 'in', 'contains', 'starts_with'],
} as const;

/** What is compared. */
export type Field = keyof typeof typeOf;
/** How it is compared. */
export type Operator = (typeof operatorsOf)[keyof typeof operatorsOf][number];
/** What it is compared with. */
export type Value = number | string;

/** A comparison of values of the field's type. `values` has one member unless the operator is `in`. */
export interface Comparison {
  readonly kind: 'comparison';
  readonly field: Field;
  /** Of a header, its name in lower case; else empty. */
  readonly name: string;
  readonly operator: Operator;
  readonly values: readonly Value[];
}

/** An expression as a tree. */
export type Syntax =
  | Comparison
  | { readonly kind: 'not'; readonly part: Syntax }
  /** Two parts or more. */
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Syntax[] };

const categories = Object.keys(categoryTable);
/** How deep `(` and `not` may be nested. */
const maxExpressionDepth = 32;

const fields = Object.keys(typeOf);
const operators: readonly string[] = Object.values(operatorsOf).flat();
const keywords = ['and', 'or', 'not', ...operators];

/** Shows a token as it is written, so that 5 and "5" differ; marks are shown in quotation marks. */
function shown({ kind, text }: ExpressionToken): string {
  if (kind === 'end') return 'the end';
  if (kind === 'mark') return quoted(text);
  return (text.length > 40 ? `${text.slice(0, 40)}...` : text).toWellFormed();
}

/** Names the one that was most likely meant, or all that there are. */
function known(text: string, names: readonly string[]): string {
  const near = closest(text, names);
  return near === undefined ? `there are ${names.join(', ')}` : `did you mean ${near}?`;
}

function isField(text: string): text is Field {
  return Object.hasOwn(typeOf, text);
}

const wantedOf = {
  integer: 'a whole number without quotation marks',
  string: 'a string in double quotation marks',
} as const;

function valueOf(token: ExpressionToken, field: Field, operator: Operator): Value {
  const type = typeOf[field];
  if (token.kind === 'integer' && type === 'integer') return token.value;
  if (token.kind !== 'string' || type !== 'string') {
    throw new ExpressionFault(`${field} is compared with ${wantedOf[type]}, got ${shown(token)}`, token.at);
  }
  const { value } = token;
  const isWhole = operator !== 'contains' && operator !== 'starts_with';
  if (field === 'error_category' && isWhole && !categories.includes(value)) {
    throw new ExpressionFault(`${quoted(value)} is no category; ${known(value, categories)}`, token.at);
  }
  // RFC 9110 §4.2.3: host names have no case; the host of a request is known in lower case.
  return field === 'host' ? value.toLowerCase() : value;
}

class Parser {
  readonly #tokens: readonly ExpressionToken[];
  #index = 0;
  #depth = 0;

  constructor(tokens: readonly ExpressionToken[]) {
    this.#tokens = tokens;
  }

  whole(): Syntax {
    const syntax = this.#any();
    const token = this.#next();
    if (token.kind === 'end') return syntax;
    throw new ExpressionFault(`got ${shown(token)}, want and, or, or the end`, token.at);
  }

  #peek(): ExpressionToken {
    const token = this.#tokens[this.#index] ?? this.#tokens.at(-1);
    if (!token) throw new Error('An expression without tokens was read');
    return token;
  }

  #next(): ExpressionToken {
    const token = this.#peek();
    this.#index += 1;
    return token;
  }

  #take(kind: 'word' | 'mark', text: string): boolean {
    const token = this.#peek();
    if (token.kind !== kind || token.text !== text) return false;
    this.#index += 1;
    return true;
  }

  #expect(mark: string, where: string): void {
    const token = this.#next();
    if (token.kind === 'mark' && token.text === mark) return;
    throw new ExpressionFault(`got ${shown(token)}, want "${mark}" ${where}`, token.at);
  }

  #any(): Syntax {
    return this.#joined('or', () => this.#joined('and', () => this.#one()));
  }

  #joined(kind: 'and' | 'or', read: () => Syntax): Syntax {
    const first = read();
    const parts = [first];
    while (this.#take('word', kind)) parts.push(read());
    return parts.length === 1 ? first : { kind, parts };
  }

  #one(): Syntax {
    const { at } = this.#peek();
    const isNot = this.#take('word', 'not');
    if (!isNot && !this.#take('mark', '(')) return this.#comparison();
    // Deep nesting by an attacker must not use up the stack.
    this.#depth += 1;
    if (this.#depth > maxExpressionDepth) {
      throw new ExpressionFault(`the expression is nested deeper than ${maxExpressionDepth} levels`, at);
    }
    const part = isNot ? this.#one() : this.#any();
    this.#depth -= 1;
    if (isNot) return { kind: 'not', part };
    this.#expect(')', `for the "(" at character ${at + 1}`);
    return part;
  }

  #comparison(): Syntax {
    const token = this.#next();
    if (token.kind !== 'word' || keywords.includes(token.text)) {
      throw new ExpressionFault(`got ${shown(token)}, want a field: ${fields.join(', ')}`, token.at);
    }
    const field = token.text;
    if (!isField(field)) {
      throw new ExpressionFault(`unknown field ${quoted(field)}; ${known(field, fields)}`, token.at);
    }
    const name = field === 'header' ? this.#headerName() : '';
    const operator = this.#operator(field);
    const values = this.#values(operator).map((value) => valueOf(value, field, operator));
    return { kind: 'comparison', field, name, operator, values };
  }

  #headerName(): string {
    this.#expect('[', 'and a name, as in header["accept"]');
    const token = this.#next();
    // RFC 9110 §5.1: a field name is a token.
    if (token.kind !== 'string' || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(token.value)) {
      throw new ExpressionFault(`got ${shown(token)}, want the name of a header in double quotation marks`, token.at);
    }
    this.#expect(']', 'behind the name of the header');
    return token.value.toLowerCase();
  }

  #operator(field: Field): Operator {
    const allowed: readonly Operator[] = operatorsOf[typeOf[field]];
    const token = this.#next();
    const operator = allowed.find((name) => name === token.text);
    if (operator !== undefined) return operator;
    const want = `want ${allowed.join(', ')}`;
    if (token.kind !== 'word') throw new ExpressionFault(`got ${shown(token)} behind ${field}, ${want}`, token.at);
    if (operators.includes(token.text)) {
      throw new ExpressionFault(`${token.text} does not compare ${field}, ${want}`, token.at);
    }
    throw new ExpressionFault(`unknown operator ${quoted(token.text)}; ${known(token.text, allowed)}`, token.at);
  }

  /** The tokens of the values: one, or those of the set behind `in`. */
  #values(operator: string): readonly ExpressionToken[] {
    const token = this.#peek();
    const hasBrace = this.#take('mark', '{');
    if (operator !== 'in') {
      if (hasBrace) throw new ExpressionFault(`${operator} takes one value; for a set write in`, token.at);
      return [this.#next()];
    }
    if (!hasBrace) {
      const message = `got ${shown(token)}, want a set behind in, such as {522 1015} or {"a" "b"}`;
      throw new ExpressionFault(message, token.at);
    }
    const members: ExpressionToken[] = [];
    while (!this.#take('mark', '}')) {
      const member = this.#next();
      if (member.kind === 'end') throw new ExpressionFault('this set has no closing "}"', token.at);
      members.push(member);
    }
    if (members.length === 0) throw new ExpressionFault('this set is empty, want at least one member', token.at);
    return members;
  }
}

/** Reads an expression. @throws ExpressionFault where it is none, with what is wanted */
export function readSyntax(text: string): Syntax {
  const tokens = readTokens(text);
  if (tokens.length === 1) {
    throw new ExpressionFault('the expression is empty, want a comparison such as error_code eq 522', 0);
  }
  return new Parser(tokens).whole();
}
