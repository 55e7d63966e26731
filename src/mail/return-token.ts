// The token in a reverse-path and in CFBL-Feedback-ID: it refers to a message, and only Postern can make it (D26, D29).

import { hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import { base32 } from '../base/ids.ts';

/** What a token is for; a token of one kind is not accepted as the other. */
export type ReturnTokenKind = 'bounce' | 'feedback';

/** The tokens of one message: 52 characters of lower-case base32 each, so that `b+TOKEN` has 54 octets (D26: at most 64). */
export type MessageTokens = { readonly [Kind in ReturnTokenKind]: string };

const idOctets = 16;
const macOctets = 16;

/** HMAC-SHA256 of the id. Its first half authenticates bounces, its second half feedback: one hash gives two secrets. */
function macOf(id: Buffer, kind: ReturnTokenKind, mac: Buffer): Buffer {
  const half = kind === 'bounce' ? mac.subarray(0, macOctets) : mac.subarray(macOctets);
  return Buffer.concat([id, half]);
}

const blockOctets = 64;
const digestOctets = 32;
const prefix = Buffer.from('postern return token 1\0', 'latin1');

/** What is hashed for a token of one key, with room for the id at the end of the one and for the inner hash at that of the other. */
interface Pads {
  readonly inner: Buffer;
  readonly outer: Buffer;
}

const padsOfKeys = new WeakMap<KeyObject, Pads>();

function padsOf(key: KeyObject): Pads {
  const known = padsOfKeys.get(key);
  if (known) return known;
  const given = key.export();
  const block = Buffer.alloc(blockOctets);
  (given.length > blockOctets ? hash('sha256', given, 'buffer') : given).copy(block);
  const inner = Buffer.concat([block.map((octet) => octet ^ 0x36), prefix, Buffer.alloc(idOctets)]);
  const outer = Buffer.concat([block.map((octet) => octet ^ 0x5c), Buffer.alloc(digestOctets)]);
  const pads = { inner, outer };
  padsOfKeys.set(key, pads);
  return pads;
}

/**
 * HMAC-SHA256 (RFC 2104 §2) of the id, as two hashes at once: an object of Node's that computes it in steps costs each message more
 * than all the rest of its tokens.
 */
function hashOf(id: Buffer, key: KeyObject): Buffer {
  const { inner, outer } = padsOf(key);
  id.copy(inner, inner.length - idOctets);
  hash('sha256', inner, 'buffer').copy(outer, blockOctets);
  return hash('sha256', outer, 'buffer');
}

/**
 * Makes the tokens of a message.
 * @param id its UUID
 * @param key the platform's HMAC key
 */
export function makeTokens(id: string, key: KeyObject): MessageTokens {
  const octets = Buffer.from(id.replaceAll('-', ''), 'hex');
  if (octets.length !== idOctets) throw new Error(`Cannot make a token of id ${JSON.stringify(id)}: it is no UUID`);
  const mac = hashOf(octets, key);
  return { bounce: base32(macOf(octets, 'bounce', mac)), feedback: base32(macOf(octets, 'feedback', mac)) };
}

/**
 * Reads a token, whatever its case.
 * @returns the message's UUID; undefined when it is no token of this kind made with this key
 */
export function readToken(token: string, kind: ReturnTokenKind, key: KeyObject): string | undefined {
  const octets = decodeBase32(token);
  if (octets?.length !== idOctets + macOctets) return undefined;
  const id = octets.subarray(0, idOctets);
  if (!timingSafeEqual(octets, macOf(id, kind, hashOf(id, key)))) return undefined;
  const hex = id.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/**
 * Reads the token out of a bounce address's local part, `b+TOKEN` (D26).
 * @returns the message's UUID, or undefined
 */
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
