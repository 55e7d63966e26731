// The webhooks that a process sends for, as it knows them, by id and by account.

import { type EventKind, toldKinds } from '../../spool/events/mail-event.ts';

/** What is known of a webhook here. Times are monotonic milliseconds. */
export interface KnownWebhook {
  /** Name of its account. */
  account: string;
  kinds: readonly EventKind[] | undefined;
  /** When it has something to do; infinity: when it is woken. */
  nextAt: number;
  /** When its lease was taken or renewed last; minus infinity: it is not held. */
  leasedAt: number;
  /** When an endpoint that fails was tried last. */
  probedAt: number;
  /** It fails, and is not woken by events. */
  isSlow: boolean;
  /** Another process sends for it, as far as is known; a look at all webhooks finds out when that ends. */
  isElsewhere: boolean;
  /** It was woken while another process sends for it, and has its turn once that one's lease is over. */
  isWanted: boolean;
}

/** A webhook that is known from now on. */
export function newlyKnown(webhook: Pick<KnownWebhook, 'account' | 'kinds' | 'isSlow' | 'isElsewhere'>): KnownWebhook {
  return {
    ...webhook,
    nextAt: Number.POSITIVE_INFINITY,
    leasedAt: Number.NEGATIVE_INFINITY,
    probedAt: Number.NEGATIVE_INFINITY,
    isWanted: true,
  };
}

/** The webhooks that a process knows. */
export class KnownWebhooks {
  readonly #known = new Map<string, KnownWebhook>();
  readonly #byAccount = new Map<string, Set<string>>();

  /** Every webhook with its id. */
  [Symbol.iterator](): MapIterator<[string, KnownWebhook]> {
    return this.#known.entries();
  }

  /** @returns undefined for one that is not known */
  get(id: string): KnownWebhook | undefined {
    return this.#known.get(id);
  }

  /** Knows one more webhook. */
  add(id: string, webhook: KnownWebhook): void {
    this.#known.set(id, webhook);
    this.#byAccount.set(webhook.account, (this.#byAccount.get(webhook.account) ?? new Set()).add(id));
  }

  /** Knows a webhook no more. */
  forget(id: string): void {
    const account = this.#known.get(id)?.account;
    this.#known.delete(id);
    if (account === undefined) return;
    const ids = this.#byAccount.get(account);
    ids?.delete(id);
    if (ids?.size === 0) this.#byAccount.delete(account);
  }

  /** The ids of the webhooks that are woken by an event of a kind. @param account its name */
  wokenBy(account: string, kind: EventKind): readonly string[] {
    return [...(this.#byAccount.get(account) ?? [])].filter((id) => {
      const known = this.#known.get(id);
      return known && !known.isSlow && (known.kinds ?? toldKinds).includes(kind);
    });
  }
}
