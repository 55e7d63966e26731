// What was said in an SMTP session about one message, as the door kept it, for the journal.

/** How a client's connection was protected. */
export interface SessionTls {
  /** `TLSv1.3`, `TLSv1.2`. */
  readonly version: string;
  /** The cipher suite by its standard name. */
  readonly cipher: string;
}

/** The record of one message's transaction. It holds no secret: of AUTH only the mechanism is kept. */
export interface Transcript {
  /** The lines so far: `C` or `S`, the milliseconds of the connection, and what was said, each with a line feed. Bounded. */
  readonly text: () => string;
  /** Undefined in the clear. */
  readonly tls: () => SessionTls | undefined;
  /** How long the octets of the message took to come in, in milliseconds. */
  readonly readMs: number;
}
