// Idempotency-Keys and the messages they made (D48). The spool owns them: a key is written in the same commit as its
// message, so that no crash can part them. A key that exists has its message, and a key that does not exist has sent nothing.

/** How long a key refers to its message. */
export const idempotencyMilliseconds = 24 * 60 * 60 * 1000;

/** A key, and the name of the account that used it. */
export interface AccountKey {
  readonly account: string;
  readonly key: string;
}

/** What a key was used for. */
export interface UsedKey {
  /** SHA-256 of the endpoint and the body, hex. */
  readonly digest: string;
  /** With brackets. */
  readonly messageId: string;
  readonly recipients: readonly string[];
  /** The answer that the client got; absent where it was that all recipients are queued. */
  readonly answer?: string;
}
