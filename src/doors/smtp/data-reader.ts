// Reads the octets of DATA: dot-unstuffing, the end, and how much is kept (RFC 5321 §4.5.2). Only CRLF.CRLF ends the data, and only a dot
// behind CRLF is unstuffed; a bare CR or LF is data. That prevents SMTP smuggling, whatever the next hop takes for a line end (D11).

import type { BodyReservation } from '../../base/body-budget.ts';

/** How much of a message is kept, in octets. */
export interface DataLimits {
  /** The room in memory that the message may use; absent: unlimited. */
  readonly reservation?: BodyReservation;
  /** A message over this is counted but no longer kept (D42). */
  readonly messageBytes: number;
  /** After this many octets without an empty line nothing more is kept: the reader of the header section refuses the message. */
  readonly headerBytes: number;
}

const carriageReturn = 0x0d;
const lineFeed = 0x0a;
const dot = 0x2e;
const lineStartWithDot = Buffer.from('\r\n.');
const emptyLine = Buffer.from('\r\n\r\n');

/** Smaller pieces are copied together, so that a client that sends single octets does not cost an object for each. */
const smallPieceBytes = 16_384;
const gatheringBytes = 32_768;

/** Where in a line the reader stands. `dot` and `dotCr`: a dot at the start of a line was read and is held back. */
type State = 'middle' | 'cr' | 'lineStart' | 'dot' | 'dotCr';

/** Takes the octets of one DATA in pieces of any size; how they are split does not change the result. */
export class DataReader {
  /** There was no room for all of the message; nothing of it is kept. */
  noRoom = false;
  /** Octets of the message so far, dots unstuffed, the last CRLF included (RFC 1870 §3). */
  size = 0;
  ended = false;
  readonly #limits: DataLimits;
  #state: State = 'lineStart';
  #pieces: Buffer[] = [];
  #gathering: Buffer | undefined;
  #gathered = 0;
  #keeping = true;
  #headerSeen = false;
  #chunkStart = 0;

  constructor(limits: DataLimits) {
    this.#limits = limits;
  }

  get oversize(): boolean {
    return this.size > this.#limits.messageBytes;
  }

  /** The message is over twice the limit, so the rest of it is not read. */
  get flooded(): boolean {
    return this.size > this.#limits.messageBytes * 2;
  }

  /** Takes octets from `from` on, and removes dots in place. @returns the index behind the last one: behind the end when `ended` */
  feed(chunk: Buffer, from: number): number {
    let index = from;
    let pieceFrom = from;
    let writeAt = from;
    this.#chunkStart = from;
    while (index < chunk.length && !this.ended) {
      const dotAt = this.#nextLineStartDot(chunk, index);
      if (dotAt < 0) {
        index = this.#step(chunk, index);
        continue;
      }
      // RFC 5321 §4.5.2: the dot is dropped, whatever follows it on the line.
      if (writeAt !== pieceFrom) moveDown(chunk, writeAt, { start: pieceFrom, end: dotAt });
      writeAt += dotAt - pieceFrom;
      index = dotAt + 1;
      pieceFrom = index;
      this.#state = 'dot';
    }
    const keptUntil = this.ended || this.#state === 'dotCr' ? pieceFrom : index;
    if (writeAt !== pieceFrom) chunk.copyWithin(writeAt, pieceFrom, keptUntil);
    this.#keep(chunk.subarray(from, writeAt + keptUntil - pieceFrom));
    return index;
  }

  /** Gives the index of the next dot at the start of a line that is visible in the current state, or -1. */
  #nextLineStartDot(chunk: Buffer, index: number): number {
    if (this.#state === 'lineStart') return chunk[index] === dot ? index : -1;
    if (this.#state !== 'middle') return -1;
    return dotBehindCrlf(chunk, index);
  }

  /** Takes octets up to the next dot at the start of a line: one octet, or all the rest in the middle of lines. */
  #step(chunk: Buffer, index: number): number {
    const octet = chunk[index];
    switch (this.#state) {
      case 'middle':
        this.#state = stateBehind(chunk, index);
        return chunk.length;
      case 'lineStart':
        this.#state = 'middle';
        return index;
      case 'cr':
        this.#state = octet === lineFeed ? 'lineStart' : octet === carriageReturn ? 'cr' : 'middle';
        return index + 1;
      case 'dot':
        this.#state = octet === carriageReturn ? 'dotCr' : 'middle';
        return octet === carriageReturn ? index + 1 : index;
      case 'dotCr':
        return this.#stepBehindDotCr(octet, index);
    }
    return index;
  }

  #stepBehindDotCr(octet: number | undefined, index: number): number {
    if (octet === lineFeed) {
      this.ended = true;
      return index + 1;
    }
    // The CR was data after all. If the chunk begins here, the CR was held back with the chunk before.
    if (index === this.#chunkStart) this.#keep(Buffer.of(carriageReturn));
    this.#state = 'cr';
    return index;
  }

  /** The octets that were kept: the whole message, unless it is over a limit. */
  message(): Buffer {
    this.#closeGathering();
    const only = this.#pieces[0];
    if (only && this.#pieces.length === 1) return only;
    const whole = Buffer.concat(this.#pieces);
    this.#pieces = [whole];
    return whole;
  }

  #keep(piece: Buffer): void {
    if (piece.length === 0) return;
    this.size += piece.length;
    if (!this.#keeping) return;
    if (this.oversize) {
      this.#drop();
      return this.#limits.reservation?.release();
    }
    if (this.#limits.reservation?.grow(this.size) === false) {
      this.noRoom = true;
      return this.#drop();
    }
    if (this.#pieces.length === 0) this.#pieces.push(piece);
    else this.#append(piece);
    if (!this.#headerSeen && this.size >= this.#limits.headerBytes) {
      const start = this.message();
      this.#headerSeen = start.includes(emptyLine) || (start[0] === carriageReturn && start[1] === lineFeed);
      this.#keeping = this.#headerSeen;
    }
  }

  #drop(): void {
    this.#keeping = false;
    this.#pieces = [];
    this.#gathering = undefined;
  }

  #append(piece: Buffer): void {
    if (piece.length >= smallPieceBytes) {
      this.#closeGathering();
      this.#pieces.push(piece);
      return;
    }
    if (this.#gathering && this.#gathered + piece.length > this.#gathering.length) this.#closeGathering();
    if (!this.#gathering) {
      this.#gathering = Buffer.allocUnsafe(gatheringBytes);
      this.#gathered = 0;
    }
    piece.copy(this.#gathering, this.#gathered);
    this.#gathered += piece.length;
  }

  #closeGathering(): void {
    if (!this.#gathering) return;
    this.#pieces.push(this.#gathering.subarray(0, this.#gathered));
    this.#gathering = undefined;
  }
}

/** Octets examined or moved one by one before a native function is called, since such a call costs as much. */
const nearby = 64;

/** The index of the next dot behind CRLF, from an index on; -1. Guards against a body of nothing but lines with a dot. */
function dotBehindCrlf(chunk: Buffer, from: number): number {
  const far = Math.min(from + nearby, chunk.length);
  for (let index = from; index < far; index += 1) {
    if (chunk[index] === carriageReturn && chunk[index + 1] === lineFeed && chunk[index + 2] === dot) return index + 2;
  }
  const found = chunk.indexOf(lineStartWithDot, far);
  return found < 0 ? -1 : found + 2;
}

function moveDown(chunk: Buffer, to: number, { start, end }: { readonly start: number; readonly end: number }): void {
  if (end - start > nearby) {
    chunk.copyWithin(to, start, end);
    return;
  }
  for (let index = start; index < end; index += 1) chunk[to + index - start] = chunk[index] ?? 0;
}

/** The state after octets that were searched from `from` and hold no CRLF followed by a dot. */
function stateBehind(chunk: Buffer, from: number): State {
  const last = chunk.length - 1;
  if (chunk[last] === carriageReturn) return 'cr';
  return last > from && chunk[last] === lineFeed && chunk[last - 1] === carriageReturn ? 'lineStart' : 'middle';
}
