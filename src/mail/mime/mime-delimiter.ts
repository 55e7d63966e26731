// Finds the delimiter lines of multiparts (RFC 2046 §5.1.1), in one pass for all open boundaries.

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

/** The open boundaries of a walk, and the search for their delimiter lines. */
export interface Boundaries {
  /** Opens a boundary (one character an octet, no white space at its end); gives its level. */
  open(boundary: string): number;
  /** Closes the innermost boundary. */
  close(): void;
  /** The delimiter line at `lineStart`, the start of a line; undefined where none stands. Linear in the line. */
  at(lineStart: number): Delimiter | undefined;
  /**
   * Finds the next delimiter line at or behind `from`, the start of a line; the end of the body where there is none.
   * Yields between candidates to let other work run.
   */
  next(from: number): Generator<undefined, Delimiter>;
}

const CR = 13;
const LF = 10;
const SPACE = 32;
const TAB = 9;
const HYPHEN = 45;

/** Lines that begin with two hyphens and are examined before other work may run. */
const candidatesInSlice = 4096;

/** Makes the boundaries of one body, none open. */
export function createBoundaries(body: Buffer): Boundaries {
  const stack: string[] = [];
  /** The innermost level of each open boundary. */
  const levels = new Map<string, number>();
  /** How many open boundaries have each length: most lines cannot be delimiters by their length alone. */
  const lengths = new Uint16Array(1024);
  let candidates = 0;

  function at(lineStart: number): Delimiter | undefined {
    if (stack.length === 0 || body[lineStart] !== HYPHEN || body[lineStart + 1] !== HYPHEN) return undefined;
    candidates += 1;
    const start = lineStart + 2;
    // A longer line cannot be a delimiter, whatever white space is behind its text.
    const end = textEnd(body, start, start + lengths.length + 2);
    if (end === undefined) return undefined;
    const length = end.text - start;
    const isClose = length > 2 && body[end.text - 1] === HYPHEN && body[end.text - 2] === HYPHEN;
    const whole = levelOf(start, end.text);
    const closed = isClose ? levelOf(start, end.text - 2) : -1;
    // RFC 2046 §5.1.2: where a line is the delimiter of several boundaries, the innermost counts.
    const level = Math.max(whole, closed);
    return level < 0 ? undefined : { level, close: closed > whole, lineStart, next: end.line };
  }

  function levelOf(start: number, end: number): number {
    return lengths[end - start] ? (levels.get(body.toString('latin1', start, end)) ?? -1) : -1;
  }

  return {
    open(boundary) {
      stack.push(boundary);
      levels.set(boundary, stack.length - 1);
      lengths[boundary.length] = (lengths[boundary.length] ?? 0) + 1;
      return stack.length - 1;
    },
    close() {
      const boundary = stack.pop() ?? '';
      const outer = stack.lastIndexOf(boundary);
      if (outer < 0) levels.delete(boundary);
      else levels.set(boundary, outer);
      lengths[boundary.length] = (lengths[boundary.length] ?? 1) - 1;
    },
    at,
    *next(from) {
      let lineStart = stack.length === 0 ? -1 : from;
      while (lineStart >= 0) {
        const found = at(lineStart);
        if (found) return found;
        if (candidates >= candidatesInSlice) {
          candidates = 0;
          yield;
        }
        lineStart = nextCandidate(body, lineStart);
      }
      return { level: -1, close: false, lineStart: body.length, next: body.length };
    },
  };
}

/**
 * Gives the end of a line's text, and the end of the line with its trailing white space (RFC 2046 §5.1.1:
 * transport-padding).
 * @param limit text that reaches this offset is no delimiter: the result is then undefined
 */
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
