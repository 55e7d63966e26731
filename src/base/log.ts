// Logging by pino: pretty on a terminal, one JSON object a line otherwise. No secret and no message body is ever logged.
// Lines are written to a file descriptor without ever waiting for it: a reader that stalls, a full disk or a closed pipe costs lines,
// which are counted, but never blocks or ends the process.

import { closeSync, constants, fstatSync, openSync, write } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import { errorCode } from './errors.ts';

/** Lines that were dropped, and why the output accepted none. */
export interface LogLoss {
  readonly lines: number;
  /** The system's code of the last failure, such as ENOSPC, or `slow` where the reader only did not keep up. */
  readonly reason: string;
}

/** What an output is made from. */
interface LogOutputParts {
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

/** Gives a descriptor whose writes do not block, if possible: pipes and terminals are opened anew, and others never block. */
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

export type { Logger } from 'pino';

// Loaded only at a terminal: a service never needs it.
const prettyFactory = process.stdout.isTTY ? (await import('pino-pretty')).prettyFactory : undefined;

/** Level names as in the configuration, `silent` for none. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** A log, with functions to write out what it still holds. */
export interface OpenLog {
  readonly log: Logger;
  /** Writes out what is buffered, for at most so many milliseconds. */
  readonly drain: (withinMs: number) => Promise<void>;
  /** Drains and closes the log, after its last line. Lines that cannot be written within the time are lost. */
  readonly close: (withinMs: number) => Promise<void>;
  /** Lines dropped since the start, because the output took none and the buffer was full. */
  readonly dropped: () => number;
}

type PrettyFactory = NonNullable<typeof prettyFactory>;

let second = Number.NaN;
let upToSecond = '';

/** The time of a line as pino wants it: ISO 8601, UTC, with milliseconds. The part down to the second is made once a second. */
function isoTime(): string {
  const now = Date.now();
  const milliseconds = now % 1000;
  if (now - milliseconds !== second) {
    second = now - milliseconds;
    upToSecond = `,"time":"${new Date(second).toISOString().slice(0, 20)}`;
  }
  return `${upToSecond}${String(milliseconds).padStart(3, '0')}Z"`;
}

async function alreadyWritten(): Promise<void> {}

const options = (level: LogLevel): LoggerOptions => ({
  level,
  base: null,
  timestamp: isoTime,
  formatters: { level: (label) => ({ level: label }) },
  // No redact here: it copies every object that is logged, and secrets are never passed to a log, which tests check.
});

const { asJsonSym, chindingsSym } = pino.symbols;

/** Writes a line out, as pino calls it; `time` is the member as it stands in the line. */
type AsJson = (this: Logger, fields: object, text: string | undefined, level: number, time: string) => string;

/** Has each line written by one `JSON.stringify`: pino joins it of several pieces for each field, and every message has two lines. */
function withWholeLines(log: Logger): Logger {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- pino declares its symbols, but not what they name
  const byField = Reflect.get(log, asJsonSym) as AsJson;
  const { labels } = log.levels;
  const whole: AsJson = function write(fields, text, level, time) {
    // An error is made plain by pino, and what cannot be written as it is, too.
    if ('err' in fields) return byField.call(this, fields, text, level, time);
    try {
      const members = JSON.stringify(fields).slice(1, -1);
      const told = text === undefined ? '' : `,"msg":${JSON.stringify(text)}`;
      const begun = `{"level":"${labels[level]}"${time}${String(Reflect.get(this, chindingsSym))}`;
      return `${begun}${members === '' ? '' : ','}${members}${told}}\n`;
    } catch {
      return byField.call(this, fields, text, level, time);
    }
  };
  return Object.assign(log, { [asJsonSym]: whole });
}

/**
 * Opens the process's log on standard output. Lines are buffered for at most 100 ms, so that a line costs no system
 * call of its own under load. An output that accepts nothing never blocks or ends the process: lines are kept up to a
 * limit, then dropped and counted, and one line tells how many as soon as the output works again.
 * @param level the lowest level written
 * @param stream another destination (tests); nothing is buffered or dropped then
 * @param process the number of this process where several write to the same output; it stands in each line then
 */
export function openLog(level: LogLevel, stream?: DestinationStream, process?: number): OpenLog {
  if (stream) {
    return {
      log: withWholeLines(pino(options(level), stream)),
      drain: alreadyWritten,
      close: alreadyWritten,
      dropped: () => 0,
    };
  }
  const output = new LogOutput({
    descriptor: 1,
    isShared: process !== undefined,
    onLoss: ({ lines, reason }) => log.warn({ lines, reason }, 'log lines were dropped'),
  });
  const given = { ...options(level), ...(process === undefined ? {} : { base: { process } }) };
  const log = prettyFactory ? prettyLog(given, prettyFactory, output) : withWholeLines(pino(given, output));
  return {
    log,
    drain: (withinMs) => output.drain(withinMs),
    close: (withinMs) => output.close(withinMs),
    dropped: () => output.dropped(),
  };
}

function prettyLog(given: LoggerOptions, make: PrettyFactory, output: DestinationStream): Logger {
  // Without formatters, because pino-pretty wants the level as a number.
  const { formatters: _, ...rest } = given;
  const asText = make({ colorize: true, translateTime: 'HH:MM:ss.l', ignore: 'pid,hostname' });
  return pino(rest, { write: (line) => output.write(asText(JSON.parse(line))) });
}

/** A log that writes nothing (tests, commands). */
export const silentLog: Logger = pino({ level: 'silent' });

/** How many lines of a text are written in full, and for how long those behind them are counted, in milliseconds. */
const writtenInFull = 3;
const countedMs = 10_000;

/**
 * A log in which errors that come for each of many messages at once, as in an outage, do not bury everything else. Of each of
 * the texts the first three lines are written; those of the ten seconds from then on are one line, with the fields of the last
 * of them, and as `count` how many they are.
 * @param plain the log that the lines are written to
 * @param texts the texts of such errors; other lines are written as they come
 */
export function gatherErrors(plain: Logger, texts: readonly string[]): Logger {
  const counted = new Map<string, { seen: number; last: object }>();
  const tell = (text: string): void => {
    const { seen, last } = counted.get(text) ?? { seen: 0, last: {} };
    counted.delete(text);
    if (seen > writtenInFull) plain.error({ ...last, count: seen - writtenInFull }, text);
  };
  const error = (fields: object, text = ''): void => {
    if (!texts.includes(text)) return plain.error(fields, text);
    const gathered = counted.get(text);
    if (!gathered) {
      counted.set(text, { seen: 1, last: fields });
      setTimeout(() => tell(text), countedMs).unref();
      return plain.error(fields, text);
    }
    gathered.seen += 1;
    gathered.last = fields;
    if (gathered.seen <= writtenInFull) plain.error(fields, text);
  };
  return Object.assign<Logger, Pick<Logger, 'error'>>(Object.create(plain), { error });
}
