// Parses an origin's replies as they arrive (RFC 9112 §6, §7), without copying bodies. What is not well-formed ends the parsing.

import { type ReplyHead, readReplyHead } from './message-heads.ts';

/** Is called with what the parser has read. */
export interface ReplySink {
  /** An informational reply; 101 ends HTTP, and what follows comes by `onBody`. */
  onInterim(head: ReplyHead): void;
  onHead(head: ReplyHead): void;
  /** A piece of the body; `last` is true where the body is now whole. */
  onBody(piece: Buffer, last: boolean): void;
  /** The end of a body of which no piece was `last`, or of a reply without a body. */
  onEnd(): void;
  /** What was read is no reply. Nothing is called after this. */
  onBad(what: string): void;
}

/** The most octets of a head with its empty line, and of all the trailers of a body. */
const maxReplyHeadOctets = 65_536;
const maxTrailerOctets = 16_384;
/** The most octets of a line with a chunk's size and its extensions. */
const maxChunkLine = 4096;
/** The most informational replies before the reply itself. */
const maxInterims = 32;

const headEnd = Buffer.from('\r\n\r\n');
const protocol = Buffer.from('HTTP/1.');
const lf = 0x0a;
const cr = 0x0d;
const chunkSize = /^([0-9A-Fa-f]{1,12})[\t ]*(?:;[^\0-\x08\x0a-\x1f\x7f]*)?\r$/;
const trailerLine = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0-\x08\x0a-\x1f\x7f]*\r$/;

type State = 'idle' | 'head' | 'length' | 'size' | 'data' | 'data-end' | 'trailers' | 'close' | 'raw' | 'done' | 'bad';

/** What is read behind a head, by the framing of the body. */
const firstState = { none: 'done', length: 'length', chunked: 'size', close: 'close' } as const;

/** The parser of one connection. */
export class ReplyParser {
  #state: State = 'idle';
  #sink: ReplySink | undefined;
  #forHead = false;
  #interims = 0;
  /** The part of a head that has arrived. It doubles as it grows, so that a head sent octet by octet is not copied each time. */
  #kept: Buffer = Buffer.alloc(0);
  #keptOctets = 0;
  /** Octets still to come of a body or a chunk. */
  #remaining = 0;
  /** The part of a chunk-size or trailer line that came before the rest. */
  #line = '';
  #trailerOctets = 0;
  /** Whether anything has come since `expect`. */
  begun = false;

  /** Prepares for the reply to a request. */
  expect(sink: ReplySink, forHead: boolean): void {
    this.#sink = sink;
    this.#forHead = forHead;
    this.#state = 'head';
    this.begun = false;
    this.#interims = 0;
  }

  /** Forgets the sink: nothing is expected any more. */
  rest(): void {
    this.#sink = undefined;
    this.#state = 'idle';
  }

  /** Whether a whole reply was read and nothing behind it. */
  get atEnd(): boolean {
    return this.#state === 'done';
  }

  feed(chunk: Buffer): void {
    this.begun = true;
    let at = 0;
    while (at < chunk.length) {
      const next = this.#step(chunk, at);
      if (next < 0) return;
      at = next;
    }
  }

  /** Must be called when the origin has closed its side. Tells whether the reply is whole by that. */
  close(): boolean {
    if (this.#state !== 'close') return this.#state === 'done';
    this.#finish();
    return true;
  }

  #step(chunk: Buffer, at: number): number {
    switch (this.#state) {
      case 'head':
        return this.#readHead(chunk, at);
      case 'length':
      case 'data':
        return this.#readCounted(chunk, at);
      case 'size':
        return this.#readLine(chunk, at, maxChunkLine);
      case 'data-end':
        return this.#readDataEnd(chunk, at);
      case 'trailers':
        return this.#readLine(chunk, at, maxTrailerOctets);
      case 'close':
      case 'raw':
        this.#sink?.onBody(at === 0 ? chunk : chunk.subarray(at), false);
        return chunk.length;
      // Nobody has asked for these octets: replies on this connection can no longer be matched with requests.
      case 'idle':
      case 'done':
        return this.#fail('octets after the end of a reply');
      case 'bad':
        return -1;
      default:
        throw new Error('A parser without a state');
    }
  }

  #fail(what: string): number {
    const told = this.#state === 'bad' ? undefined : this.#sink;
    this.#state = 'bad';
    told?.onBad(what);
    return -1;
  }

  #finish(): void {
    this.#state = 'done';
    this.#sink?.onEnd();
  }

  #readHead(chunk: Buffer, at: number): number {
    if (this.#keptOctets === 0) {
      const end = chunk.indexOf(headEnd, at);
      if (end >= 0 && end + 4 - at <= maxReplyHeadOctets) {
        return this.#takeHead(chunk.toString('latin1', at, end + 2), end + 4);
      }
    }
    return this.#keepHead(chunk, at);
  }

  /** Keeps the part of a head that has arrived, and refuses early a head that can no longer become well-formed. */
  #keepHead(chunk: Buffer, at: number): number {
    const before = this.#keptOctets;
    this.#keep(chunk, at);
    const seen = this.#kept.subarray(0, this.#keptOctets);
    const begins = Math.min(seen.length, protocol.length);
    if (seen.compare(protocol, 0, begins, 0, begins) !== 0) return this.#fail('no HTTP');
    const end = seen.indexOf(headEnd, Math.max(0, before - 3));
    const stop = end < 0 ? seen.length : end + 4;
    // A line that ends in a bare LF would keep us waiting for an empty line that never comes.
    for (let lineEnd = seen.indexOf(lf, before); lineEnd >= 0 && lineEnd < stop; ) {
      if (lineEnd === 0 || seen[lineEnd - 1] !== cr) return this.#fail('a line that ends in a bare LF');
      lineEnd = seen.indexOf(lf, lineEnd + 1);
    }
    if (stop > maxReplyHeadOctets) return this.#fail('a head that is too large');
    if (end < 0) return chunk.length;
    this.#keptOctets = 0;
    return this.#takeHead(seen.toString('latin1', 0, end + 2), at + end + 4 - before);
  }

  #keep(chunk: Buffer, at: number): void {
    // Only the limit and a few octets that show it was passed are kept: the rest of a head that is too large is not copied.
    const room = maxReplyHeadOctets + 8 - this.#keptOctets;
    const length = Math.min(chunk.length - at, room);
    if (this.#keptOctets + length > this.#kept.length) {
      const larger = Buffer.allocUnsafe(Math.max(1024, 2 * this.#kept.length, this.#keptOctets + length));
      this.#kept.copy(larger, 0, 0, this.#keptOctets);
      this.#kept = larger;
    }
    chunk.copy(this.#kept, this.#keptOctets, at, at + length);
    this.#keptOctets += length;
  }

  #takeHead(text: string, next: number): number {
    const head = readReplyHead(text, this.#forHead);
    if ('bad' in head) return this.#fail(head.bad);
    if (head.status === 101) {
      this.#state = 'raw';
      this.#sink?.onInterim(head);
      return next;
    }
    if (head.status < 200) {
      this.#interims += 1;
      if (this.#interims > maxInterims) return this.#fail('too many informational replies');
      this.#sink?.onInterim(head);
      return next;
    }
    this.#beginBody(head);
    return next;
  }

  #beginBody(head: ReplyHead): void {
    this.#kept = this.#kept.length > 4096 ? Buffer.alloc(0) : this.#kept;
    this.#remaining = head.length;
    this.#line = '';
    this.#trailerOctets = 0;
    this.#state = firstState[head.framing];
    this.#sink?.onHead(head);
    if (head.framing === 'none') this.#sink?.onEnd();
  }

  /** Reads of a body whose length is known, or of a chunk. */
  #readCounted(chunk: Buffer, at: number): number {
    const length = Math.min(this.#remaining, chunk.length - at);
    this.#remaining -= length;
    const isWhole = this.#remaining === 0 && this.#state === 'length';
    if (this.#remaining === 0) this.#state = isWhole ? 'done' : 'data-end';
    this.#sink?.onBody(length === chunk.length ? chunk : chunk.subarray(at, at + length), isWhole);
    return at + length;
  }

  #readDataEnd(chunk: Buffer, at: number): number {
    const octet = chunk[at];
    if (this.#line === '' && octet === cr) this.#line = '\r';
    else if (this.#line === '\r' && octet === lf) {
      this.#line = '';
      this.#state = 'size';
    } else return this.#fail('a chunk that does not end where it should');
    return at + 1;
  }

  #readLine(chunk: Buffer, at: number, limit: number): number {
    const end = chunk.indexOf(lf, at);
    const stop = end < 0 ? chunk.length : end;
    if (this.#line.length + stop - at > limit) return this.#fail('a line in the body that is too long');
    const piece = chunk.toString('latin1', at, stop);
    if (end < 0) {
      this.#line += piece;
      return chunk.length;
    }
    const line = this.#line === '' ? piece : this.#line + piece;
    this.#line = '';
    const fault = this.#state === 'size' ? this.#takeSize(line) : this.#takeTrailer(line);
    return fault === undefined ? end + 1 : this.#fail(fault);
  }

  #takeSize(line: string): string | undefined {
    const match = chunkSize.exec(line);
    if (!match) return 'a bad chunk size';
    this.#remaining = Number.parseInt(match[1] ?? '', 16);
    this.#state = this.#remaining === 0 ? 'trailers' : 'data';
    return undefined;
  }

  /** Trailers are dropped (RFC 9110 §6.5.1 allows it), because the head that they may add to has been sent already. */
  #takeTrailer(line: string): string | undefined {
    if (line === '\r') {
      this.#finish();
      return undefined;
    }
    this.#trailerOctets += line.length + 1;
    if (this.#trailerOctets > maxTrailerOctets) return 'trailers that are too large';
    return trailerLine.test(line) ? undefined : 'a bad trailer';
  }
}
