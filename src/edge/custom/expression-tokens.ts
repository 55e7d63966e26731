// The words, numbers, strings and marks of a Custom Error Rule's expression (D65).

const maxExpressionLength = 4096;

/** One part of an expression; `at` is where it begins, counted in characters from 0. */
export type ExpressionToken = { readonly at: number /** As it is written. */; readonly text: string } & (
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
export function quoted(text: string): string {
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

function isBlank(character: string): boolean {
  return character === ' ' || character === '\t' || character === '\r' || character === '\n';
}

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
export function readTokens(text: string): readonly ExpressionToken[] {
  if (text.length > maxExpressionLength) {
    const message = `the expression has ${text.length} characters, want at most ${maxExpressionLength}`;
    throw new ExpressionFault(message, maxExpressionLength);
  }
  const tokens: ExpressionToken[] = [];
  for (let at = 0; at < text.length; ) {
    if (isBlank(text.charAt(at))) {
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
