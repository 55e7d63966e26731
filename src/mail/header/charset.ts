// Character sets of mail: turns octets into text, with whichever library knows the charset's name (D13).

import { isAscii, isUtf8 } from 'node:buffer';
import { createRequire } from 'node:module';
import type Japanese from 'encoding-japanese';
import iconv from 'iconv-lite';

const require = createRequire(import.meta.url);

/** Turns octets into text; octets that are wrong for the charset become U+FFFD, nothing is thrown. */
export type CharsetDecoder = (bytes: Buffer) => string;

// iconv-lite accepts these names too, but they are encodings of octets, not charsets.
const notCharsets = new Set(['hex', 'base64', 'binary', 'internal']);

// Names that only encoding-japanese knows: relatives of iso-2022-jp.
const japaneseNames = /^(?:x-|cs)?(?:iso-?2022-?jp(?:-?(?:[123]|ms|ext|2004))?|cp5022[0-2]|jis)$/;

// A name is at most this long (RFC 2978 §2.3: 40 characters); MAX_CACHED_NAMES bounds the cache.
const MAX_NAME_LENGTH = 40;
const MAX_CACHED_NAMES = 256;

const decoders = new Map<string, CharsetDecoder | undefined>([
  ['utf-8', (bytes) => bytes.toString('utf8')],
  ['utf8', (bytes) => bytes.toString('utf8')],
]);

/** Finds iconv-lite's decoder by its own reading of a name; `encodingExists` would throw and catch for each unknown name. */
function iconvDecoder(name: string): CharsetDecoder | undefined {
  const key = name.replace(/:\d{4}$|[^0-9a-z]/g, '');
  if (notCharsets.has(key)) return undefined;
  // Looking up one charset loads the list of all charsets; the table of each is loaded at its first use.
  if (!iconv.encodings) iconv.getCodec('utf8');
  return iconv.encodings && key in iconv.encodings ? (bytes) => iconv.decode(bytes, name) : undefined;
}

// TextDecoder reports two escapes without a character between as an error, which adjacent encoded-words have (RFC 2047 §3).
const idleEscapes = /(?:\x1b[$(][@BIJ])+(?=\x1b[$(][@BIJ])/g;

function dropIdleEscapes(bytes: Buffer): Buffer {
  return Buffer.from(bytes.toString('latin1').replace(idleEscapes, ''), 'latin1');
}

// The labels of the Encoding Standard that TextDecoder knows and iconv-lite does not. They are written out because
// TextDecoder can only be asked by catching its exception, and a message may name thousands of made-up charsets.
const platformLabels = new Set(
  (
    'iso-2022-jp csiso2022jp x-euc-jp cseucpkdfmtjapanese x-mac-roman x-mac-cyrillic x-mac-ukrainian dos-874 koi koi8 ' +
    'x-cp1250 x-cp1251 x-cp1252 x-cp1253 x-cp1254 x-cp1255 x-cp1256 x-cp1257 x-cp1258 csisolatin9 sun_eu_greek ' +
    'iso-8859-6-e iso-8859-6-i csiso88596e csiso88596i csiso88598e csiso88598i visual logical ' +
    'unicode csunicode unicodefeff unicodefffe iso-10646-ucs-2 unicode20utf8 x-unicode20utf8 x-user-defined'
  ).split(' '),
);

function platformDecoder(name: string): CharsetDecoder | undefined {
  if (!platformLabels.has(name)) return undefined;
  const isStateful = new TextDecoder(name).encoding === 'iso-2022-jp';
  // A decoder kept from call to call would be shared state; making one costs microseconds.
  return (bytes) => new TextDecoder(name).decode(isStateful ? dropIdleEscapes(bytes) : bytes);
}

function japaneseDecoder(name: string): CharsetDecoder | undefined {
  if (!japaneseNames.test(name)) return undefined;
  return (bytes) => {
    // Loaded at first use: its tables are large and this mail is rare.
    const japanese: typeof Japanese = require('encoding-japanese');
    return japanese.convert(bytes, { to: 'UNICODE', from: 'JIS', type: 'string' });
  };
}

/** Finds the decoder of a charset in iconv-lite, TextDecoder or encoding-japanese (D13); undefined where none knows its name. */
export function charsetDecoder(charset: string): CharsetDecoder | undefined {
  const name = charset.toLowerCase();
  if (decoders.has(name)) return decoders.get(name);
  if (name.length === 0 || name.length > MAX_NAME_LENGTH) return undefined;
  const decoder = iconvDecoder(name) ?? platformDecoder(name) ?? japaneseDecoder(name);
  // Clients choose the names: the cache must not grow without bound.
  if (decoders.size < MAX_CACHED_NAMES) decoders.set(name, decoder);
  return decoder;
}

/** Reads UTF-8 that was cut inside a character by mailers that count octets; undefined where anything else is wrong. */
function decodeCutUtf8(bytes: Buffer): string | undefined {
  const text = bytes.toString('utf8');
  const at = text.indexOf('\ufffd');
  if (at < 0 || text.indexOf('\ufffd', at + 1) >= 0) return undefined;
  const first = bytes[Buffer.byteLength(text.slice(0, at))] ?? 0;
  const rest = text.slice(0, at) + text.slice(at + 1);
  return first >= 0xc2 && first <= 0xf4 && /[^\x00-\x7f]/.test(rest) ? rest : undefined;
}

/** Reads raw octets as UTF-8, also cut inside a character, else in the legacy charset of iconv-lite, else one character an octet (D13). */
export function decodeRaw(bytes: Buffer, legacyCharset: string): string {
  if (isAscii(bytes)) return bytes.toString('latin1');
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const cut = decodeCutUtf8(bytes);
  if (cut !== undefined) return cut;
  const decoder = charsetDecoder(legacyCharset);
  return decoder ? decoder(bytes) : bytes.toString('latin1');
}
