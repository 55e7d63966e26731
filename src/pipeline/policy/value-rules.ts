// Rules for a header's name and value: name syntax (D10), forbidden characters (D11), lengths (D6), enumerations (D8),
// List-Unsubscribe (D9). Only what the specification forbids is refused (D14).

import { escapeCharacters } from '../../base/escape-text.ts';
import { uriFault } from '../../mail/address/domain.ts';
import { trimBlanks } from '../../mail/header/header-text.ts';
import { skipComments } from '../../mail/header/quoted-text.ts';
import type { HeaderRow, ValueRule } from './header-catalogue.ts';
import { tellingWords } from './rejections.ts';

/** Limits of the specification; a value exactly at a limit is accepted (D6). Bytes are bytes of UTF-8. */
export const headerLimits = {
  nameBytes: 100,
  valueBytes: 2048,
  /** Allowlisted headers, X- headers not counted. */
  allowlisted: 20,
  /** Sum of len(name) + 2 + len(value) + 2 over all custom headers. */
  totalBytes: 16_384,
} as const;

const MAX_QUOTED_CHARACTERS = 60;
const unprintable = /[\x00-\x1f\x7f-\x9f\u2028\u2029]/g;

/** Shows a name or value inside a message: cut at 60 characters, control characters escaped. */
export function shown(text: string): string {
  const cut = text.length > MAX_QUOTED_CHARACTERS ? `${text.slice(0, MAX_QUOTED_CHARACTERS)}...` : text;
  return escapeCharacters(cut.toWellFormed(), unprintable);
}

const plainName = /^[A-Za-z0-9-]+$/;
const extensionName = /^[Xx]-[A-Za-z0-9_-]+$/;

// U+FEFF: as UTF-8 octets with one character each, the form of names by SMTP; and as one character, the form in JSON.
const byteOrderMark = /^(?:\xef\xbb\xbf|\ufeff)/;

/** Says that a name begins with a byte-order mark, which editors put before the first header invisibly; else undefined. */
export function byteOrderMarkFault(name: string): string | undefined {
  if (!byteOrderMark.test(name)) return undefined;
  const rest = shown(name.replace(byteOrderMark, ''));
  return `A byte-order mark (U+FEFF, the octets EF BB BF) stands before "${rest}": save the message without one`;
}

/** Says what is wrong with the syntax of a name, or undefined (D10). */
export function nameFault(name: string): string | undefined {
  if (name === '') return 'A header name is empty';
  const mark = byteOrderMarkFault(name);
  if (mark !== undefined) return mark;
  const isExtension = /^[Xx]-/.test(name);
  if (!(isExtension ? extensionName : plainName).test(name)) {
    const allowed = isExtension ? 'letters, digits, hyphens and underscores behind X-' : 'letters, digits and hyphens';
    return `The header name "${shown(name)}"${tellingWords.mayHoldOnly}${allowed}`;
  }
  return name.length > headerLimits.nameBytes
    ? `The header name "${shown(name)}" has ${name.length} bytes, at most ${headerLimits.nameBytes} are allowed`
    : undefined;
}

// CR, LF, NUL, every C0 control but TAB, and DEL (D11).
const forbidden = /[\x00-\x08\x0a-\x1f\x7f]/;

const forbiddenNames: Record<number, string> = { 0: 'NUL', 10: 'a bare LF', 13: 'a bare CR', 127: 'DEL' };

/** Says which forbidden character (D11) an unfolded text holds; undefined if none. */
export function forbiddenCharacter(text: string): string | undefined {
  const at = text.search(forbidden);
  if (at < 0) return undefined;
  const code = text.charCodeAt(at);
  return forbiddenNames[code] ?? `the control character 0x${code.toString(16).padStart(2, '0')}`;
}

function isOneAddress(afterScheme: string): boolean {
  const address = afterScheme.split(/[?#]/, 1)[0] ?? '';
  const at = address.indexOf('@');
  return at > 0 && at < address.length - 1 && address.indexOf('@', at + 1) < 0;
}

type UnsubscribeVerdict = { readonly https: boolean; readonly reason?: string };

/** Octets of a URI that a line certainly holds. */
const longestUri = 900;

function judgeUri(inBrackets: string): UnsubscribeVerdict {
  // RFC 2369 §2: folds have to stand inside a URI that no line holds (D12), and readers ignore what they leave.
  const uri = inBrackets.length > longestUri ? inBrackets.replace(/[ \t]+/g, '') : inBrackets;
  const scheme = /^[A-Za-z][A-Za-z0-9+.-]*(?=:)/.exec(uri)?.[0].toLowerCase();
  const refused = (reason: string) => ({ https: false, reason: `${reason} <${shown(uri)}>` });
  if (scheme !== 'https' && scheme !== 'mailto') return refused('may hold only <https://...> and <mailto:...>; got');
  if (scheme === 'mailto' && !isOneAddress(uri.slice('mailto:'.length)))
    return refused('needs one address with one "@" in');
  const fault = uriFault(uri);
  return fault === undefined ? { https: scheme === 'https' } : refused(fault);
}

/**
 * Judges List-Unsubscribe (D9): `<https://host...>` and `<mailto:address>` with commas, comments and blanks between. Linear.
 * @returns whether it holds an https URI with a host, though other parts may be wrong; what is wrong, to stand behind the header's name
 */
export function parseUnsubscribe(value: string): UnsubscribeVerdict {
  const shape = 'must be <https://...> and <mailto:...> URIs in angle brackets, separated by commas';
  let https = false;
  let reason: string | undefined;
  for (let at = 0; ; at += 1) {
    const open = skipComments(value, at);
    if (value[open] !== '<') return { https, reason: reason ?? `${shape}; got "${shown(value)}"` };
    const close = value.indexOf('>', open);
    const inBrackets = value.slice(open + 1, close);
    if (close < 0 || inBrackets.includes('<')) return { https, reason: reason ?? `${shape}; got "${shown(value)}"` };
    const uri = judgeUri(inBrackets);
    https ||= uri.https;
    reason ??= uri.reason;
    at = skipComments(value, close + 1);
    if (at === value.length) return reason === undefined ? { https } : { https, reason };
    if (value[at] !== ',') return { https, reason: reason ?? `${shape}; got "${shown(value)}"` };
  }
}

/** Removes comments and the blanks around them; where a comment is never closed, only the blanks. */
function withoutComments(text: string): string {
  const pieces: string[] = [];
  let at = skipComments(text, 0);
  while (at >= 0 && at < text.length) {
    const open = text.indexOf('(', at);
    const end = open < 0 ? text.length : open;
    pieces.push(trimBlanks(text.slice(at, end)));
    at = skipComments(text, end);
  }
  return at < 0 ? ' ' : pieces.join(' ');
}

function findValue(values: readonly string[], text: string): string | undefined {
  const lower = asciiLower(text);
  return values.find((value) => value.toLowerCase() === lower);
}

/** The verdict on a value: what is wrong, or the text to write in place of the given one. */
export interface ValueVerdict {
  readonly reason?: string;
  /** Enumerations in the catalogue's spelling (D8); List-Unsubscribe decoded, where readers find its URIs only so (D9). */
  readonly canonical?: string;
}

/** Compares without the case of ASCII letters only: the Kelvin sign is no k (D8, D10). */
export function asciiLower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Finds a forbidden URI before decoding, which could move brackets into a comment that readers do not decode (RFC 2047 §5). */
function hiddenUri(given: string): string | undefined {
  for (let at = 0; ; ) {
    const open = skipToBracket(given, at);
    const close = open < 0 ? -1 : given.indexOf('>', open);
    if (close < 0) return undefined;
    const inBrackets = given.slice(open + 1, close);
    const { reason } = judgeUri(inBrackets);
    if (reason !== undefined && /^[ \t]*[A-Za-z][A-Za-z0-9+.-]*:/.test(inBrackets)) return reason;
    at = close + 1;
  }
}

/** The offset of the next `<` outside comments, or -1. */
function skipToBracket(text: string, from: number): number {
  for (let at = skipComments(text, from); at >= 0 && at < text.length; at = skipComments(text, at + 1)) {
    if (text[at] === '<') return at;
  }
  return -1;
}

type OneOf = Extract<ValueRule, { readonly kind: 'one-of' }>;

function judgeOneOf({ values, comments }: OneOf, decoded: string, given: string): ValueVerdict {
  const canonical = findValue(values, decoded);
  if (canonical !== undefined) return { canonical };
  // RFC 3834 §5: comments leave as given. The given text must hold a value too: readers decode nothing in a structured field.
  if (comments && findValue(values, withoutComments(decoded)) && findValue(values, withoutComments(given))) return {};
  return { reason: `must be one of ${values.join(', ')}; got "${shown(decoded)}"` };
}

function judgeUnsubscribe(decoded: string, given: string): ValueVerdict {
  const { https, reason } = parseUnsubscribe(decoded);
  if (given === decoded || reason !== undefined) return reason === undefined ? {} : { reason };
  const hidden = hiddenUri(given);
  if (hidden !== undefined) return { reason: hidden };
  // RFC 2047 §5: readers decode nothing here but comments, so URIs that only decoding shows are written decoded.
  const seen = parseUnsubscribe(given);
  return seen.reason === undefined && seen.https === https ? {} : { canonical: decoded };
}

/** Judges a value by its header's rule. @param decoded (D13) and trimmed @param given the text before decoding */
export function judgeValue(row: HeaderRow, decoded: string, given = decoded): ValueVerdict {
  const rule = row.value;
  switch (rule.kind) {
    case 'free':
      return {};
    case 'exactly':
      if (decoded === rule.value) return { canonical: decoded };
      return { reason: `must be exactly "${rule.value}"; got "${shown(decoded)}"` };
    case 'one-of':
      return judgeOneOf(rule, decoded, given);
    case 'unsubscribe-uris':
      return judgeUnsubscribe(decoded, given);
    default:
      return rule satisfies never;
  }
}
