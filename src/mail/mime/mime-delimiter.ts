// Finds the delimiter lines of multiparts (RFC 2046 §5.1.1), in one pass for all open boundaries.

import { CR, HYPHEN, LF, SPACE, TAB } from '../octets.ts';

/** A delimiter line that ends a part, or the end of the body. */
export interface Delimiter {
  /** Depth in the stack of open boundaries; -1 at the end of the body. */
  readonly level: number;
  readonly close: boolean;
  /** First octet of the line. */
  readonly lineStart: number;
  /** First octet behind the line. */
  readonly next: number;
}

/** Lines that begin with two hyphens and are examined before other work may run. */
const candidatesInSlice = 4096;

/** The open boundaries of a walk through one body, and the search for their delimiter lines. */
export class Boundaries {
  readonly #body: Buffer;
  readonly #stack: string[] = [];
  /** The innermost level of each open boundary. */
  readonly #levels = new Map<string, number>();
  /** How many open boundaries have each length: most lines cannot be delimiters by their length alone. */
  readonly #lengths = new Uint16Array(1024);
  #candidates = 0;

  constructor(body: Buffer) {
    this.#body = body;
  }

  /** Opens a boundary (one character an octet, no white space at its end); gives its level. */
  open(boundary: string): number {
    this.#stack.push(boundary);
    this.#levels.set(boundary, this.#stack.length - 1);
    this.#lengths[boundary.length] = (this.#lengths[boundary.length] ?? 0) + 1;
    return this.#stack.length - 1;
  }

  /** Closes the innermost boundary. */
  close(): void {
    const boundary = this.#stack.pop() ?? '';
    const outer = this.#stack.lastIndexOf(boundary);
    if (outer < 0) this.#levels.delete(boundary);
    else this.#levels.set(boundary, outer);
    this.#lengths[boundary.length] = (this.#lengths[boundary.length] ?? 1) - 1;
  }

  /** The delimiter line at `lineStart`, the start of a line; undefined where none stands. Linear in the line. */
  at(lineStart: number): Delimiter | undefined {
    const body = this.#body;
    if (this.#stack.length === 0 || body[lineStart] !== HYPHEN || body[lineStart + 1] !== HYPHEN) return undefined;
    this.#candidates += 1;
    const start = lineStart + 2;
    // A longer line cannot be a delimiter, whatever white space is behind its text.
    const end = textEnd(body, start, start + this.#lengths.length + 2);
    if (end === undefined) return undefined;
    const length = end.text - start;
    const isClose = length > 2 && body[end.text - 1] === HYPHEN && body[end.text - 2] === HYPHEN;
    const whole = this.#levelOf(start, end.text);
    const closed = isClose ? this.#levelOf(start, end.text - 2) : -1;
    // RFC 2046 §5.1.2: where a line is the delimiter of several boundaries, the innermost counts.
    const level = Math.max(whole, closed);
    return level < 0 ? undefined : { level, close: closed > whole, lineStart, next: end.line };
  }

  #levelOf(start: number, end: number): number {
    return this.#lengths[end - start] ? (this.#levels.get(this.#body.toString('latin1', start, end)) ?? -1) : -1;
  }

  /** Finds the next delimiter line from the line start `from`, or the end. Yields between candidates to let others work. */
  *next(from: number): Generator<undefined, Delimiter> {
    let lineStart = this.#stack.length === 0 ? -1 : from;
    while (lineStart >= 0) {
      const found = this.at(lineStart);
      if (found) return found;
      if (this.#candidates >= candidatesInSlice) {
        this.#candidates = 0;
        yield;
      }
      lineStart = nextCandidate(this.#body, lineStart);
    }
    return { level: -1, close: false, lineStart: this.#body.length, next: this.#body.length };
  }
}

/** The end of a line's text, and of its line with padding (RFC 2046 §5.1.1). @param limit text up to there is none: undefined */
function textEnd(body: Buffer, start: number, limit: number): { text: number; line: number } | undefined {
  let text = start;
  let index = start;
  for (; index < body.length; index += 1) {
    const octet = body[index];
    if (octet === LF) return { text, line: index + 1 };
    if (octet === SPACE || octet === TAB || octet === CR) continue;
    if (index >= limit) return undefined;
    text = index + 1;
  }
  return { text, line: body.length };
}

/** Octets examined here before the native search is called, since such a call costs as much. */
const nearby = 64;

/** The next start of a line behind `from` with two hyphens; -1 where there is none. */
function nextCandidate(body: Buffer, from: number): number {
  const far = Math.min(from + nearby, body.length);
  // Guards against a body that consists of lines with two hyphens, each of them a candidate.
  for (let index = from; index < far; index += 1) {
    if (body[index] === LF && body[index + 1] === HYPHEN && body[index + 2] === HYPHEN) return index + 1;
  }
  const found = body.indexOf('\n--', far, 'latin1');
  return found < 0 ? -1 : found + 1;
}
