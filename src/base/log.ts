// Logging by pino: pretty on a terminal, one JSON object a line otherwise. No secret and no message body is ever logged.

import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import { LogOutput } from './log-output.ts';

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
