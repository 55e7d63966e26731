// Reads JSON (RFC 8259) without losing repeated names, order or `__proto__` (D5), as `JSON.parse` does.

import { isUtf8 } from 'node:buffer';
import { isRecord } from '../../../base/is-record.ts';
import { yieldToEventLoop as realYield } from '../../../base/yield-to-event-loop.ts';
import { pointerStep } from './cut-text.ts';
import {
  type DecodedText,
  decodeInPlace,
  findPlainString,
  findString,
  type InSlices,
  type JsonStringSpan,
  jsonSliceOctets,
  readString,
} from './json-string.ts';

/** A JSON value. Objects have no prototype: nothing of a request can reach `Object.prototype`. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;

/** A JSON object without a prototype. Where a name is repeated, the object has the first value. */
export interface JsonObject {
  readonly [name: string]: JsonValue;
}

/** A document that was read. */
export interface JsonDocument {
  readonly value: JsonValue;
  /** JSON pointers (RFC 6901) of repeated names, in the order of the text; long names are cut (`pointerStep`). */
  readonly repeated: readonly string[];
  /** JSON pointers of strings with a lone surrogate, which is no character. For a name it is the pointer of its value. */
  readonly illFormed: readonly string[];
  /** The octets of the document. Decoded base64 lies in them too. */
  readonly octets: Buffer;
  /** The decoded base64 strings by their pointers; in `value` such a string is empty. */
  readonly decoded: ReadonlyMap<string, DecodedText>;
  /** Names and values of the member `keepMembers`, in the order of the text and with repeated names; empty where it is absent. */
  readonly kept: readonly JsonEntry[];
}

/** One member of an object as it stands in the text. */
export interface JsonEntry {
  readonly name: string;
  readonly value: JsonValue;
}

/** The document that was read, or what is wrong and where. */
export type JsonResult =
  | { readonly ok: true; readonly document: JsonDocument }
  | { readonly ok: false; readonly reason: string };

/** What stands for the document of a request without a body. */
export const emptyDocument: JsonDocument = {
  value: null,
  octets: Buffer.alloc(0),
  repeated: [],
  illFormed: [],
  kept: [],
  decoded: new Map(),
};

/** How deep objects and arrays may be nested; no request needs half of it. */
export const MAX_JSON_DEPTH = 16;
/** The most values of one document, so that reporting the errors of a body costs no more than its octets. */
export const MAX_JSON_VALUES = 10_000;

/** Thrown inside this file only, and caught there. */
class JsonSyntaxError extends Error {}

/** Tells an object from everything else. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return isRecord(value);
}

/** Literals by their first octet. */
const literals = new Map<number, readonly [word: string, value: boolean | null]>([
  [0x74, ['true', true]],
  [0x66, ['false', false]],
  [0x6e, ['null', null]],
]);

const number = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;
const longestNumber = 400;
/** How many values are read before other requests get a turn, however small the values are. */
const valuesInSlice = 256;

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function belongsToNumber(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || byte === 0x2b || byte === 0x2d || byte === 0x2e || (byte | 0x20) === 0x65;
}

class Reader {
  readonly repeated: string[] = [];
  readonly illFormed: string[] = [];
  readonly kept: JsonEntry[] = [];
  readonly decoded = new Map<string, DecodedText>();
  readonly #bytes: Buffer;
  readonly #options: JsonOptions;
  /** The place of the value that is being read: names and indexes from the top. */
  readonly #steps: (string | number)[] = [];
  #at = 0;
  #sliceAt = 0;
  #values = 0;

  constructor(bytes: Buffer, options: JsonOptions) {
    this.#bytes = bytes;
    this.#options = options;
    // RFC 8259 §8.1: a byte order mark may be ignored.
    if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) this.#at = 3;
  }

  *document(): InSlices<JsonValue> {
    const value = yield* this.#value();
    if ((yield* this.#next()) !== undefined) throw this.#unexpected();
    return value;
  }

  /** The pointer is written only when a fault needs it: a name may be as long as the document and hold thousands of values. */
  #pointer(): string {
    return this.#steps.map(pointerStep).join('');
  }

  /** Skips blanks and gives the next octet without taking it. */
  *#next(): InSlices<number | undefined> {
    while (isBlank(this.#bytes[this.#at])) {
      this.#at += 1;
      if (this.#isSliceOver()) yield;
    }
    return this.#bytes[this.#at];
  }

  #isSliceOver(): boolean {
    if (this.#at - this.#sliceAt < jsonSliceOctets) return false;
    this.#sliceAt = this.#at;
    return true;
  }

  #unexpected(): JsonSyntaxError {
    const { length } = this.#bytes;
    if (this.#at >= length) return new JsonSyntaxError(length === 0 ? 'the body is empty' : 'the text is cut off');
    const byte = this.#bytes[this.#at] ?? 0;
    const what = byte > 0x20 && byte < 0x7f ? `"${String.fromCharCode(byte)}"` : `octet 0x${byte.toString(16)}`;
    return new JsonSyntaxError(`unexpected ${what} at octet ${this.#at}`);
  }

  /** Takes the comma or the closing bracket behind a member. Gives true where it was the bracket. */
  *#ends(bracket: number): InSlices<boolean> {
    const byte = yield* this.#next();
    if (byte !== bracket && byte !== 0x2c) throw this.#unexpected();
    this.#at += 1;
    return byte === bracket;
  }

  *#value(): InSlices<JsonValue> {
    this.#values += 1;
    if (this.#values > MAX_JSON_VALUES) throw new JsonSyntaxError(`it holds more than ${MAX_JSON_VALUES} values`);
    if (this.#values % valuesInSlice === 0 || this.#isSliceOver()) yield;
    const byte = yield* this.#next();
    if (byte === 0x22) return yield* this.#stringValue();
    if (byte !== 0x7b && byte !== 0x5b) return this.#scalar();
    this.#at += 1;
    if (this.#steps.length === MAX_JSON_DEPTH) {
      throw new JsonSyntaxError(`it is nested deeper than ${MAX_JSON_DEPTH} levels`);
    }
    return byte === 0x7b ? yield* this.#object() : yield* this.#array();
  }

  *#object(): InSlices<JsonObject> {
    const object: { [name: string]: JsonValue } = Object.create(null);
    const isKept = this.#steps.length === 1 && this.#steps[0] === this.#options.keepMembers;
    if ((yield* this.#next()) === 0x7d) {
      this.#at += 1;
      return object;
    }
    do {
      if ((yield* this.#next()) !== 0x22) throw this.#unexpected();
      const name = yield* this.#string(yield* this.#stringPlace());
      if ((yield* this.#next()) !== 0x3a) throw this.#unexpected();
      this.#at += 1;
      this.#steps.push(name);
      if (!name.isWellFormed()) this.illFormed.push(this.#pointer());
      const value = yield* this.#value();
      if (isKept) this.kept.push({ name, value });
      if (name in object) this.repeated.push(this.#pointer());
      else object[name] = value;
      this.#steps.pop();
    } while (!(yield* this.#ends(0x7d)));
    return object;
  }

  *#array(): InSlices<readonly JsonValue[]> {
    const values: JsonValue[] = [];
    if ((yield* this.#next()) === 0x5d) {
      this.#at += 1;
      return values;
    }
    do {
      this.#steps.push(values.length);
      values.push(yield* this.#value());
      this.#steps.pop();
    } while (!(yield* this.#ends(0x5d)));
    return values;
  }

  /** Takes the string whose opening quotation mark is next. @param from where its text is read from */
  *#stringPlace(from = this.#at + 1): InSlices<JsonStringSpan> {
    const place = yield* findString(this.#bytes, from);
    if (typeof place === 'number') {
      this.#at = place;
      throw this.#unexpected();
    }
    this.#at = place.end + 1;
    return place;
  }

  *#string(place: JsonStringSpan): InSlices<string> {
    const text = yield* readString(this.#bytes, place);
    if (text === undefined) throw unknownEscape(place);
    return text;
  }

  *#stringValue(): InSlices<string> {
    if (this.#isBase64()) return yield* this.#base64();
    const place = yield* this.#stringPlace();
    const text = yield* this.#string(place);
    if (place.escaped && !text.isWellFormed()) this.illFormed.push(this.#pointer());
    return text;
  }

  *#base64(): InSlices<string> {
    const plain = findPlainString(this.#bytes, this.#at + 1);
    const place = plain ?? (yield* this.#stringPlace());
    const decoded = yield* decodeInPlace(this.#bytes, place);
    if (!decoded) throw unknownEscape(place);
    // What is no base64 may be no JSON either: a control character. What was decoded before it holds none.
    if (plain && 'fault' in decoded) yield* this.#stringPlace(plain.start + decoded.at);
    this.#at = place.end + 1;
    this.decoded.set(this.#pointer(), decoded);
    return '';
  }

  #isBase64(): boolean {
    const { base64 } = this.#options;
    if (base64?.length !== this.#steps.length) return false;
    return base64.every((wanted, depth) => {
      const step = this.#steps[depth];
      return wanted === anyIndex ? typeof step === 'number' : step === wanted;
    });
  }

  #scalar(): JsonValue {
    const start = this.#at;
    const [word, literal] = literals.get(this.#bytes[start] ?? 0) ?? [];
    if (word !== undefined && literal !== undefined) {
      if (this.#bytes.toString('latin1', start, start + word.length) !== word) throw this.#unexpected();
      this.#at += word.length;
      return literal;
    }
    let end = start;
    while (end - start <= longestNumber && belongsToNumber(this.#bytes[end] ?? 0)) end += 1;
    const text = this.#bytes.toString('latin1', start, end);
    if (!number.test(text) || end - start > longestNumber) throw this.#unexpected();
    this.#at = end;
    return Number(text);
  }
}

function unknownEscape({ start }: JsonStringSpan): JsonSyntaxError {
  return new JsonSyntaxError(`the string at octet ${start - 1} has an unknown escape`);
}

/** Stands for every index of an array in `JsonOptions.base64`. */
export const anyIndex = Symbol('any index');

/** What the reader gives of a document besides its value, and how. */
export interface JsonOptions {
  /** The member of the document whose own members are kept in the order of the text: `headers`. */
  readonly keepMembers?: string;
  /** The place, as names and indexes from the top, of strings that hold base64. They are decoded where they stand. */
  readonly base64?: readonly (string | typeof anyIndex)[];
  /** Called between two slices; absent: that of the process. */
  readonly yieldToEventLoop?: () => Promise<unknown>;
}

/** Reads JSON in linear time and slices, of bounded depth and number of values. @param bytes UTF-8; base64 in it is written over */
export async function readJson(bytes: Buffer, options: JsonOptions = {}): Promise<JsonResult> {
  if (!isUtf8(bytes)) return { ok: false, reason: 'the text is not UTF-8' };
  const reader = new Reader(bytes, options);
  const { yieldToEventLoop = realYield } = options;
  try {
    const reading = reader.document();
    let step = reading.next();
    for (; step.done !== true; step = reading.next()) await yieldToEventLoop();
    const { repeated, illFormed, kept, decoded } = reader;
    return { ok: true, document: { value: step.value, repeated, illFormed, kept, decoded, octets: bytes } };
  } catch (error) {
    if (error instanceof JsonSyntaxError) return { ok: false, reason: error.message };
    throw error;
  }
}
