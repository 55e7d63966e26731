// Writes a mailbox anew in the one form that all readers understand alike (RFC 5322 §3.4): they must see the judged From (D4b).

import { encodedWords, hasNonAscii } from '../header/encoded-word.ts';
import { decodeWords } from '../header/header-text.ts';
import { atext, quotedString, withoutQuotedPairs } from '../header/quoted-text.ts';
import type { Mailbox } from './address.ts';
import { asciiDomain } from './domain.ts';

/** A mailbox as the text of a field, or why it cannot be written so that every reader sees the same. */
export type WrittenMailbox =
  | {
      readonly ok: true;
      readonly text: string;
      readonly localPart: string;
      /** An A-label in lower case, or an address literal as given. */
      readonly domain: string;
    }
  | { readonly ok: false; readonly reason: string };

/** RFC 5321 §4.5.3.1.3: a path has at most 256 octets, its brackets included. */
const maxAddressOctets = 254;

/** A word longer than this cannot stay in one piece (D12). */
const longestWord = 900;

/** Atext (RFC 5322 §3.2.3) and all non-ASCII characters, which are encoded when the field is written (D13). */
const atom = new RegExp(`^(?:[${atext}]|[^\\x00-\\x7f])+$`);
/** Atext, dots, and the letters, marks, digits and symbols of RFC 6532 §3.2, without blanks and invisible characters. */
const plainLocalPart = new RegExp(`^[${atext}.\\p{L}\\p{M}\\p{N}\\p{S}\\p{P}]+$`, 'u');
/** What may stand in a quoted local part: nothing that divides addresses for some reader, and no blank that some drop. */
const quotedLocalPart = new RegExp(`^[${atext}.\\p{L}\\p{M}\\p{N}]+(?: [${atext}.\\p{L}\\p{M}\\p{N}]+)*$`, 'u');
const dividing = /[\x00-\x20"(),:;<>@[\\\]\x7f]/;
/** RFC 2047 §5 (3): an encoded-word that may stand in a phrase or comment as it is; §2: at most 75 characters. */
const strictWord = /^=\?[A-Za-z0-9][A-Za-z0-9._:+*-]*\?(?:[Qq]\?[A-Za-z0-9!*+\-/=_]*|[Bb]\?[A-Za-z0-9+/]*={0,2})\?=$/;

function isStrictWord(word: string): boolean {
  return word.length <= 75 && strictWord.test(word);
}

/** Tells whether a word means the same with and without decoding of encoded-words, or is a valid encoded-word. */
function staysAtom(word: string): boolean {
  return word.length <= longestWord && atom.test(word) && (!word.includes('=?') || isStrictWord(word));
}

function isPlainAscii(text: string): boolean {
  return /^[\t -~]*$/.test(text) && !text.includes('=?') && text.length <= longestWord;
}

/** Writes a display name: words as given where all readers agree on them, else quoted, else encoded. */
function writePhrase(box: Mailbox, used: number): string {
  if (box.phrase.every(staysAtom)) return box.phrase.join(' ');
  const name = box.displayName ?? '';
  if (!isPlainAscii(name)) return encodedWords(name, { place: 'phrase', used });
  return quotedString(name);
}

const plainInComment = new RegExp(`^[${atext}.]+$`);

/** Writes a comment. All but words and dots are encoded: readers differ about parentheses and commas inside (§3.2.2). */
function writeComment(content: string): string {
  const words = content.split(/[ \t]+/).filter((word) => word !== '');
  const isPlain = words.every(
    (word) => word.length <= longestWord && plainInComment.test(word) && (!word.includes('=?') || isStrictWord(word)),
  );
  if (isPlain) return `(${words.join(' ')})`;
  return `(${encodedWords(decodeWords(content), { place: 'phrase' })})`;
}

/** Gives the local part to write, without needless quotes; undefined where readers would not agree on it. */
function writeLocalPart(given: string): string | undefined {
  const isQuoted = given.startsWith('"') && given.endsWith('"') && given.length > 1;
  const content = isQuoted ? withoutQuotedPairs(given.slice(1, -1)) : given;
  // Some readers decode encoded-words in a local part although RFC 2047 §5 forbids it: they would see another mailbox.
  if (content.includes('=?') || !content.isWellFormed() || /^\.*$/.test(content)) return undefined;
  // Some readers map look-alikes of other scripts to ASCII first.
  if (plainLocalPart.test(content) && !dividing.test(content.normalize('NFKC'))) return content;
  return isQuoted && quotedLocalPart.test(content) ? `"${content}"` : undefined;
}

/**
 * Writes a mailbox: display name, address in brackets, comments behind it; an address that stood alone stands alone.
 * @param box as read; its domain completed where it had none
 * @param used octets before it on its line
 * @returns `text`: ASCII except for atoms of the display name and a local part; `reason`: words to put behind "From"
 */
export function writeMailbox(box: Mailbox & { readonly domain: string }, used: number): WrittenMailbox {
  const localPart = writeLocalPart(box.localPart);
  const domain = box.domain.startsWith('[') ? box.domain : asciiDomain(box.domain);
  if (localPart === undefined) return { ok: false, reason: 'has a local part that mail readers disagree about' };
  if (domain === undefined) return { ok: false, reason: 'has a domain that is no domain name' };
  // Keep the letters as given where they are ASCII: a domain has no case (RFC 5321 §2.4).
  const address = `${localPart}@${hasNonAscii(box.domain) ? domain : box.domain}`;
  if (Buffer.byteLength(address) > maxAddressOctets) {
    return { ok: false, reason: `has an address of over ${maxAddressOctets} octets` };
  }
  const name = box.phrase.length === 0 ? '' : `${writePhrase(box, used)} `;
  const comments = box.comments.map((comment) => ` ${writeComment(comment)}`).join('');
  return { ok: true, text: `${name}${box.inBrackets ? `<${address}>` : address}${comments}`, localPart, domain };
}
