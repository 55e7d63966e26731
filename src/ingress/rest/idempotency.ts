// Idempotency-Key (D48): one message a key, however often and however much at once the request comes. Keys of requests
// under way are in memory; those of messages are in the store, written in the message's own commit.

import { type Fault, Refusal } from '../../http/envelope.ts';
import type { Idempotency } from '../../submit.ts';

/** What a key was used for, as the store has it. */
export interface UsedKey {
  readonly digest: string;
  readonly messageId: string;
  readonly recipients: readonly string[];
  readonly answer?: string;
}

/** The store's keys. */
export interface KeyStore {
  /** What the account has used a key for within 24 hours; by its name. */
  find(account: string, key: string): UsedKey | undefined;
  /** Keeps an answer that differs from the default. */
  answered(account: string, key: string, answer: string): void;
}

const form = /^[\x21-\x7e]{1,255}$/;

function conflict(message: string, status: number): Refusal {
  return new Refusal([{ token: 'E_IDEMPOTENCY_CONFLICT', message, status }]);
}

/** What a request with a key finds: an answer to repeat, or its turn, which it has to end. */
export type Turn = { readonly used: UsedKey } | { readonly end: () => void };

/** Hands out turns. */
export interface Idempotent {
  /**
   * Begins a request.
   * @throws Refusal 409 where one with this key is under way, 422 where the key was used with another body
   */
  begin(account: string, idempotency: Idempotency): Turn;
}

/**
 * Reads the header.
 * @throws Refusal 400 for a key that is none
 */
export function readKey(header: string | readonly string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === 'string' && form.test(header)) return header;
  const fault: Fault = {
    token: 'E_VALIDATION_ERROR',
    message: 'Idempotency-Key must be one key of 1 to 255 printable ASCII characters without blanks',
  };
  throw new Refusal([fault]);
}

/** Makes the turns of one process. */
export function createIdempotent(store: KeyStore): Idempotent {
  const underWay = new Set<string>();
  return {
    begin(account, { key, digest }) {
      const place = `${account} ${key}`;
      if (underWay.has(place)) throw conflict('A request with this Idempotency-Key is still under way', 409);
      const used = store.find(account, key);
      if (used && used.digest !== digest) {
        throw conflict('This Idempotency-Key was used with another request; use a new one for another message', 422);
      }
      if (used) return { used };
      underWay.add(place);
      return { end: () => underWay.delete(place) };
    },
  };
}
