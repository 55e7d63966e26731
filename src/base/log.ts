// Logging by pino: pretty on a terminal, one JSON object a line otherwise. No secret and no message body is ever logged.

import { type DestinationStream, destination, type Logger, type LoggerOptions, pino } from 'pino';

export type { Logger } from 'pino';

// Loaded only for a person at a terminal: a service never needs it.
const pretty = process.stdout.isTTY ? (await import('pino-pretty')).default : undefined;

/** Level names as in the configuration, `silent` for none. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** A log and the way to have everything written before the process ends. */
export interface OpenLog {
  readonly log: Logger;
  /** Writes out what is still buffered; call it last. */
  readonly flush: () => void;
}

let second = Number.NaN;
let upToSecond = '';

/** The time of a line as pino wants it: ISO 8601, UTC, milliseconds. What a second shares is made once. */
function isoTime(): string {
  const now = Date.now();
  const milliseconds = now % 1000;
  if (now - milliseconds !== second) {
    second = now - milliseconds;
    upToSecond = `,"time":"${new Date(second).toISOString().slice(0, 20)}`;
  }
  return `${upToSecond}${String(milliseconds).padStart(3, '0')}Z"`;
}

/**
 * Opens the process's log on standard output. Lines are buffered for at most 100 ms, so that a line costs no system
 * call of its own under load.
 * @param level the lowest level written
 * @param stream another destination (tests)
 */
export function openLog(level: LogLevel, stream?: DestinationStream): OpenLog {
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp: isoTime,
    formatters: { level: (label) => ({ level: label }) },
    // No redact here: it copies every object that is logged, and secrets are never handed to a log (tests look for them).
  };
  if (stream) return { log: pino(options, stream), flush: () => undefined };
  if (pretty) {
    const { formatters: _, ...prettyOptions } = options;
    return {
      log: pino(
        prettyOptions,
        pretty({ colorize: true, translateTime: 'HH:MM:ss.l', ignore: 'pid,hostname', sync: true }),
      ),
      flush: () => undefined,
    };
  }
  const output = destination({ dest: 1, sync: false, minLength: 8192, periodicFlush: 100 });
  return { log: pino(options, output), flush: () => output.flushSync() };
}

/** A log that writes nothing (tests, commands). */
export const silentLog: Logger = pino({ level: 'silent' });
