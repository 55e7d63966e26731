// Writes log lines to a file descriptor without ever waiting for it. A reader that stalls, a full disk or a closed pipe costs
// lines, which are counted, but never blocks or ends the process.

import { closeSync, constants, fstatSync, openSync, write } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { errorCode } from './errors.ts';

/** Lines that were dropped, and why the output accepted none. */
export interface LogLoss {
  readonly lines: number;
  /** The system's code of the last failure, such as ENOSPC, or `slow` where the reader only did not keep up. */
  readonly reason: string;
}

/** What an output is made from. */
export interface LogOutputParts {
  readonly descriptor: number;
  /** Other processes write to it, too: what one call writes must not be torn. */
  readonly isShared?: boolean;
  /** How many octets are kept while the output accepts none; what comes on top is dropped. 4 MiB if absent. */
  readonly bufferBytes?: number;
  /** Called with the number of lines dropped since the last call, once the output has accepted everything that was kept. */
  readonly onLoss?: (loss: LogLoss) => void;
}

const defaultBufferBytes = 4 * 1024 * 1024;
/** How long lines are gathered, in milliseconds, so that under load not every line costs a system call. */
const gatherMs = 100;
/** As soon as so many octets are gathered, they are written. */
const gatherBytes = 65_536;
/** How many octets go into one system call at most. */
const chunkBytes = 65_536;
/** How many where other processes write, too: what a pipe takes whole or not at all (PIPE_BUF). */
const sharedChunkBytes = 4096;
/** Milliseconds until a reader that accepts nothing now (EAGAIN) is tried again. */
const slowRetryMs = 50;
/** Milliseconds until an output that failed is tried again. */
const failedRetryMs = 500;

/**
 * Gives a descriptor of the same output on which writes do not block, if possible. Pipes and terminals are opened a second
 * time for that. Files and devices accept or refuse a write at once, and Node itself makes a socket non-blocking as soon as
 * `process.stdout` is used.
 */
function withoutWaiting(descriptor: number): { readonly fd: number; readonly isOwn: boolean } {
  try {
    const stat = fstatSync(descriptor);
    const isTerminal = stat.isCharacterDevice() && process.stdout.isTTY && descriptor === 1;
    if (!stat.isFIFO() && !isTerminal) return { fd: descriptor, isOwn: false };
    const flags = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
    return { fd: openSync(`/proc/self/fd/${descriptor}`, flags), isOwn: true };
  } catch {
    return { fd: descriptor, isOwn: false }; // no /proc, or not ours to open: the descriptor as it is
  }
}

/** An output of lines. */
export class LogOutput {
  readonly #bufferBytes: number;
  readonly #chunkBytes: number;
  readonly #gatherBytes: number;
  readonly #octetsOf: (line: string) => number;
  readonly #onLoss: ((loss: LogLoss) => void) | undefined;
  readonly #fd: number;
  readonly #isOwn: boolean;
  #lines: string[] = [];
  #waiting = 0;
  /** The rest of the chunk that is being written. It is kept so that a line is never cut off and begun again. */
  #chunk: Buffer | undefined;
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;
  #dropped = 0;
  #untold = 0;
  #reason = 'slow';
  #onDone: (() => void) | undefined;
  #isClosed = false;

  /** Opens it on a descriptor, usually 1. */
  constructor({ descriptor, bufferBytes, isShared, onLoss }: LogOutputParts) {
    this.#chunkBytes = isShared ? sharedChunkBytes : chunkBytes;
    // Only what must not be torn is counted octet by octet, which costs each line a copy.
    this.#octetsOf = isShared ? (line) => Buffer.byteLength(line) : ({ length }) => length;
    this.#bufferBytes = bufferBytes ?? defaultBufferBytes;
    this.#gatherBytes = Math.min(gatherBytes, this.#bufferBytes * 0.8);
    this.#onLoss = onLoss;
    const { fd, isOwn } = withoutWaiting(descriptor);
    this.#fd = fd;
    this.#isOwn = isOwn;
  }

  /** Takes a line with its line feed. Returns at once; the line is dropped and counted when the buffer is full. */
  write(line: string): void {
    if (this.#isClosed || this.#waiting + line.length > this.#bufferBytes) {
      this.#dropped += 1;
      this.#untold += 1;
      return;
    }
    this.#lines.push(line);
    this.#waiting += line.length;
    if (this.#isWriting) return;
    if (this.#waiting >= this.#gatherBytes && !this.#chunk) this.#writeOn();
    else this.#writeAfter(gatherMs);
  }

  /** Writes what is buffered, for at most so many milliseconds. */
  async drain(withinMs: number): Promise<void> {
    const until = performance.now() + withinMs;
    if (!this.#isWriting) this.#writeOn();
    while (this.#isBusy && performance.now() < until) {
      await new Promise<void>((resolve) => {
        const patience = setTimeout(resolve, Math.max(0, until - performance.now()));
        this.#onDone = () => {
          clearTimeout(patience);
          resolve();
        };
      });
    }
  }

  /** Drains, drops what is left, and ends the output. */
  async close(withinMs: number): Promise<void> {
    await this.drain(withinMs);
    this.#isClosed = true;
    clearTimeout(this.#timer);
    if (this.#isOwn && !this.#isWriting) closeSync(this.#fd);
  }

  dropped(): number {
    return this.#dropped;
  }

  get #isBusy(): boolean {
    return this.#isWriting || this.#chunk !== undefined || this.#lines.length > 0;
  }

  #writeAfter(delayMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#writeOn();
    }, delayMs).unref();
  }

  /** The next chunk: whole lines, about as many octets as one call takes. */
  #nextChunk(): Buffer | undefined {
    if (this.#lines.length === 0) return undefined;
    let length = 0;
    let octets = 0;
    let count = 0;
    for (const line of this.#lines) {
      octets += this.#octetsOf(line);
      if (count > 0 && octets > this.#chunkBytes) break;
      length += line.length;
      count += 1;
    }
    const lines = this.#lines.splice(0, count);
    this.#waiting -= length;
    return Buffer.from(lines.join(''));
  }

  #writeOn(): void {
    if (this.#isWriting || this.#isClosed) return;
    const chunk = (this.#chunk ??= this.#nextChunk());
    if (!chunk) {
      this.#tellLoss();
      return this.#onDone?.();
    }
    this.#isWriting = true;
    write(this.#fd, chunk, 0, chunk.length, null, (error, written) => {
      this.#isWriting = false;
      if (error) {
        const isSlow = errorCode(error) === 'EAGAIN';
        this.#reason = isSlow ? 'slow' : (errorCode(error) ?? error.message);
        return this.#writeAfter(isSlow ? slowRetryMs : failedRetryMs);
      }
      this.#chunk = written < chunk.length ? chunk.subarray(written) : undefined;
      this.#writeOn();
    });
  }

  #tellLoss(): void {
    if (this.#untold === 0) return;
    const loss = { lines: this.#untold, reason: this.#reason };
    this.#untold = 0;
    this.#reason = 'slow';
    this.#onLoss?.(loss);
  }
}
