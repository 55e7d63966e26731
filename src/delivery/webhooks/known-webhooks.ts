// The webhooks that a process sends for, as it knows them, by id and by account.

import { type EventKind, toldKinds } from '../../spool/events/mail-event.ts';

/** What is known of a webhook here. Times are monotonic milliseconds. */
export interface KnownWebhook {
  readonly id: string;
  /** Name of its account. */
  readonly account: string;
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

/** What is not known yet of a webhook that a look has found. */
const unknown = {
  nextAt: Number.POSITIVE_INFINITY,
  leasedAt: Number.NEGATIVE_INFINITY,
  probedAt: Number.NEGATIVE_INFINITY,
  isWanted: true,
} as const;

/** The webhooks that a process knows. */
export class KnownWebhooks {
  readonly #known = new Map<string, KnownWebhook>();
  readonly #byAccount = new Map<string, Set<string>>();

  [Symbol.iterator](): MapIterator<KnownWebhook> {
    return this.#known.values();
  }

  /** @returns undefined for one that is not known */
  get(id: string): KnownWebhook | undefined {
    return this.#known.get(id);
  }

  /** Knows a webhook from now on, and nothing of what was known of it before. */
  add(found: Omit<KnownWebhook, keyof typeof unknown>): KnownWebhook {
    const { id, account } = found;
    this.forget(id);
    const webhook: KnownWebhook = { ...found, ...unknown };
    this.#known.set(id, webhook);
    this.#byAccount.set(account, (this.#byAccount.get(account) ?? new Set()).add(id));
    return webhook;
  }

  forget(id: string): void {
    const account = this.#known.get(id)?.account;
    this.#known.delete(id);
    if (account === undefined) return;
    const ids = this.#byAccount.get(account);
    ids?.delete(id);
    if (ids?.size === 0) this.#byAccount.delete(account);
  }

  /** The webhooks that are woken by an event of a kind. @param account its name */
  wokenBy(account: string, kind: EventKind): readonly KnownWebhook[] {
    return [...(this.#byAccount.get(account) ?? [])].flatMap((id) => {
      const known = this.#known.get(id);
      return known && !known.isSlow && (known.kinds ?? toldKinds).includes(kind) ? known : [];
    });
  }
}
