// Idempotency-Keys and the messages they made (D48). The spool owns them: a key is written in the same commit as its
// message, so that no crash can part them. A key that exists has its message, and a key that does not exist has sent nothing.

import { errorCode } from '../base/errors.ts';

/** How long a key refers to its message. */
export const idempotencyMilliseconds = 24 * 60 * 60 * 1000;

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

/** Crosses threads and sockets with an error, which its class does not. */
const keyUsedCode = 'KEY_USED';

/** A message was not kept because its account has used its key already, perhaps through another process and just now. */
export class KeyUsed extends Error {
  override readonly name = 'KeyUsed';
  readonly code = keyUsedCode;

  constructor(account: string, options?: ErrorOptions) {
    super(`Account ${account} has used this Idempotency-Key already`, options);
  }
}

/** Whether a message was not kept for that. What the key was used for can be asked then. */
export function isKeyUsed(thrown: unknown): boolean {
  return errorCode(thrown) === keyUsedCode;
}
