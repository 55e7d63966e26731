// Reads JSON (RFC 8259) from its octets without losing anything of it: repeated names are found, the order of the text is
// kept, names such as `__proto__` are ordinary ones (D5). `JSON.parse` drops the first of two equal names and moves
// integer-like ones to the front.

import { isUtf8 } from 'node:buffer';
import { type DecodedText, decodeInPlace } from './json-base64.ts';

/** A JSON value. Objects have no prototype: nothing of a request can reach `Object.prototype`. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;

/** A JSON object without a prototype; of a repeated name it has the first value. */
export interface JsonObject {
  readonly [name: string]: JsonValue;
}

/** A document that was read. */
export interface JsonDocument {
  readonly value: JsonValue;
  /** JSON pointers (RFC 6901) of names that an object has had before, in the order of the text. */
  readonly repeated: readonly string[];
  /** JSON pointers of strings that hold a lone surrogate, which is no character; names count with their value's pointer. */
  readonly illFormed: readonly string[];
  /** What was read; what is decoded lies in it. */
  readonly octets: Buffer;
  /** What stood at the pointers that are base64; in `value` such a string is empty. */
  readonly decoded: ReadonlyMap<string, DecodedText>;
  /** Names and values of the object at `keep` in the order of the text, repeated ones too; empty where there is none. */
  readonly kept: readonly JsonEntry[];
}

/** One member of an object as it stands in the text. */
export interface JsonEntry {
  readonly name: string;
  readonly value: JsonValue;
}

/** What was read, or what is wrong and where. */
export type JsonResult =
  | { readonly ok: true; readonly document: JsonDocument }
  | { readonly ok: false; readonly reason: string };

/** Objects and arrays inside one another; no request needs half of it. */
export const MAX_JSON_DEPTH = 16;
/** Values in one document, so that no body costs more in errors than in octets. */
export const MAX_JSON_VALUES = 10_000;

/** Thrown inside this file only, and caught there. */
class JsonSyntaxError extends Error {}

/** Tells an object from everything else. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Writes a name as a step of a JSON pointer (RFC 6901 §3). */
export function pointerStep(name: string | number): string {
  return `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

const literals = [
  ['true', true],
  ['false', false],
  ['null', null],
] as const;

const number = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

class Reader {
  readonly repeated: string[] = [];
  readonly illFormed: string[] = [];
  readonly kept: JsonEntry[] = [];
  readonly decoded = new Map<string, DecodedText>();
  readonly #bytes: Buffer;
  readonly #options: JsonOptions;
  #at = 0;
  #depth = 0;
  #values = 0;

  constructor(bytes: Buffer, options: JsonOptions) {
    this.#bytes = bytes;
    this.#options = options;
    // RFC 8259 §8.1: a byte order mark may be ignored.
    if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) this.#at = 3;
  }

  document(): JsonValue {
    const value = this.#value('');
    this.#blanks();
    if (this.#at < this.#bytes.length) throw this.#unexpected();
    return value;
  }

  #blanks(): void {
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.#at += 1;
    }
  }

  #unexpected(): JsonSyntaxError {
    const { length } = this.#bytes;
    if (this.#at >= length) return new JsonSyntaxError(length === 0 ? 'the body is empty' : 'the text is cut off');
    const byte = this.#bytes[this.#at] ?? 0;
    const what = byte > 0x20 && byte < 0x7f ? `"${String.fromCharCode(byte)}"` : `octet 0x${byte.toString(16)}`;
    return new JsonSyntaxError(`unexpected ${what} at octet ${this.#at}`);
  }

  #take(byte: number): boolean {
    this.#blanks();
    if (this.#bytes[this.#at] !== byte) return false;
    this.#at += 1;
    return true;
  }

  #expect(byte: number): void {
    if (!this.#take(byte)) throw this.#unexpected();
  }

  #value(pointer: string): JsonValue {
    this.#values += 1;
    if (this.#values > MAX_JSON_VALUES) throw new JsonSyntaxError(`it holds more than ${MAX_JSON_VALUES} values`);
    this.#blanks();
    const byte = this.#bytes[this.#at];
    if (byte === 0x22) return this.#string(pointer);
    if (byte !== 0x7b && byte !== 0x5b) return this.#scalar();
    this.#at += 1;
    this.#depth += 1;
    if (this.#depth > MAX_JSON_DEPTH) throw new JsonSyntaxError(`it is nested deeper than ${MAX_JSON_DEPTH} levels`);
    const value = byte === 0x7b ? this.#object(pointer) : this.#array(pointer);
    this.#depth -= 1;
    return value;
  }

  #object(pointer: string): JsonObject {
    const object: { [name: string]: JsonValue } = Object.create(null);
    if (this.#take(0x7d)) return object;
    do {
      this.#blanks();
      if (this.#bytes[this.#at] !== 0x22) throw this.#unexpected();
      const name = this.#string(undefined);
      const place = pointer + pointerStep(name);
      if (!name.isWellFormed()) this.illFormed.push(place);
      this.#expect(0x3a);
      const value = this.#value(place);
      if (pointer === this.#options.keepMembers) this.kept.push({ name, value });
      if (name in object) this.repeated.push(place);
      else object[name] = value;
    } while (this.#take(0x2c));
    this.#expect(0x7d);
    return object;
  }

  #array(pointer: string): readonly JsonValue[] {
    const values: JsonValue[] = [];
    if (this.#take(0x5d)) return values;
    do values.push(this.#value(`${pointer}/${values.length}`));
    while (this.#take(0x2c));
    this.#expect(0x5d);
    return values;
  }

  /** Reads the string whose opening quotation mark is next. */
  #string(pointer: string | undefined): string {
    const bytes = this.#bytes;
    const start = this.#at + 1;
    let escaped = false;
    let end = start;
    for (; bytes[end] !== 0x22; end += 1) {
      const byte = bytes[end];
      if (byte === 0x5c) {
        escaped = true;
        end += 1;
      } else if (byte === undefined || byte < 0x20) {
        this.#at = end;
        throw this.#unexpected();
      }
    }
    this.#at = end + 1;
    if (pointer !== undefined && this.#options.base64?.test(pointer) === true) {
      this.decoded.set(pointer, decodeInPlace(bytes, { start, end, escaped }));
      return '';
    }
    if (!escaped) return bytes.toString('utf8', start, end);
    const text = unescape(bytes.toString('utf8', start - 1, end + 1));
    if (text === undefined) throw new JsonSyntaxError(`the string at octet ${start - 1} has an unknown escape`);
    if (pointer !== undefined && !text.isWellFormed()) this.illFormed.push(pointer);
    return text;
  }

  #scalar(): JsonValue {
    const start = this.#at;
    for (const [word, value] of literals) {
      if (this.#bytes.toString('latin1', start, start + word.length) !== word) continue;
      this.#at += word.length;
      return value;
    }
    let end = start;
    // Digits, sign, point, exponent: nothing else can belong to a number.
    for (let byte = this.#bytes[end]; byte !== undefined; byte = this.#bytes[end]) {
      if ((byte < 0x30 || byte > 0x39) && !'+-.eE'.includes(String.fromCharCode(byte))) break;
      end += 1;
    }
    const text = this.#bytes.toString('latin1', start, Math.min(end, start + 400));
    if (!number.test(text) || end - start > 400) throw this.#unexpected();
    this.#at = end;
    return Number(text);
  }
}

/** The text of a string with escapes, quotation marks included; undefined where an escape is none. */
function unescape(quoted: string): string | undefined {
  try {
    return String(JSON.parse(quoted));
  } catch {
    return undefined; // the one thing that is still to be judged in it: its escapes
  }
}

/** What is wanted of a document besides its value. */
export interface JsonOptions {
  /** The pointer of the object whose members are kept in the order of the text: `/headers`. */
  readonly keepMembers?: string;
  /** Strings at these pointers are base64 and are decoded where they stand. */
  readonly base64?: RegExp;
}

/**
 * Reads one JSON document. Linear; bounded in depth and in the number of values.
 * @param bytes UTF-8, a byte order mark is ignored; written over where there is base64
 */
export function readJson(bytes: Buffer, options: JsonOptions = {}): JsonResult {
  if (!isUtf8(bytes)) return { ok: false, reason: 'the text is not UTF-8' };
  const reader = new Reader(bytes, options);
  try {
    const value = reader.document();
    const { repeated, illFormed, kept, decoded } = reader;
    return { ok: true, document: { value, repeated, illFormed, kept, decoded, octets: bytes } };
  } catch (error) {
    if (error instanceof JsonSyntaxError) return { ok: false, reason: error.message };
    throw error;
  }
}
