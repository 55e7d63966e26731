// The token in a reverse-path and in CFBL-Feedback-ID: it refers to a message, and only Postern can make it (D26, D29).

import { type KeyObject, timingSafeEqual } from 'node:crypto';
import { hmacOf, hmacPads } from '../base/hmac.ts';
import { base32 } from '../base/ids.ts';
import { oncePer } from '../base/once-per.ts';

/** What a token is for; a token of one kind is not accepted as the other. */
export type ReturnTokenKind = 'bounce' | 'feedback';

const idOctets = 16;
const macOctets = 16;

/** HMAC-SHA256 of the id. Its first half authenticates bounces, its second half feedback: one hash gives two secrets. */
function macOf(id: Buffer, kind: ReturnTokenKind, mac: Buffer): Buffer {
  const half = kind === 'bounce' ? mac.subarray(0, macOctets) : mac.subarray(macOctets);
  return Buffer.concat([id, half]);
}

const prefix = Buffer.from('postern return token 1\0', 'latin1');

/** The pads of keys; the inner one has what every token begins with behind it, and room for the id. */
const padsOf = oncePer((key: KeyObject) => {
  const { inner, outer } = hmacPads(key.export());
  return { inner: Buffer.concat([inner, prefix, Buffer.alloc(idOctets)]), outer };
});

function hashOf(id: Buffer, key: KeyObject): Buffer {
  const { inner, outer } = padsOf(key);
  id.copy(inner, inner.length - idOctets);
  return hmacOf(inner, outer);
}

/**
 * Makes the tokens of a message: 52 characters of lower-case base32 each, so that `b+TOKEN` has 54 octets (D26: at most 64).
 * @param id its UUID @param key the platform's HMAC key
 */
export function makeTokens(id: string, key: KeyObject): Readonly<Record<ReturnTokenKind, string>> {
  const octets = Buffer.from(id.replaceAll('-', ''), 'hex');
  if (octets.length !== idOctets) throw new Error(`Cannot make a token of id ${JSON.stringify(id)}: it is no UUID`);
  const mac = hashOf(octets, key);
  return { bounce: base32(macOf(octets, 'bounce', mac)), feedback: base32(macOf(octets, 'feedback', mac)) };
}

/** Reads a token, whatever its case. @returns the message's UUID; undefined when it is no token of this kind made with this key */
export function readToken(token: string, kind: ReturnTokenKind, key: KeyObject): string | undefined {
  const octets = decodeBase32(token);
  if (octets?.length !== idOctets + macOctets) return undefined;
  const id = octets.subarray(0, idOctets);
  if (!timingSafeEqual(octets, macOf(id, kind, hashOf(id, key)))) return undefined;
  const hex = id.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** Reads the token out of a bounce address's local part, `b+TOKEN` (D26). @returns the message's UUID, or undefined */
export function readBounceLocalPart(localPart: string, key: KeyObject): string | undefined {
  return /^b\+/i.test(localPart) ? readToken(localPart.slice(2), 'bounce', key) : undefined;
}

/** Undoes `base32`; undefined for a character outside its alphabet, a length it never has, or spare bits that are set. */
function decodeBase32(text: string): Buffer | undefined {
  if (text.length !== Math.ceil(((idOctets + macOctets) * 8) / 5)) return undefined;
  const octets: number[] = [];
  let bits = 0;
  let value = 0;
  for (const character of text.toLowerCase()) {
    const digit = 'abcdefghijklmnopqrstuvwxyz234567'.indexOf(character);
    if (digit < 0) return undefined;
    value = ((value << 5) | digit) & 0xfff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      octets.push((value >> bits) & 0xff);
    }
  }
  return (value & ((1 << bits) - 1)) === 0 ? Buffer.from(octets) : undefined;
}
