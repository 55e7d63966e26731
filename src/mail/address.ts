// Addresses of header fields: mailboxes and groups of RFC 5322 §3.4 with the obsolete forms of §4.4 that mailers send.

import { decodeWords } from './header-text.ts';

/** One mailbox of an address list. */
export interface Mailbox {
  readonly kind: 'mailbox';
  /** Decoded (RFC 2047), quotes taken off; from the comment where only that names the person: `a@b (Jo)`. */
  readonly displayName?: string;
  /** As written, comments and blanks taken out; quoted where it was. */
  readonly localPart: string;
  /** As written; absent in `root`. A domain-literal keeps its brackets. */
  readonly domain?: string;
  /** Where the addr-spec stands in the text: [start, end). A missing domain is put in at `end`. */
  readonly start: number;
  readonly end: number;
}

/** A named group, perhaps empty: `undisclosed-recipients:;`. */
export interface Group {
  readonly kind: 'group';
  readonly displayName: string;
  readonly members: readonly Mailbox[];
}

/** The addresses in their order, or what stands in the way. */
export type AddressList =
  | { readonly ok: true; readonly addresses: readonly (Mailbox | Group)[] }
  | { readonly ok: false; readonly reason: string };

type TokenKind = 'atom' | 'quoted' | 'literal' | 'comment' | 'special' | 'end';

interface Token {
  readonly kind: TokenKind;
  readonly start: number;
  readonly end: number;
  /** As written; the special's character; empty for the end. */
  readonly text: string;
}

/** Thrown inside this file only, and caught there: where the text stops being an address list. */
class AddressSyntaxError extends Error {}

// Everything that may stand in an atom: RFC 5322's atext, its dots, and any non-ASCII character (RFC 6532 §3.2).
const atom = /[^\s()<>[\]:;@\\,"]+/y;
// Mailers leave characters in the encoded-word of a phrase that RFC 2047 §5 (3) wants encoded; brackets, quotes and @
// are never taken in, so that nothing that a stricter reader takes for an address can hide (`=?utf-8?q?a@b.example,?=`).
const looseWord = /=\?[^?\s<>"\\@]+\?[bq]\?[^?\s<>"\\@]*\?=/iy;
const blanks = /[ \t\r\n]+/y;

const backslash = 0x5c;

class Scanner {
  readonly #text: string;
  #at = 0;
  #next: Token | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  /** The next token, not taken. */
  peek(): Token {
    this.#next ??= this.#read();
    return this.#next;
  }

  /** Takes the next token. */
  take(): Token {
    const token = this.peek();
    this.#next = undefined;
    return token;
  }

  #match(pattern: RegExp): number {
    pattern.lastIndex = this.#at;
    return pattern.test(this.#text) ? pattern.lastIndex : this.#at;
  }

  #token(kind: TokenKind, end: number): Token {
    const start = this.#at;
    this.#at = end;
    return { kind, start, end, text: this.#text.slice(start, end) };
  }

  #read(): Token {
    this.#at = this.#match(blanks);
    const first = this.#text.charAt(this.#at);
    switch (first) {
      case '':
        return this.#token('end', this.#at);
      case '"':
        return this.#token('quoted', this.#closing('"', 'quotation mark'));
      case '[':
        return this.#token('literal', this.#closing(']', 'bracket'));
      case '(':
        return this.#token('comment', this.#commentEnd());
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

  #closing(mark: string, what: string): number {
    const wanted = mark.charCodeAt(0);
    for (let at = this.#at + 1; at < this.#text.length; at += 1) {
      const code = this.#text.charCodeAt(at);
      if (code === backslash) at += 1;
      else if (code === wanted) return at + 1;
    }
    throw new AddressSyntaxError(`the ${what} at character ${this.#at + 1} is never closed`);
  }

  /** Comments nest (RFC 5322 §3.2.2): counted, not recursed into, so that depth costs nothing. */
  #commentEnd(): number {
    let depth = 0;
    for (let at = this.#at; at < this.#text.length; at += 1) {
      const code = this.#text.charCodeAt(at);
      if (code === backslash) at += 1;
      else if (code === 0x28) depth += 1;
      else if (code === 0x29) depth -= 1;
      if (depth === 0) return at + 1;
    }
    throw new AddressSyntaxError(`the comment at character ${this.#at + 1} is never closed`);
  }
}

function unquote(token: Token): string {
  return token.kind === 'atom' || token.kind === 'literal'
    ? token.text
    : token.text.slice(1, -1).replace(/\\([^])/g, '$1');
}

function isSpecial(token: Token, character: string): boolean {
  return token.kind === 'special' && token.text === character;
}

function unexpected(token: Token): AddressSyntaxError {
  if (token.kind === 'end') return new AddressSyntaxError('the address is cut off');
  const shown = token.text.length > 40 ? `${token.text.slice(0, 40)}...` : token.text;
  return new AddressSyntaxError(`unexpected ${JSON.stringify(shown)} at character ${token.start + 1}`);
}

/** The words of a phrase as text: a blank where one stood, encoded-words decoded. */
function phraseText(words: readonly Token[]): string {
  let text = '';
  let end = -1;
  for (const word of words) {
    text += (end >= 0 && word.start > end ? ' ' : '') + unquote(word);
    end = word.end;
  }
  return decodeWords(text);
}

/** Joins words that must hang together by dots (RFC 5322 §4.4, obs-local-part and obs-domain). */
function joinDotted(words: readonly Token[]): string {
  let text = '';
  for (const word of words) {
    const joined = text === '' || text.endsWith('.') || word.text.startsWith('.');
    if (!joined || (word.kind !== 'atom' && word.kind !== 'quoted')) throw unexpected(word);
    text += word.text;
  }
  return text;
}

interface Parts {
  readonly words: readonly Token[];
  readonly comments: readonly Token[];
}

/** Takes words up to the next special, comments apart. */
function takeWords(scanner: Scanner): Parts {
  const words: Token[] = [];
  const comments: Token[] = [];
  for (;;) {
    const token = scanner.peek();
    if (token.kind === 'comment') comments.push(token);
    else if (token.kind === 'atom' || token.kind === 'quoted' || token.kind === 'literal') words.push(token);
    else return { words, comments };
    scanner.take();
  }
}

type AddrSpec = Omit<Mailbox, 'kind' | 'displayName'> & { readonly comments: readonly Token[] };

/** Reads the rest of an addr-spec whose local part has been taken. */
function finishAddrSpec(scanner: Scanner, local: Parts): AddrSpec {
  const first = local.words[0];
  const last = local.words.at(-1);
  if (!first || !last) throw unexpected(scanner.peek());
  const localPart = joinDotted(local.words);
  if (!isSpecial(scanner.peek(), '@')) {
    return { localPart, start: first.start, end: last.end, comments: local.comments };
  }
  const at = scanner.take();
  const { words, comments } = takeWords(scanner);
  const lastOfDomain = words.at(-1);
  if (!lastOfDomain) throw unexpected(scanner.peek().kind === 'end' ? at : scanner.peek());
  const domain = words.length === 1 && lastOfDomain.kind === 'literal' ? lastOfDomain.text : joinDotted(words);
  const quoted = words.find((word) => word.kind === 'quoted');
  if (quoted) throw unexpected(quoted);
  return { localPart, domain, start: first.start, end: lastOfDomain.end, comments: [...local.comments, ...comments] };
}

/** Reads `@a,@b:` of an obsolete route (RFC 5322 §4.4), which is ignored. */
function skipRoute(scanner: Scanner): void {
  if (!isSpecial(scanner.peek(), '@') && !isSpecial(scanner.peek(), ',')) return;
  for (;;) {
    const token = scanner.take();
    if (isSpecial(token, ':')) return;
    const belongs = isSpecial(token, '@') || isSpecial(token, ',');
    if (!belongs && token.kind !== 'atom' && token.kind !== 'literal' && token.kind !== 'comment') {
      throw unexpected(token);
    }
  }
}

function mailbox(spec: AddrSpec, name: string | undefined): Mailbox {
  const { comments, ...address } = spec;
  const comment = comments.at(-1);
  const displayName = name ?? (comment ? decodeWords(unquote(comment)) : undefined);
  return { kind: 'mailbox', ...(displayName ? { displayName } : {}), ...address };
}

/** Reads what follows the words of an element: an angle-addr, or the rest of a bare address. */
function finishMailbox(scanner: Scanner, phrase: Parts): Mailbox {
  if (!isSpecial(scanner.peek(), '<')) {
    const spec = finishAddrSpec(scanner, phrase);
    if (isSpecial(scanner.peek(), '<')) {
      throw new AddressSyntaxError('a display name with "@" in it must stand in quotation marks');
    }
    return mailbox(spec, undefined);
  }
  scanner.take();
  skipRoute(scanner);
  const spec = finishAddrSpec(scanner, takeWords(scanner));
  if (!isSpecial(scanner.peek(), '>')) throw unexpected(scanner.peek());
  scanner.take();
  const after = takeWords(scanner);
  if (after.words[0]) throw unexpected(after.words[0]);
  const comments = [...phrase.comments, ...spec.comments, ...after.comments];
  return mailbox({ ...spec, comments }, phrase.words.length > 0 ? phraseText(phrase.words) : undefined);
}

/** Reads mailboxes up to the end of the list, or of the group; `open` gets a group's name and reads its members. */
function readElements(scanner: Scanner, open: ((name: string) => void) | undefined, add: (box: Mailbox) => void): void {
  for (;;) {
    const phrase = takeWords(scanner);
    const next = scanner.peek();
    const empty = phrase.words.length === 0;
    if (open && !empty && isSpecial(next, ':')) {
      scanner.take();
      open(phraseText(phrase.words));
    } else if (!empty || isSpecial(next, '<')) {
      add(finishMailbox(scanner, phrase));
    }
    // RFC 5322 §4.4: elements of a list may be empty.
    if (!isSpecial(scanner.peek(), ',')) return;
    scanner.take();
  }
}

function readList(text: string): (Mailbox | Group)[] {
  const scanner = new Scanner(text);
  const addresses: (Mailbox | Group)[] = [];
  const openGroup = (displayName: string): void => {
    const members: Mailbox[] = [];
    readElements(scanner, undefined, (box) => members.push(box));
    // The end of the text closes a group too: `undisclosed-recipients:` is sent by many.
    if (isSpecial(scanner.peek(), ';')) scanner.take();
    const stray = takeWords(scanner).words[0];
    if (stray) throw unexpected(stray);
    addresses.push({ kind: 'group', displayName, members });
  };
  readElements(scanner, openGroup, (box) => addresses.push(box));
  if (scanner.peek().kind !== 'end') throw unexpected(scanner.peek());
  return addresses;
}

/**
 * Reads an address list: comments, quoted strings, groups, empty elements, UTF-8, routes (ignored), addresses without a
 * domain (`root (Cron Daemon)`). Empty text is an empty list. Linear, never throws.
 * @param text unfolded or not, encoded-words not decoded
 */
export function parseAddressList(text: string): AddressList {
  try {
    return { ok: true, addresses: readList(text) };
  } catch (error) {
    if (error instanceof AddressSyntaxError) return { ok: false, reason: error.message };
    throw error;
  }
}
