// Identifiers: UUIDv7 (RFC 9562 §5.7) for messages, short hex for sessions and HTTP responses, lower-case base32.

import { randomBytes, randomFillSync } from 'node:crypto';

// Random octets are taken from the system for many ids at once: a system call for each would cost more than all the rest.
const pool = Buffer.allocUnsafe(4096);
let poolOffset = pool.length;

/** Takes so many octets of the pool that no other id gets. @returns where in the pool they begin */
function drawRandom(length: number): number {
  if (poolOffset + length > pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  poolOffset += length;
  return poolOffset - length;
}

/** Makes a UUIDv7 (RFC 9562 §5.7), 36 characters in lower case, of 48 bits of time and 74 random ones. @param nowMs milliseconds since 1970 */
export function uuidv7(nowMs: number): string {
  const time = nowMs.toString(16).padStart(12, '0');
  const at = drawRandom(10);
  const random = pool.subarray(at, at + 10);
  random[0] = 0x70 | ((random[0] ?? 0) & 0x0f);
  random[2] = 0x80 | ((random[2] ?? 0) & 0x3f);
  const hex = random.toString('hex');
  return `${time.slice(0, 8)}-${time.slice(8)}-${hex.slice(0, 4)}-${hex.slice(4, 8)}-${hex.slice(8)}`;
}

/** Makes a random id of lower-case hex; `bytes` is its length in octets (two characters each). */
export function randomHex(bytes: number): string {
  const at = drawRandom(bytes);
  return pool.toString('hex', at, at + bytes);
}

/** Makes a secret of 256 random bits, 43 characters of base64url, straight from the system (D92). */
export function randomSecret(): string {
  return randomBytes(32).toString('base64url');
}

const base32Alphabet = Buffer.from('abcdefghijklmnopqrstuvwxyz234567', 'latin1');

/** Writes octets as lower-case base32 without padding (RFC 4648 §6, in lower case: D26 compares without case). */
export function base32(bytes: Uint8Array): string {
  // Written as octets first: a text that grows by single characters leaves one object behind for each.
  const text = Buffer.allocUnsafe(Math.ceil((bytes.length * 8) / 5));
  let at = 0;
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xffff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text[at++] = base32Alphabet[(value >> bits) & 31] ?? 0;
    }
  }
  if (bits > 0) text[at] = base32Alphabet[(value << (5 - bits)) & 31] ?? 0;
  return text.toString('latin1');
}
