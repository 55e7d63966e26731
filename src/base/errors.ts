// Errors for a person to read: what was wrong, where, and what is wanted. Expected results of a message are values, never errors.

/** Something in the configuration is wrong; the process ends with 78, EX_CONFIG of sysexits.h. The message names file, path, value and want. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
  readonly exitCode = 78;
  /** What is allowed but hardly meant, beside what is wrong; one line each. */
  readonly warnings: readonly string[];

  constructor(
    message: string,
    { warnings = [], ...options }: ErrorOptions & { readonly warnings?: readonly string[] } = {},
  ) {
    super(message, options);
    this.warnings = warnings;
  }
}

/** A command was called wrongly; the process ends with 64, EX_USAGE of sysexits.h. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly exitCode = 64;
}

/** Ends the process, so that a supervisor starts it again: without its database a gateway would refuse everything. */
export function endProcess(error: Error): void {
  setImmediate(() => {
    throw error;
  });
}

/** The text of anything thrown. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The system's code of an error (`ECONNREFUSED`), if it has one. */
export function errorCode(thrown: unknown): string | undefined {
  const code = thrown instanceof Error ? (thrown as NodeJS.ErrnoException).code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** Lets an error of the system with this code pass, for `catch`: what failed by it gives undefined. */
export function unlessCode(code: string): (thrown: unknown) => undefined {
  return (thrown) => {
    if (errorCode(thrown) !== code) throw thrown;
  };
}

/** Something that is needed is unavailable for now: 451 4.3.0 or 452 4.3.1 by SMTP, 503 with Retry-After and 10002 or 10003 by HTTP. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable';
  readonly reason: 'room' | 'share' | 'store';
  readonly retryAfterSeconds: number;

  /** The log has the message, a client only that of `share`. @param details.reason `room`: none for mail; `share`: none for more of this account's; `store`: the store cannot be written */
  constructor(
    message: string,
    details: { readonly reason: Unavailable['reason']; readonly retryAfterSeconds: number; readonly cause?: unknown },
  ) {
    super(message, details);
    this.reason = details.reason;
    this.retryAfterSeconds = details.retryAfterSeconds;
  }
}

/** One asker has more waiting than it may: it comes again once some of that is done. */
export class TooMuchAsked extends Error {
  override readonly name = 'TooMuchAsked';
  readonly retryAfterSeconds = 10;
}

/** A database that cannot be used now, as what was thrown tells. */
export function cannotBeUsed(cause: unknown): Unavailable {
  const text = `The database cannot be used now: ${errorMessage(cause)}`;
  return new Unavailable(text, { reason: 'store', retryAfterSeconds: 2, cause });
}
