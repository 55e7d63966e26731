// The forms of Unicode besides UTF-8 as octets: UTF-16, UTF-32 and UTF-7 (RFC 2152; RFC 3501 §5.1.3), each read as iconv-lite reads it.

import { Octets } from './octets.ts';

const invalid = 0xfffd;

/** Reads UTF-16, little-endian; a lone surrogate stays one, and an odd octet at the end is passed over. */
export function utf16le(octets: Octets): string {
  return octets.subarray(0, octets.length - (octets.length % 2)).toString('ucs2');
}

/** Reads UTF-16, big-endian, as `utf16le` does. */
export function utf16be(octets: Octets): string {
  const pairs = Octets.from(octets.subarray(0, octets.length - (octets.length % 2)));
  for (let at = 0; at < pairs.length; at += 2) pairs.set([pairs[at + 1] ?? 0, pairs[at] ?? 0], at);
  return pairs.toString('ucs2');
}

/** The text without a byte-order mark at its beginning. */
export function withoutMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}

/** Whether UTF-16 is big-endian: by its mark, or because characters of ASCII have their zero octet first. */
export function isUtf16BigEndian(octets: Octets): boolean {
  if (octets[0] === 0xff && octets[1] === 0xfe) return false;
  if (octets[0] === 0xfe && octets[1] === 0xff) return true;
  let balance = 0;
  for (let at = 0; at + 1 < Math.min(octets.length, 200); at += 2) {
    if (octets[at] === 0 && octets[at + 1] !== 0) balance += 1;
    if (octets[at] !== 0 && octets[at + 1] === 0) balance -= 1;
  }
  return balance > 0;
}

/** The four octets at a place, the most significant first. */
function quad(octets: Octets, at: number, isBigEndian: boolean): readonly [number, number, number, number] {
  const [a = 0, b = 0, c = 0, d = 0] = octets.subarray(at, at + 4);
  return isBigEndian ? [a, b, c, d] : [d, c, b, a];
}

/** How well octets would do as UTF-32: characters of the first plane, less what is no character. */
function likeness(octets: Octets, isBigEndian: boolean): number {
  let score = 0;
  for (let at = 0; at + 3 < Math.min(octets.length, 400); at += 4) {
    const [top, plane, high, low] = quad(octets, at, isBigEndian);
    if (top !== 0 || plane > 0x10) score -= 1;
    if (top === 0 && plane === 0 && (high !== 0 || low !== 0)) score += 1;
  }
  return score;
}

/** Whether UTF-32 is big-endian: by its mark, or by what the octets look like. */
export function isUtf32BigEndian(octets: Octets): boolean {
  const mark = octets.subarray(0, 4).join();
  if (mark === '255,254,0,0') return false;
  return mark === '0,0,254,255' || likeness(octets, true) > likeness(octets, false);
}

/** Reads UTF-32; what is no character becomes U+FFFD. */
export function utf32(octets: Octets, isBigEndian: boolean): string {
  let text = '';
  for (let at = 0; at + 3 < octets.length; at += 4) {
    const [top, plane, high, low] = quad(octets, at, isBigEndian);
    const code = top === 0 ? (plane << 16) | (high << 8) | low : invalid;
    text += String.fromCodePoint(code > 0x10ffff ? invalid : code);
  }
  return octets.length % 4 === 0 ? text : text + String.fromCharCode(invalid);
}

const shifts = { mail: /\+([A-Za-z0-9/+]*)(-?)/g, imap: /&([A-Za-z0-9/+,]*)(-?)/g } as const;

/** Reads UTF-7: runs of base64 between `+`, or `&` in the form of IMAP, and `-`. Octets over 127 become U+FFFD. */
export function utf7(octets: Octets, form: 'mail' | 'imap'): string {
  const text = octets.toString('latin1').replace(/[\x80-\xff]/g, '\ufffd');
  return text.replace(shifts[form], (_, run: string, end: string) => {
    if (run === '') return end === '' ? '' : form === 'mail' ? '+' : '&';
    return withoutMark(utf16be(Octets.from(run.replaceAll(',', '/'), 'base64')));
  });
}
