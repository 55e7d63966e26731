// Idempotency-Key (D48): a key stands for one message, however often and at how many processes its request comes at once. Keys under way
// are in memory; those of messages are in the store, written in the message's commit.

import { Part } from '../../base/part.ts';
import type { Idempotency, UsedKey } from '../../pipeline/submit.ts';
import { Refusal, refusal } from '../../web/http/envelope.ts';

/** The spool's keys (D48). */
export interface KeyStore {
  /** What the account of this name has used a key for within the last 24 hours. */
  usedKey(account: string, key: string): Promise<UsedKey | undefined>;
  /** Keeps the answer of a key where it differs from the default one. */
  answered(account: string, key: string, answer: string): Promise<void>;
}

const form = /^[\x21-\x7e]{1,255}$/;

function conflict(message: string, status: number): Refusal {
  return new Refusal([{ token: 'E_IDEMPOTENCY_CONFLICT', message, status }]);
}

function underWay(): Refusal {
  return conflict('A request with this Idempotency-Key is still under way', 409);
}

/** Reads the header. @throws Refusal 400 for a malformed key */
export function readKey(header: string | readonly string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === 'string' && form.test(header)) return header;
  const message = 'Idempotency-Key must be one key of 1 to 255 printable ASCII characters without blanks';
  throw refusal('E_VALIDATION_ERROR', message);
}

/** A request with this key is sending; or the store was asked about the key while none was, and this is its answer. */
type KeyState = 'sending' | Promise<UsedKey | undefined>;

/** The use of a key, if it was by the same request. @throws Refusal 422 where it was by another */
function useBy(digest: string, used: UsedKey): UsedKey {
  if (used.digest === digest) return used;
  throw conflict('This Idempotency-Key was used with another request; use a new one for another message', 422);
}

/** The turns of one process. */
export class Idempotent extends Part<KeyStore> {
  readonly #places = new Map<string, KeyState>();

  /**
   * Begins a request. It rejects with a Refusal: 409 where another request with this key is under way, 422 where the key was
   * used with another body. Where the store fails, it rejects with the store's error.
   * @returns the earlier use whose answer it repeats, or the turn to send, which it has to end
   */
  async begin(
    account: string,
    { key, digest }: Idempotency,
  ): Promise<{ readonly used: UsedKey } | { readonly end: () => void }> {
    const name = `${account} ${key}`;
    // Requests that come while the store is asked share its answer, which was asked for while none of them sent: were
    // each to ask for itself, an answer could be older than a message that another has sent meanwhile.
    const place = this.#places.get(name);
    if (place === 'sending') throw underWay();
    const question = place ?? this.parts.usedKey(account, key);
    this.#places.set(name, question);
    const used = await question.catch((thrown: unknown) => {
      this.#leave(name, question);
      throw thrown;
    });
    // Of the requests that shared the answer, the first may be sending by now.
    if (this.#places.get(name) === 'sending') throw underWay();
    if (!used) {
      this.#places.set(name, 'sending');
      return { end: () => this.#leave(name, 'sending') };
    }
    this.#leave(name, question);
    return { used: useBy(digest, used) };
  }

  /** What another process has used the key for since the turn began. It rejects as `begin` does where that is still under way. */
  async usedMeanwhile(account: string, { key, digest }: Idempotency): Promise<UsedKey> {
    const used = await this.parts.usedKey(account, key);
    if (!used) throw underWay();
    return useBy(digest, used);
  }

  #leave(name: string, place: KeyState): void {
    if (this.#places.get(name) === place) this.#places.delete(name);
  }
}
