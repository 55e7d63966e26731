// Reads the header section of a message: the fields in their order with their octets, uninterpreted (RFC 5322 §2.2).
// Header policy judges exactly these fields: nothing before it merges, reorders or repairs any.

/** What is wrong with the form of a field, found before its name or value is judged (D5, D10, D11). */
export type FieldFault =
  /** A line of the header section without a colon. */
  | 'no-colon'
  /** White space between the name and the colon. */
  | 'space-before-colon'
  /** The header section begins with a continuation line. */
  | 'leading-continuation'
  /** REST: the value is no string. */
  | 'not-a-string'
  /** REST: the value has a lone surrogate, which UTF-8 cannot carry. */
  | 'lone-surrogate';

/** One header field as a door hands it over. The order of a list of them is the order in the text. */
export interface HeaderField {
  /** The name as given: by SMTP one character an octet (latin1), by REST the JSON key. */
  readonly name: string;
  /** The octets after the colon as given, with folds and stray CR or LF, without the final line end. From REST: the string's UTF-8. */
  readonly rawBytes: Buffer;
  /** REST: the JSON pointer of the value (`/headers/X-Foo`). */
  readonly pointer?: string;
  readonly fault?: FieldFault;
}

/** The largest header section that is read, in octets, the empty line behind it not counted. */
export const MAX_HEADER_SECTION_BYTES = 262_144;

/** The most fields that are read. */
export const MAX_HEADER_FIELDS = 2000;

/** A message taken apart. */
export interface ReadMessage {
  /** In the order of the text. */
  readonly fields: readonly HeaderField[];
  /** What stands behind the first empty line: a view of the message's own octets, not a copy. */
  readonly body: Buffer;
  /** The header section is over a limit: nothing of it was read; `fields` and `body` are empty. */
  readonly tooLarge: boolean;
}

const lineEnd = '\r\n';
const sectionEndMark = Buffer.from('\r\n\r\n', 'latin1');
const nothing = Buffer.alloc(0);
const refused: ReadMessage = { fields: [], body: nothing, tooLarge: true };

function startsWithBlank(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code === 0x20 || code === 0x09;
}

/** The length of the header section, its last line end included; undefined when it is over the limit. */
function sectionLength(raw: Buffer): number | undefined {
  const window = raw.length > MAX_HEADER_SECTION_BYTES + 2 ? raw.subarray(0, MAX_HEADER_SECTION_BYTES + 2) : raw;
  const mark = window.indexOf(sectionEndMark);
  if (mark >= 0) return mark + lineEnd.length;
  // RFC 5322 §2.1: a message may be a header section alone, without the empty line.
  return raw.length <= MAX_HEADER_SECTION_BYTES ? raw.length : undefined;
}

/** Gives the end of the field that begins at `start`: the offset of the first line end that no blank follows. */
function fieldEnd(section: string, start: number): number {
  let end = section.indexOf(lineEnd, start);
  while (end >= 0 && startsWithBlank(section, end + 2)) end = section.indexOf(lineEnd, end + 2);
  return end < 0 ? section.length : end;
}

/** Makes the field at [start, end); `colon` is the first colon at or behind start, or the section's length. */
function makeField(raw: Buffer, section: string, at: { start: number; end: number; colon: number }): HeaderField {
  const { start, end, colon } = at;
  const faulty = (name: string, from: number, fault: FieldFault): HeaderField => {
    return { name, rawBytes: raw.subarray(from, end), fault };
  };
  if (startsWithBlank(section, start)) return faulty('', start, 'leading-continuation');
  const firstFold = section.indexOf(lineEnd, start);
  const nameEnd = Math.min(end, firstFold < 0 ? end : firstFold);
  if (colon >= nameEnd) return faulty(section.slice(start, nameEnd), nameEnd, 'no-colon');
  const name = section.slice(start, colon);
  if (colon > start && startsWithBlank(section, colon - 1)) return faulty(name, colon + 1, 'space-before-colon');
  return { name, rawBytes: raw.subarray(colon + 1, end) };
}

/**
 * Takes a message apart into header fields and body. A field ends at the first CRLF that no blank follows, the section
 * at the first empty line (D10); a bare CR or LF ends nothing and stays in the field it stands in (D11). A fault of a
 * field's line is noted on the field: a line without a colon keeps its text as the name, a leading continuation line has
 * an empty name and all its octets in rawBytes. Never throws, linear, reads the header section only.
 * @param raw the message's octets; the result refers to them
 */
export function readMessage(raw: Buffer): ReadMessage {
  if (raw.length >= 2 && raw[0] === 0x0d && raw[1] === 0x0a) {
    return { fields: [], body: raw.subarray(2), tooLarge: false };
  }
  const length = sectionLength(raw);
  if (length === undefined) return refused;
  const section = raw.toString('latin1', 0, length);
  const fields: HeaderField[] = [];
  let colon = -1;
  for (let start = 0; start < length; ) {
    if (fields.length === MAX_HEADER_FIELDS) return refused;
    const end = fieldEnd(section, start);
    if (colon < start) {
      colon = section.indexOf(':', start);
      if (colon < 0) colon = length;
    }
    fields.push(makeField(raw, section, { start, end, colon }));
    start = end + lineEnd.length;
  }
  return { fields, body: length < raw.length ? raw.subarray(length + lineEnd.length) : nothing, tooLarge: false };
}
