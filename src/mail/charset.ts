// Character sets of mail: from octets to text, by whichever library knows the charset's name (D13).

import { isAscii, isUtf8 } from 'node:buffer';
import { createRequire } from 'node:module';
import type Japanese from 'encoding-japanese';
import iconv from 'iconv-lite';

const require = createRequire(import.meta.url);

/** Turns octets into text; octets that are wrong for the charset become U+FFFD, nothing is thrown. */
export type CharsetDecoder = (bytes: Buffer) => string;

// iconv-lite answers to these, but they are encodings of octets, not charsets.
const notCharsets = new Set(['hex', 'base64', 'binary', 'internal']);

// What only encoding-japanese knows: the relatives of iso-2022-jp that other libraries have no name for.
const japaneseNames = /^(?:x-|cs)?(?:iso-?2022-?jp(?:-?(?:[123]|ms|ext|2004))?|cp5022[0-2]|jis)$/;

// A name is at most this long (RFC 2978 §2.3: 40 characters); the cache holds at most so many names.
const MAX_NAME_LENGTH = 40;
const MAX_CACHED_NAMES = 256;

const decoders = new Map<string, CharsetDecoder | undefined>([
  ['utf-8', (bytes) => bytes.toString('utf8')],
  ['utf8', (bytes) => bytes.toString('utf8')],
]);

function iconvDecoder(name: string): CharsetDecoder | undefined {
  if (notCharsets.has(name.replace(/[^a-z0-9]/g, '')) || !iconv.encodingExists(name)) return undefined;
  return (bytes) => iconv.decode(bytes, name);
}

// TextDecoder calls two escape sequences without a character between them an error; encoded-words side by side have just
// that, since each must begin and end in ASCII (RFC 1468, RFC 2047 §3).
const idleEscapes = /(?:\x1b[$(][@BIJ])+(?=\x1b[$(][@BIJ])/g;

function dropIdleEscapes(bytes: Buffer): Buffer {
  return Buffer.from(bytes.toString('latin1').replace(idleEscapes, ''), 'latin1');
}

function platformDecoder(name: string): CharsetDecoder | undefined {
  try {
    // A decoder kept from call to call would be shared state; making one costs microseconds.
    const label = new TextDecoder(name).encoding;
    return (bytes) => new TextDecoder(label).decode(label === 'iso-2022-jp' ? dropIdleEscapes(bytes) : bytes);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function japaneseDecoder(name: string): CharsetDecoder | undefined {
  if (!japaneseNames.test(name)) return undefined;
  return (bytes) => {
    // Loaded at first use: its tables are large and this mail is rare.
    const japanese: typeof Japanese = require('encoding-japanese');
    return japanese.convert(bytes, { to: 'UNICODE', from: 'JIS', type: 'string' });
  };
}

/**
 * Finds the decoder of a charset: iconv-lite, else the platform's TextDecoder, else encoding-japanese (D13).
 * @param charset its name in any case
 * @returns undefined when nobody knows it
 */
export function charsetDecoder(charset: string): CharsetDecoder | undefined {
  const name = charset.toLowerCase();
  if (decoders.has(name)) return decoders.get(name);
  if (name.length === 0 || name.length > MAX_NAME_LENGTH) return undefined;
  const decoder = iconvDecoder(name) ?? platformDecoder(name) ?? japaneseDecoder(name);
  // Names come from strangers: the cache must not grow with them.
  if (decoders.size < MAX_CACHED_NAMES) decoders.set(name, decoder);
  return decoder;
}

/**
 * Reads raw octets of a header as text: UTF-8 where valid, else the legacy charset, else one character an octet (D13).
 * @param bytes any octets
 * @param legacyCharset an iconv-lite name
 */
export function decodeRaw(bytes: Buffer, legacyCharset: string): string {
  if (isAscii(bytes)) return bytes.toString('latin1');
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const decoder = charsetDecoder(legacyCharset);
  return decoder ? decoder(bytes) : bytes.toString('latin1');
}
