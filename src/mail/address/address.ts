// Addresses of header fields: mailboxes and groups of RFC 5322 §3.4 with the obsolete forms of §4.4 that mailers send.

import { decodeWords } from '../header/header-text.ts';
import { type AddressToken, contentOf, isSpecial, Scanner } from './address-scanner.ts';

/** One mailbox of an address list. */
export interface Mailbox {
  readonly kind: 'mailbox';
  /** Decoded (RFC 2047), without its quotes. Where only a comment names the person (`a@b (Jo)`), the comment's text. */
  readonly displayName?: string;
  /** As written, without comments and blanks; with its quotes where it was quoted. */
  readonly localPart: string;
  /** As written; absent where the address has none (`root`). A domain-literal keeps its brackets. */
  readonly domain?: string;
  /** The words of the display name as written, quotation marks and encoded-words included; empty where there is none. */
  readonly phrase: readonly string[];
  /** What the comments hold, in their order: quoted-pairs resolved, encoded-words not decoded. */
  readonly comments: readonly string[];
  readonly inBrackets: boolean;
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

/** The addresses in their order, or the reason why the text is no address list. */
export type AddressList =
  | { readonly ok: true; readonly addresses: readonly (Mailbox | Group)[] }
  | { readonly ok: false; readonly reason: string };

/** Where the text stops being an address list; thrown and caught in here. */
class AddressSyntaxError extends Error {}

const openers: Readonly<Record<string, string>> = { '"': 'quotation mark', '[': 'bracket', '(': 'comment' };

function unexpected(token: AddressToken): AddressSyntaxError {
  if (token.kind === 'end') return new AddressSyntaxError('the address is cut off');
  const place = `at character ${token.start + 1}`;
  if (token.kind === 'open') {
    return new AddressSyntaxError(`the ${openers[token.text.charAt(0)]} ${place} is never closed`);
  }
  const shown = token.text.length > 40 ? `${token.text.slice(0, 40)}...` : token.text;
  return new AddressSyntaxError(`unexpected ${JSON.stringify(shown)} ${place}`);
}

/** The words of a phrase as text: encoded-words decoded, one blank wherever white space stood between two words. */
function phraseText(words: readonly AddressToken[]): string {
  let text = '';
  let end = -1;
  for (const word of words) {
    text += (end >= 0 && word.start > end ? ' ' : '') + contentOf(word);
    end = word.end;
  }
  return decodeWords(text);
}

/** Joins words that must hang together by dots (RFC 5322 §4.4, obs-local-part and obs-domain). */
function joinDotted(words: readonly AddressToken[]): string {
  let before: AddressToken | undefined;
  for (const word of words) {
    const joined = !before || before.text.endsWith('.') || word.text.startsWith('.');
    if (!joined || (word.kind !== 'atom' && word.kind !== 'quoted')) throw unexpected(word);
    before = word;
  }
  return words.map(({ text }) => text).join('');
}

interface Parts {
  readonly words: readonly AddressToken[];
  readonly comments: readonly AddressToken[];
}

/** Takes words up to the next special, comments apart. */
function takeWords(scanner: Scanner): Parts {
  const words: AddressToken[] = [];
  const comments: AddressToken[] = [];
  for (;;) {
    const token = scanner.peek();
    if (token.kind === 'comment') comments.push(token);
    else if (token.kind === 'atom' || token.kind === 'quoted' || token.kind === 'literal') words.push(token);
    else if (token.kind === 'open') throw unexpected(token);
    else return { words, comments };
    scanner.take();
  }
}

type AddrSpec = Pick<Mailbox, 'localPart' | 'domain' | 'start' | 'end'> & {
  readonly comments: readonly AddressToken[];
};

function takeDomain(scanner: Scanner, at: AddressToken): Parts {
  const parts = takeWords(scanner);
  if (parts.words.length === 0) throw unexpected(scanner.peek().kind === 'end' ? at : scanner.peek());
  return parts;
}

/** Makes an addr-spec of the words before its `@` and those behind it; the latter are absent where there is no `@`. */
function addrSpec(local: Parts, domain: Parts | undefined): AddrSpec {
  const [first] = local.words;
  const last = (domain ?? local).words.at(-1);
  if (!first || !last) throw new AddressSyntaxError('the address is cut off');
  const localPart = joinDotted(local.words);
  const place = { localPart, start: first.start, end: last.end };
  if (!domain) return { ...place, comments: local.comments };
  const { words, comments } = domain;
  const name = words.length === 1 && last.kind === 'literal' ? last.text : joinDotted(words);
  const quoted = words.find((word) => word.kind === 'quoted');
  if (quoted) throw unexpected(quoted);
  return { ...place, domain: name, comments: [...local.comments, ...comments] };
}

/** Reads the rest of an addr-spec whose local part has been taken. */
function finishAddrSpec(scanner: Scanner, local: Parts): AddrSpec {
  if (local.words.length === 0) throw unexpected(scanner.peek());
  const next = scanner.peek();
  // A local part that is several words is reported before anything that stands behind it.
  if (!isSpecial(next, '@')) return addrSpec(local, undefined);
  joinDotted(local.words);
  return addrSpec(local, takeDomain(scanner, scanner.take()));
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

/** Makes a mailbox; `phrase` is absent where the address stands alone, without angle brackets. */
function mailbox(spec: AddrSpec, phrase: readonly AddressToken[] | undefined): Mailbox {
  const { localPart, domain, start, end } = spec;
  const comments = spec.comments.map(contentOf);
  const name = phrase?.length ? phraseText(phrase) : decodeWords(comments.at(-1) ?? '');
  const texts = (phrase ?? []).map(({ text }) => text);
  const box = {
    kind: 'mailbox',
    localPart,
    start,
    end,
    phrase: texts,
    comments,
    inBrackets: phrase !== undefined,
  } as const;
  const named = name ? { ...box, displayName: name } : box;
  return domain === undefined ? named : { ...named, domain };
}

/** Throws where a bracketed word of a display name is an address, or the end of one, for some reader: readers differ there. */
function refuseLiterals(words: readonly AddressToken[], isStrict: boolean): void {
  const literal = words.find(({ kind, text }) => kind === 'literal' && (isStrict || /[<>@,;:"()\\]/.test(text)));
  if (literal) throw new AddressSyntaxError('a display name with "[" in it must stand in quotation marks');
}

/** The words up to the next special, and every `@` with the words behind it: an address, or a display name with one. */
function takeAroundAts(scanner: Scanner, first: Parts): { readonly at: AddressToken; readonly parts: Parts }[] {
  const more: { at: AddressToken; parts: Parts }[] = [];
  while (isSpecial(scanner.peek(), '@')) {
    const at = scanner.take();
    more.push({ at, parts: takeWords(scanner) });
  }
  // `@route:a@b` and `@b` begin without a word; a display name never does.
  if (first.words.length === 0 && more[0]) throw unexpected(more[0].at);
  return more;
}

/** Reads what follows the words of an element: an angle-addr, or the rest of a bare address. */
function finishMailbox(scanner: Scanner, phrase: Parts, isStrict: boolean): Mailbox {
  const more = takeAroundAts(scanner, phrase);
  const next = scanner.peek();
  if (!isSpecial(next, '<')) {
    const [host, second] = more;
    if (!host) return mailbox(finishAddrSpec(scanner, phrase), undefined);
    joinDotted(phrase.words);
    if (host.parts.words.length === 0) throw unexpected(second?.at ?? (next.kind === 'end' ? host.at : next));
    const spec = addrSpec(phrase, host.parts);
    if (second) throw unexpected(second.at);
    return mailbox(spec, undefined);
  }
  scanner.take();
  skipRoute(scanner);
  const spec = finishAddrSpec(scanner, takeWords(scanner));
  if (!isSpecial(scanner.peek(), '>')) throw unexpected(scanner.peek());
  scanner.take();
  const after = takeWords(scanner);
  if (after.words[0]) throw unexpected(after.words[0]);
  // `shop@example.com <shop@example.com>`: mailers forget the quotation marks, and nothing else can be meant.
  const words = [...phrase.words, ...more.flatMap(({ at, parts }) => [at, ...parts.words])];
  refuseLiterals(words, isStrict);
  const ofPhrase = [...phrase.comments, ...more.flatMap(({ parts }) => parts.comments)];
  return mailbox({ ...spec, comments: [...ofPhrase, ...spec.comments, ...after.comments] }, words);
}

/** Reads mailboxes up to the end of the list, or of the group; `open` gets a group's name and reads its members. */
function readElements(
  scanner: Scanner,
  to: { readonly open?: (name: string) => void; readonly add: (box: Mailbox) => void; readonly isStrict: boolean },
): void {
  const { open, add, isStrict } = to;
  for (;;) {
    const phrase = takeWords(scanner);
    const next = scanner.peek();
    const empty = phrase.words.length === 0;
    if (open && !empty && isSpecial(next, ':')) {
      scanner.take();
      open(phraseText(phrase.words));
    } else if (!empty || isSpecial(next, '<')) {
      add(finishMailbox(scanner, phrase, isStrict));
    }
    // RFC 5322 §4.4: elements of a list may be empty.
    if (!isSpecial(scanner.peek(), ',')) return;
    scanner.take();
  }
}

function readList(text: string, isStrict: boolean): (Mailbox | Group)[] {
  const scanner = new Scanner(text);
  const addresses: (Mailbox | Group)[] = [];
  const openGroup = (displayName: string): void => {
    const members: Mailbox[] = [];
    readElements(scanner, { add: (box) => members.push(box), isStrict });
    // The end of the text closes a group too: `undisclosed-recipients:` is sent by many.
    if (isSpecial(scanner.peek(), ';')) scanner.take();
    const stray = takeWords(scanner).words[0];
    if (stray) throw unexpected(stray);
    addresses.push({ kind: 'group', displayName, members });
  };
  readElements(scanner, { open: openGroup, add: (box) => addresses.push(box), isStrict });
  if (scanner.peek().kind !== 'end') throw unexpected(scanner.peek());
  return addresses;
}

/**
 * Reads an address list: comments, quoted strings, groups, empty elements, UTF-8, routes (ignored), addresses without a
 * domain (`root (Cron Daemon)`). Empty text is an empty list. Linear, never throws.
 * @param text unfolded or not, encoded-words not decoded
 * @param options `strict`: no word of a display name may stand in brackets (`[Desk] <a@b>`), for From (D4b)
 */
export function parseAddressList(text: string, options: { readonly strict?: boolean } = {}): AddressList {
  try {
    return { ok: true, addresses: readList(text, options.strict === true) };
  } catch (error) {
    if (error instanceof AddressSyntaxError) return { ok: false, reason: error.message };
    throw error;
  }
}
