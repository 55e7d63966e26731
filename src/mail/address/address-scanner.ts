// The words of an address list (RFC 5322 §3.2): atoms, quoted-strings, domain-literals, comments and specials, one by one.

import { closingEnd, commentEnd } from '../header/quoted-text.ts';

/** What a token is; `end` stands behind the last one. */
export type AddressTokenKind = 'atom' | 'quoted' | 'literal' | 'comment' | 'special' | 'end';

/** One token where it stands in the text: [start, end). */
export interface AddressToken {
  readonly kind: AddressTokenKind;
  readonly start: number;
  readonly end: number;
  /** As written; the special's character; empty for the end. */
  readonly text: string;
}

/** Thrown by the scanner and by the reader above it, which catches it: where the text stops being an address list. */
export class AddressSyntaxError extends Error {}

// Everything that may stand in an atom: RFC 5322's atext, its dots, and any non-ASCII character (RFC 6532 §3.2), the
// blanks of other scripts among them.
const atom = /[^\x00-\x20\x7f()<>[\]:;@\\,"]+/y;
// Mailers leave characters in the encoded-word of a phrase that RFC 2047 §5 (3) wants encoded; brackets, quotes and @
// are never taken in, so that nothing that a stricter reader takes for an address can hide (`=?utf-8?q?a@b.example,?=`).
const looseWord = /=\?[^?\s<>"\\@]+\?[bq]\?[^?\s<>"\\@]*\?=/iy;
const blanks = /[ \t\r\n]+/y;

/** Reads tokens in their order, one ahead. Linear; throws `AddressSyntaxError` where something is never closed. */
export class Scanner {
  readonly #text: string;
  #at = 0;
  #next: AddressToken | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  /** The next token, not taken. */
  peek(): AddressToken {
    this.#next ??= this.#read();
    return this.#next;
  }

  /** Takes the next token. */
  take(): AddressToken {
    const token = this.peek();
    this.#next = undefined;
    return token;
  }

  #match(pattern: RegExp): number {
    pattern.lastIndex = this.#at;
    return pattern.test(this.#text) ? pattern.lastIndex : this.#at;
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
        return this.#token('quoted', this.#closed(closingEnd(this.#text, this.#at, '"'), 'quotation mark'));
      case '[':
        return this.#token('literal', this.#closed(closingEnd(this.#text, this.#at, ']'), 'bracket'));
      case '(':
        return this.#token('comment', this.#closed(commentEnd(this.#text, this.#at), 'comment'));
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

  /** Takes the end that was found of a token; throws where it has none. */
  #closed(end: number, what: string): number {
    if (end < 0) throw new AddressSyntaxError(`the ${what} at character ${this.#at + 1} is never closed`);
    return end;
  }
}
