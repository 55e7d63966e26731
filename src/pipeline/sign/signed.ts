// A signed message: the octets that leave, with the place of the platform's signature in them.

import type { KeyObject } from 'node:crypto';
import type { Message } from '../compose/message.ts';

/** A private key ready for signing: parsed once, instead of a PEM string for each signature (D27). */
export interface SigningKey {
  /** The d= tag: A-label, lower case. */
  readonly domain: string;
  /** The s= tag. */
  readonly selector: string;
  readonly algorithm: 'rsa' | 'ed25519';
  readonly key: KeyObject;
}

/** A message with its signatures. The octets that leave are `head` followed by `body`. */
export interface Signed {
  readonly message: Message;
  /** Every header field and the empty line behind them. */
  readonly head: Buffer;
  readonly body: Buffer;
  /** Where in `head` the platform's own signature fields stand, so that a route may leave them out (D27). */
  readonly platformSignature?: { readonly start: number; readonly end: number };
}
