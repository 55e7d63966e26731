// Idempotency-Keys and the messages they made (D48). The spool owns them: a key is written in the very commit of its message, so
// that no crash can part them: a key that is there has its message, and one that is not has sent nothing.

/** How long a key answers for its message. */
export const idempotencyMilliseconds = 24 * 60 * 60 * 1000;

/** A key, and the name of the account whose it is. */
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
  /** The answer that was told, where it was another than that all recipients are queued. */
  readonly answer?: string;
}
