// Finds where a request ends in the octets of its connection (RFC 9112 §2.2, §6, §7.1). The parser of node:http judges requests;
// this file only counts along, so that the parser never gets an octet of the next request too early. Where the two disagree, the
// parser is right, and no further request is read from that connection.

import type { IncomingHttpHeaders } from 'node:http';

const emptyLine = Buffer.from('\r\n\r\n');
const nothing = Buffer.alloc(0);
const cr = 0x0d;
const lf = 0x0a;

/** Finds the empty line that ends a head, however the head is cut into pieces. */
export class HeadEnd {
  /** The last octets of the pieces before, three at most, since the empty line may be cut anywhere. */
  #tail: Buffer = nothing;
  /** The last eight octets of the request line, as far as it has come; empty lines before it do not count (RFC 9112 §2.2). */
  #line = '';
  #isLineOver = false;

  /** Whether the request line ends as one of HTTP: the parser of node:http takes those of RTSP and ICE as well. */
  isHttp(): boolean {
    return this.#line.startsWith('HTTP/');
  }

  /** How many octets of the piece belong to this head; all of them where it does not end there. */
  take(piece: Buffer): number {
    const { length } = this.#tail;
    if (length === 0) {
      this.#line = '';
      this.#isLineOver = false;
    }
    if (!this.#isLineOver) this.#takeLine(piece);
    if (length > 0) {
      const seam = Buffer.concat([this.#tail, piece.subarray(0, 3)]);
      const at = seam.indexOf(emptyLine);
      if (at >= 0) return this.#ended(at + 4 - length);
    }
    const at = piece.indexOf(emptyLine);
    if (at >= 0) return this.#ended(at + 4);
    // A copy, so that three octets do not keep a whole piece in memory.
    this.#tail = Buffer.concat([this.#tail, piece.subarray(-3)]).subarray(-3);
    return piece.length;
  }

  #takeLine(piece: Buffer): void {
    let from = 0;
    if (this.#line === '') while (piece[from] === cr || piece[from] === lf) from += 1;
    const at = piece.indexOf(cr, from);
    this.#isLineOver = at >= 0;
    const end = at >= 0 ? at : piece.length;
    this.#line = (this.#line + piece.toString('latin1', Math.max(from, end - 8), end)).slice(-8);
  }

  #ended(count: number): number {
    this.#tail = nothing;
    return count;
  }
}

/** Finds the end of a body, however the body is cut into pieces. */
export interface BodyEnd {
  take(piece: Buffer): number;
  readonly done: boolean;
}

function countedBody(length: number): BodyEnd {
  let left = length;
  return {
    get done() {
      return left === 0;
    },
    take(piece) {
      const count = Math.min(left, piece.length);
      left -= count;
      return count;
    },
  };
}

/** The value of a hexadecimal digit; -1 where the octet is none. */
function digitOf(octet: number): number {
  if (octet >= 0x30 && octet <= 0x39) return octet - 0x30;
  const letter = octet | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** A chunked body. RFC 9112 §7.1: chunks, a chunk of size zero, trailers, an empty line. */
class ChunkedBody implements BodyEnd {
  done = false;
  /** Octets of chunk data that are still to come, the line end behind them included. */
  #left = 0;
  #size = 0;
  #inDigits = true;
  #inTrailers = false;
  /** Octets of the present trailer line, without CR. */
  #line = 0;

  take(piece: Buffer): number {
    let at = 0;
    while (at < piece.length && !this.done) {
      if (this.#left > 0) {
        const count = Math.min(this.#left, piece.length - at);
        this.#left -= count;
        at += count;
      } else {
        this.#takeLineOctet(piece[at] ?? 0);
        at += 1;
      }
    }
    return at;
  }

  #takeLineOctet(octet: number): void {
    if (this.#inTrailers) {
      if (octet === lf) {
        this.done = this.#line === 0;
        this.#line = 0;
      } else if (octet !== cr) this.#line += 1;
      return;
    }
    if (octet === lf) {
      if (this.#size === 0) this.#inTrailers = true;
      else this.#left = this.#size + 2;
      this.#size = 0;
      this.#inDigits = true;
      return;
    }
    const digit = this.#inDigits ? digitOf(octet) : -1;
    if (digit < 0) this.#inDigits = false;
    else this.#size = this.#size * 16 + digit;
  }
}

/** Gives what finds the end of the body behind a head; undefined where there is no body (RFC 9112 §6.3). */
export function bodyEndOf(headers: IncomingHttpHeaders): BodyEnd | undefined {
  if (headers['transfer-encoding'] !== undefined) return new ChunkedBody();
  const length = Number(headers['content-length'] ?? 0);
  return length > 0 ? countedBody(length) : undefined;
}

/** Octets of a request's header section: every line with its colon, blank and line end. One octet is one character. */
export function headerSectionOctets(rawHeaders: readonly string[]): number {
  // A line is `name: value` and CRLF: two more octets for the name, two for the value.
  let octets = 2 * rawHeaders.length;
  for (const text of rawHeaders) octets += text.length;
  return octets;
}

/** The most octets that the API takes of a header section, and the most of a target. */
export const maxApiHeadOctets = 32_768;

/** Whether the head of a request is larger than the API takes. */
export function isHeadTooLarge({
  url = '',
  rawHeaders,
}: {
  readonly url?: string | undefined;
  readonly rawHeaders: readonly string[];
}): boolean {
  return url.length > maxApiHeadOctets || headerSectionOctets(rawHeaders) > maxApiHeadOctets;
}
