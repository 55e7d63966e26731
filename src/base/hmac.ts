// HMAC-SHA256 (RFC 2104 §2) as two hashes at once: an object of Node's that computes it in steps costs more than the hashes do.

import { hash } from 'node:crypto';

const blockOctets = 64;
const digestOctets = 32;

/** Makes what is hashed for one key: before what is signed, and before the inner hash, which has its room at the end. */
export function hmacPads(key: Buffer) {
  const block = Buffer.alloc(blockOctets);
  (key.length > blockOctets ? hash('sha256', key, 'buffer') : key).copy(block);
  const outer = Buffer.concat([block.map((octet) => octet ^ 0x5c), Buffer.alloc(digestOctets)]);
  return { inner: Buffer.from(block.map((octet) => octet ^ 0x36)), outer };
}

/** Signs. @param inner the pad of the key with what is signed behind it. @param outer the pad of the key */
export function hmacOf(inner: Buffer, outer: Buffer): Buffer {
  hash('sha256', inner, 'buffer').copy(outer, blockOctets);
  return hash('sha256', outer, 'buffer');
}
