// Reads an mbox file as a stream (RFC 4155 and its older forms): a message begins at a line `From sender date` at the start
// of the file or behind an empty line. Its memory is bounded, whatever is in the file.

/** One message of an mbox. */
export interface MboxMessage {
  /** The message as it is in the file, without the `From ` line; only the first `most` octets where it is longer. */
  readonly octets: Buffer;
  /** Octets in the file. */
  readonly size: number;
  /** Who the `From ` line names; '' where it names nobody. */
  readonly sender: string;
}

const separatorStart = Buffer.from('\nFrom ');
/** A `From ` line is not longer than this, its end included. */
const longestSeparator = 1000;
/** Octets at the end of a window that are read only together with the next one, so that no separator is cut in two. */
const heldBack = longestSeparator + separatorStart.length;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** Whether a line has a sender and a time as asctime writes it, in any order and zone. Lines of a body seldom have both. */
function isSeparator(line: string): boolean {
  return /^From \S/.test(line) && /\d:\d\d/.test(line) && /\b(?:19|20)\d\d\b/.test(line);
}

/** Whether octets are the beginning of an mbox. */
export function beginsMbox(start: Buffer): boolean {
  const line = start.toString('latin1', 0, longestSeparator).split('\n', 1)[0] ?? '';
  return isSeparator(line);
}

/** The message that is being read. */
class Collected {
  readonly sender: string;
  readonly #most: number;
  #pieces: Buffer[] = [];
  #held = 0;
  #size = 0;

  constructor(line: string, most: number) {
    this.sender = /^From (\S+)/.exec(line)?.[1] ?? '';
    this.#most = most;
  }

  /** Adds octets of a window. They are copied, because the window is used again. */
  add(octets: Buffer): void {
    this.#size += octets.length;
    const room = this.#most - this.#held;
    if (room <= 0 || octets.length === 0) return;
    const kept = Buffer.from(octets.subarray(0, room));
    this.#pieces.push(kept);
    this.#held += kept.length;
  }

  finish(): MboxMessage {
    return { octets: unquoted(Buffer.concat(this.#pieces)), size: this.#size, sender: this.sender };
  }
}

/** Removes the quoting of mboxrd and mboxo: `>From ` at the start of a line stands for `From `, `>>From ` for `>From `. */
function unquoted(octets: Buffer): Buffer {
  if (!octets.includes('\n>')) return octets;
  return Buffer.from(octets.toString('latin1').replace(/\n>(?=>{0,50}From )/g, '\n'), 'latin1');
}

/** Finds separators in windows of a file. */
class Splitter {
  readonly #most: number;
  /** The octets before the window: whether an empty line is before its first one. */
  #before = Buffer.alloc(0);
  #current: Collected | undefined;

  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Reads a window up to `limit`; what stands behind it is only looked at.
   * @returns how much of it was used, and the messages that ended in it
   */
  *read(window: Buffer, limit: number): Generator<MboxMessage, number> {
    let at = 0;
    if (!this.#current) {
      const first = lineAt(window, 0);
      this.#current = new Collected(first ?? '', this.#most);
      if (first !== undefined) at = first.length + 1;
    }
    let from = at;
    for (;;) {
      const found = window.indexOf(separatorStart, from);
      if (found < 0 || found >= limit) break;
      const line = this.#isBehindEmptyLine(window, found) ? lineAt(window, found + 1) : undefined;
      if (line === undefined) {
        from = found + 1;
        continue;
      }
      this.#current.add(window.subarray(at, found));
      yield this.#current.finish();
      this.#current = new Collected(line, this.#most);
      at = found + 1 + line.length + 1;
      // The line's own end may begin the next separator only behind an empty line, which it is not.
      from = at;
    }
    const used = Math.min(window.length, Math.max(at, limit));
    this.#current.add(window.subarray(at, used));
    this.#before = Buffer.from(window.subarray(Math.max(0, used - 2), used));
    return used;
  }

  /** The last message. */
  end(): MboxMessage | undefined {
    return this.#current?.finish();
  }

  #isBehindEmptyLine(window: Buffer, found: number): boolean {
    const octet = (at: number): number | undefined => (at >= 0 ? window[at] : this.#before.at(at));
    if (octet(found - 1) === lineFeed) return true;
    return octet(found - 1) === carriageReturn && octet(found - 2) === lineFeed;
  }
}

/** The separator line that begins at an offset, without its LF; undefined where there is none. */
function lineAt(window: Buffer, start: number): string | undefined {
  const text = window.toString('latin1', start, start + longestSeparator);
  const end = text.indexOf('\n');
  const line = end < 0 ? text : text.slice(0, end);
  return end >= 0 && isSeparator(line) ? line : undefined;
}

/**
 * Gives the messages of an mbox in their order. A file that does not begin with a `From ` line is one message up to the
 * first such line. Memory: one message of at most `most` octets and two windows.
 * @param windows the file's octets in pieces
 * @param most octets kept of one message
 */
export async function* readMbox(windows: AsyncIterable<Buffer>, most: number): AsyncGenerator<MboxMessage> {
  const splitter = new Splitter(most);
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of windows) {
    const window: Buffer = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    if (window.length <= heldBack) {
      rest = window;
      continue;
    }
    const used: number = yield* splitter.read(window, window.length - heldBack);
    rest = Buffer.from(window.subarray(used));
  }
  if (rest.length > 0) yield* splitter.read(rest, rest.length);
  const last = splitter.end();
  if (last && last.size > 0) yield last;
}
