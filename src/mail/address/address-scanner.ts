// The words of an address list (RFC 5322 §3.2): atoms, quoted-strings, domain-literals, comments and specials, one by one.
// Whoever reads or writes such a list takes its words from here, so that all see the same addresses in it.

import { closingEnd, commentEnd, withoutQuotedPairs } from '../header/quoted-text.ts';

/** What a token is: `end` is behind the last, `open` the rest from what is never closed; `takeBrackets` alone gives `brackets`. */
export type AddressTokenKind = 'atom' | 'quoted' | 'literal' | 'comment' | 'special' | 'brackets' | 'open' | 'end';

/** One token where it stands in the text: [start, end). */
export interface AddressToken {
  readonly kind: AddressTokenKind;
  readonly start: number;
  readonly end: number;
  /** As written. A special is its character; `end` is empty. */
  readonly text: string;
}

/** Tells whether a token is the special of this character. */
export function isSpecial(token: AddressToken, character: string): boolean {
  return token.kind === 'special' && token.text === character;
}

/** Gives what a token stands for: its text without the marks around a quoted-string or comment, quoted-pairs resolved. */
export function contentOf({ kind, text }: AddressToken): string {
  if (kind === 'quoted' || kind === 'comment') return withoutQuotedPairs(text.slice(1, -1));
  return kind === 'open' && /^["(]/.test(text) ? withoutQuotedPairs(text.slice(1)) : text;
}

// What may stand in an atom: atext, dots, and any non-ASCII character (RFC 6532 §3.2), other scripts' blanks included.
const atom = /[^\x00-\x20\x7f()<>[\]:;@\\,"]+/y;
// Mailers leave characters in the encoded-word of a phrase that RFC 2047 §5 (3) wants encoded. Such a word is taken too,
// but never with brackets, quotes or @ in it: a stricter reader would see an address there (`=?utf-8?q?a@b.example,?=`).
const looseWord = /=\?[^?\s<>"\\@]+\?[bq]\?[^?\s<>"\\@]*\?=/iy;
const blanks = /[ \t\r\n]+/y;

/** Reads tokens in their order and can look one ahead. White space separates tokens and is none itself. Linear, never throws. */
export class Scanner {
  readonly #text: string;
  #at = 0;
  #next: AddressToken | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  peek(): AddressToken {
    this.#next ??= this.#read();
    return this.#next;
  }

  take(): AddressToken {
    const token = this.peek();
    this.#next = undefined;
    return token;
  }

  #match(pattern: RegExp): number {
    pattern.lastIndex = this.#at;
    return pattern.test(this.#text) ? pattern.lastIndex : this.#at;
  }

  /** Takes `<`, the next token, with all behind it through the next `>`, for lists whose brackets hold URIs (RFC 2369). */
  takeBrackets(): AddressToken {
    this.#at = this.take().start;
    const end = this.#text.indexOf('>', this.#at) + 1;
    return this.#wrapped('brackets', end === 0 ? -1 : end);
  }

  #token(kind: AddressTokenKind, end: number): AddressToken {
    const start = this.#at;
    this.#at = end;
    return { kind, start, end, text: this.#text.slice(start, end) };
  }

  #read(): AddressToken {
    this.#at = this.#match(blanks);
    const first = this.#text.charAt(this.#at);
    switch (first) {
      case '':
        return this.#token('end', this.#at);
      case '"':
        return this.#wrapped('quoted', closingEnd(this.#text, this.#at, '"'));
      case '[':
        return this.#wrapped('literal', closingEnd(this.#text, this.#at, ']'));
      case '(':
        return this.#wrapped('comment', commentEnd(this.#text, this.#at));
      case '=': {
        const end = this.#match(looseWord);
        return this.#token('atom', end > this.#at ? end : this.#match(atom));
      }
      default: {
        const end = this.#match(atom);
        return end > this.#at ? this.#token('atom', end) : this.#token('special', this.#at + 1);
      }
    }
  }

  /** @param end -1 where nothing closes the token: it then reaches to the end of the text, as readers take it */
  #wrapped(kind: AddressTokenKind, end: number): AddressToken {
    return end < 0 ? this.#token('open', this.#text.length) : this.#token(kind, end);
  }
}
