// Cuts the client's octets into lines and message (RFC 5321 §2.3.8), by positions in the stream, however it comes in chunks.

import type { DataReader } from './data-reader.ts';
import { type Answer, replies } from './replies.ts';
import { LibraryReader } from './smtp-library.ts';

/** RFC 4954 §4: an AUTH line has at most 12,288 octets with its CRLF. The dialogue limits other commands further. */
const maxLineOctets = 12_286;
/** Octets of a line that are read at most, its CRLF not counted; the end of a longer line is not waited for. */
const maxReadOctets = 65_536;

/** Takes what the reader cuts out. The reader waits for a promise that a method returns; it must not reject. */
export interface WireListener {
  /** Octets came in before the session was ready for them (RFC 5321 §4.3.1). */
  onEarlyOctets(): void;
  /** A command line without its CRLF. */
  onLine(line: Buffer): Promise<void> | undefined;
  /** A line with more than `maxLineOctets`; its octets are dropped. */
  onOverlongLine(): Promise<void> | undefined;
  /** A line is broken in a way that ends the session. */
  onBrokenLine(answer: Answer): void;
  /** The end of data came, or so much data that reading on is pointless. */
  onData(data: DataReader): Promise<void> | undefined;
  /** All octets that have come are used up; `partialLine` tells whether they end inside a line. */
  onDrained(partialLine: boolean): Promise<void> | undefined;
  /** The client has closed its side, and everything it sent was handled. */
  onEnd(): void;
}

const carriageReturn = 0x0d;
const lineFeed = 0x0a;
const linesInSlice = 100;

/** The reader of a connection, from its start or from STARTTLS on. */
export class WireReader extends LibraryReader {
  /** Set once the greeting is out. */
  ready = false;
  readonly #listener: WireListener;
  #data: DataReader | undefined;
  #chunk: Buffer = Buffer.alloc(0);
  #at = 0;
  #partial: Buffer | undefined;
  #skipping = false;
  /** Octets of the current line that have been dropped. */
  #skipped = 0;
  /** Lines and messages taken since other sessions had a turn. Awaiting a promise does not always give them one. */
  #taken = 0;

  constructor(listener: WireListener) {
    super();
    this.#listener = listener;
  }

  /** The octets that follow are message octets, until the reader has found the end of data. */
  startData(data: DataReader): void {
    this.#data = data;
  }

  get inData(): boolean {
    return this.#data !== undefined;
  }

  protected override take(chunk: Buffer, release: () => void): void {
    if (!this.ready) {
      this.#listener.onEarlyOctets();
      return release();
    }
    this.#chunk = this.#partial ? Buffer.concat([this.#partial, chunk]) : chunk;
    this.#partial = undefined;
    this.#at = 0;
    this.#run(release);
  }

  protected override ended(): void {
    this.#listener.onEnd();
  }

  #run(release: () => void): void {
    while (!this.retired && this.#at < this.#chunk.length) {
      const wait = this.#data ? this.#takeData(this.#data) : this.#takeLine();
      this.#taken += 1;
      if (this.#taken === linesInSlice) {
        // A chunk full of commands must not keep other sessions waiting.
        void this.#nextSlice(wait).then(() => this.#run(release));
        return;
      }
      if (wait) {
        void wait.then(() => this.#run(release));
        return;
      }
    }
    this.#chunk = Buffer.alloc(0);
    const wait = this.retired ? undefined : this.#listener.onDrained(this.#partial !== undefined || this.#skipping);
    if (wait) void wait.then(() => release());
    else release();
  }

  async #nextSlice(wait: Promise<void> | undefined): Promise<void> {
    await wait;
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    this.#taken = 0;
  }

  #takeData(data: DataReader): Promise<void> | undefined {
    this.#at = data.feed(this.#chunk, this.#at);
    if (!data.ended && !data.flooded) return undefined;
    this.#data = undefined;
    return this.#listener.onData(data);
  }

  #takeLine(): Promise<void> | undefined {
    const chunk = this.#chunk;
    const start = this.#at;
    const cr = chunk.indexOf(carriageReturn, start);
    const lf = chunk.indexOf(lineFeed, start);
    this.#at = chunk.length;
    const end = Math.min(cr < 0 ? chunk.length : cr, lf < 0 ? chunk.length : lf);
    if (this.#skipped + end - start > maxReadOctets) {
      this.#listener.onBrokenLine(replies.endlessLine);
    } else if (lf >= 0 && (cr < 0 || lf < cr)) {
      this.#listener.onBrokenLine(replies.bareLineEnd);
    } else if (cr < 0 || cr + 1 === chunk.length) {
      this.#keepPartial(chunk, start);
    } else if (chunk[cr + 1] !== lineFeed) {
      this.#listener.onBrokenLine(replies.bareLineEnd);
    } else {
      this.#at = cr + 2;
      return this.#handOver(chunk.subarray(start, cr));
    }
    return undefined;
  }

  #handOver(line: Buffer): Promise<void> | undefined {
    const overlong = this.#skipping || line.length > maxLineOctets;
    this.#skipping = false;
    this.#skipped = 0;
    return overlong ? this.#listener.onOverlongLine() : this.#listener.onLine(line);
  }

  /** Keeps the start of a line until the rest comes; of a line that is already too long, only a CR at its end. */
  #keepPartial(chunk: Buffer, start: number): void {
    const endsInCr = chunk[chunk.length - 1] === carriageReturn;
    const octets = chunk.length - start - (endsInCr ? 1 : 0);
    this.#skipping ||= octets > maxLineOctets;
    if (!this.#skipping) {
      this.#partial = chunk.subarray(start);
      return;
    }
    this.#skipped += octets;
    if (endsInCr) this.#partial = Buffer.of(carriageReturn);
  }
}
