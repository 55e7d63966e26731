// Octets as the policy works with them, without Node: what the sources of the gateway use of Node's Buffer, with the same
// results. A test compares each with Node's own.

type Encoding = 'utf8' | 'utf-8' | 'latin1' | 'base64' | 'ucs2';

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const encoder = new TextEncoder();

/** Characters that one call makes of octets: more arguments could overflow the stack. */
const slice = 8192;

/** Whether all octets are below 128. */
export function isAscii(octets: Uint8Array): boolean {
  for (let at = 0; at < octets.length; at += 1) if ((octets[at] ?? 0) > 127) return false;
  return true;
}

const strict = new TextDecoder('utf-8', { fatal: true });

/** Whether octets are well-formed UTF-8. */
export function isUtf8(octets: Uint8Array): boolean {
  try {
    strict.decode(octets);
    return true;
  } catch {
    return false; // not UTF-8
  }
}

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** The value of each octet as a digit, 255 for none. Both alphabets are read. */
const values = new Uint8Array(256).fill(255);
for (let index = 0; index < digits.length; index += 1) values[digits.charCodeAt(index)] = index;
values.set([62], '-'.charCodeAt(0));
values.set([63], '_'.charCodeAt(0));

/** Reads base64 as Node does: every character that is no digit is passed over, and the first `=` ends it. */
function fromBase64(text: string): Octets {
  const padding = text.indexOf('=');
  const end = padding < 0 ? text.length : padding;
  const octets = new Octets(Math.ceil((end * 3) / 4));
  let length = 0;
  let bits = 0;
  let held = 0;
  for (let at = 0; at < end; at += 1) {
    // Node takes the low octet of each unit.
    const value = values[text.charCodeAt(at) & 0xff] ?? 255;
    if (value === 255) continue;
    bits = ((bits << 6) | value) & 0xffffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    octets[length] = (bits >> held) & 0xff;
    length += 1;
  }
  return octets.subarray(0, length);
}

function toBase64(octets: Uint8Array): string {
  let text = '';
  for (let at = 0; at < octets.length; at += 3) {
    const left = octets.length - at;
    const bits = ((octets[at] ?? 0) << 16) | ((octets[at + 1] ?? 0) << 8) | (octets[at + 2] ?? 0);
    text += digits.charAt(bits >> 18) + digits.charAt((bits >> 12) & 63);
    text += left > 1 ? digits.charAt((bits >> 6) & 63) : '=';
    text += left > 2 ? digits.charAt(bits & 63) : '=';
  }
  return text;
}

function fromLatin1(text: string): Octets {
  const octets = new Octets(text.length);
  for (let at = 0; at < text.length; at += 1) octets[at] = text.charCodeAt(at);
  return octets;
}

function view({ buffer, byteOffset, byteLength }: Uint8Array): Octets {
  return new Octets(buffer as ArrayBuffer, byteOffset, byteLength);
}

function encoded(text: string, encoding: Encoding): Octets {
  if (encoding === 'latin1') return fromLatin1(text);
  return encoding === 'base64' ? fromBase64(text) : view(encoder.encode(text));
}

/** A character of sixteen bits for each unit of `width` octets. */
function unitsOf(octets: Uint8Array, width: 1 | 2): string {
  let text = '';
  for (let start = 0; start < octets.length - width + 1; start += slice) {
    const units: number[] = [];
    for (let at = start; at < Math.min(start + slice, octets.length - width + 1); at += width)
      units.push((octets[at] ?? 0) | (width === 2 ? (octets[at + 1] ?? 0) << 8 : 0));
    text += String.fromCharCode(...units);
  }
  return text;
}

/** Octets with the members of Node's Buffer that the policy uses. Views of it are of its kind, as those of a Buffer are. */
export class Octets extends Uint8Array {
  static override from(given: unknown, encoding?: unknown): Octets {
    if (typeof given === 'string') return encoded(given, (encoding ?? 'utf8') as Encoding);
    const octets = new Octets((given as ArrayLike<number>).length);
    octets.set(given as ArrayLike<number>);
    return octets;
  }

  static alloc(length: number): Octets {
    return new Octets(length);
  }

  static allocUnsafe(length: number): Octets {
    return new Octets(length);
  }

  static byteLength(text: string): number {
    let length = text.length;
    for (let at = 0; at < text.length; at += 1) {
      const unit = text.charCodeAt(at);
      if (unit < 0x80) continue;
      length += 1;
      if (unit < 0x800) continue;
      const isPair = unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
      // A pair has two units and four octets; its second unit is counted with the first.
      if (isPair) at += 1;
      length += 1;
    }
    return length;
  }

  static isBuffer(value: unknown): value is Octets {
    return value instanceof Octets;
  }

  static concat(list: readonly Uint8Array[]): Octets {
    const whole = new Octets(list.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const octets of list) {
      whole.set(octets, at);
      at += octets.length;
    }
    return whole;
  }

  /** A view of octets that belong to somebody else. */
  static view(octets: Uint8Array): Octets {
    return view(octets);
  }

  override subarray(start?: number, end?: number): Octets {
    return view(super.subarray(start, end));
  }

  override slice(start?: number, end?: number): Octets {
    return this.subarray(start, end);
  }

  override toString(encoding: Encoding = 'utf8', start = 0, end = this.length): string {
    const octets = start === 0 && end >= this.length ? this : super.subarray(start, end);
    if (encoding === 'base64') return toBase64(octets);
    if (encoding === 'latin1') return unitsOf(octets, 1);
    return encoding === 'ucs2' ? unitsOf(octets, 2) : utf8.decode(octets);
  }

  override indexOf(wanted: number | string | Uint8Array, from = 0): number {
    if (typeof wanted === 'number') return super.indexOf(wanted & 0xff, from);
    const octets = typeof wanted === 'string' ? encoded(wanted, 'utf8') : wanted;
    const [first] = octets;
    if (first === undefined) return Math.min(from, this.length);
    for (let at = super.indexOf(first, from); at >= 0; at = super.indexOf(first, at + 1)) {
      let same = 1;
      while (same < octets.length && this[at + same] === octets[same]) same += 1;
      if (same === octets.length) return at;
    }
    return -1;
  }

  override includes(wanted: number | string | Uint8Array, from?: number): boolean {
    return this.indexOf(wanted, from) >= 0;
  }

  copy(target: Uint8Array, at = 0, start = 0, end = this.length): number {
    const octets = super.subarray(start, Math.min(end, start + target.length - at));
    target.set(octets, at);
    return octets.length;
  }

  write(text: string, at: number | Encoding, encoding: Encoding = 'utf8'): number {
    return typeof at === 'string' ? encoded(text, at).copy(this) : encoded(text, encoding).copy(this, at);
  }

  equals(other: Uint8Array): boolean {
    return this.length === other.length && this.every((octet, at) => octet === other[at]);
  }
}

export { Octets as Buffer };
