// Gives many webhooks their turns: a bounded number at a time, of which an account whose endpoints hang leaves as many to the
// others as it has. Those whose endpoints fail have a share of their own, so that the others never wait behind them.

import { FairSlots } from '../../base/fifo.ts';
import { Part } from '../../base/part.ts';
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

/** Turns at the same time, of those that work and of those that fail. */
const most = { working: 64, failing: 16 } as const;
/** How many times the turns that it leaves an account may have: all its webhooks at once, and several such accounts leave some. */
const greed = 1;
/** So long after a turn began one is given the next, in milliseconds, unless it wants it at once: what happens meanwhile goes together. */
const apartMs = 50;

/** A turn, or the pause after it. */
interface Turn {
  /** Who has it, as it is known now: one that was forgotten meanwhile and found again is another object. */
  webhook: KnownWebhook;
  /** The webhook was asked for again meanwhile. */
  isAsked: boolean;
  rest?: NodeJS.Timeout;
}

interface TurnParts {
  /** Gives a turn, and tells whether the webhook wants another at once, behind those that wait; it must not reject. */
  readonly run: (id: string) => Promise<boolean>;
}

/** The turns of all webhooks. */
export class WebhookTurns extends Part<TurnParts> {
  readonly #slots = {
    working: new FairSlots(most.working, greed),
    failing: new FairSlots(most.failing, greed),
  };
  /** Who waits, as it is known now. */
  readonly #waiting = new Map<string, KnownWebhook>();
  /** Those that have their turn, or had it a moment ago. */
  readonly #turns = new Map<string, Turn>();
  #running = 0;
  #isEnded = false;
  #onQuiet: (() => void) | undefined;

  get counts(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running, waiting: this.#waiting.size };
  }

  /** Asks for a turn. One that has its turn now gets another after it; one that waits already waits once. */
  ask(webhook: KnownWebhook): void {
    const { id, account, isSlow } = webhook;
    if (this.#isEnded) return;
    if (this.#waiting.has(id)) {
      this.#waiting.set(id, webhook);
      return;
    }
    const turn = this.#turns.get(id);
    if (turn) {
      turn.isAsked = true;
      turn.webhook = webhook;
      return;
    }
    this.#waiting.set(id, webhook);
    const slots = this.#slots[isSlow ? 'failing' : 'working'];
    void slots.take(account).then((leave) => this.#begin(id).finally(leave));
  }

  /** Begins no more turns; resolves when those under way have ended. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#waiting.clear();
    for (const { rest } of this.#turns.values()) clearTimeout(rest);
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#onQuiet = resolve));
  }

  async #begin(id: string): Promise<void> {
    const webhook = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (!webhook || this.#isEnded) return;
    const turn: Turn = { webhook, isAsked: false };
    const began = performance.now();
    this.#turns.set(id, turn);
    this.#running += 1;
    const again = await this.parts.run(id);
    this.#running -= 1;
    const over = (): void => {
      this.#turns.delete(id);
      if (again || (turn.isAsked && !turn.webhook.isSlow)) this.ask(turn.webhook);
    };
    const left = began + apartMs - performance.now();
    if (again || left <= 0 || this.#isEnded) over();
    else turn.rest = setTimeout(over, left);
    if (this.#isEnded && this.#running === 0) this.#onQuiet?.();
  }
}
