// How much a next hop is given: all that its limits allow while it serves, half after each reply that asks for less, nothing
// for a while when it cannot be reached or defers everything. What it gets back comes slowly, so that it is not overrun again.

import type { MonotonicClock } from '../../base/clock.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { HopShare } from './hop-share.ts';
import { isThrottling } from './throttling.ts';

/** The first back-off, in milliseconds; each further one is twice as long, up to the longest. */
const firstBackoff = 1000;
/** Replies within this time, in milliseconds, count as one: they answer what was sent before the first of them was read. */
const oneCutMs = 1000;
/** How long, in milliseconds, messages must have been delivered until one more connection is allowed. */
const recoveryMs = 10_000;
/** So many messages in a row that were deferred for all their recipients make a back-off. */
const mostDeferrals = 20;

/** The limits of one next hop, as the configuration gives them. */
export interface HopLimits {
  /** Connections open at once. */
  readonly connections: number;
  /** Messages over one connection; then it is closed and another is opened. */
  readonly messagesPerConnection: number;
  /** Messages begun in a second, over all connections; absent: as many as it takes. */
  readonly messagesPerSecond?: number;
  /** The longest time for which a next hop that is down is left alone, in seconds. */
  readonly backoffSeconds: number;
}

/** Of each limit the lower one. */
export function strictest(one: HopLimits, other: HopLimits): HopLimits {
  const { messagesPerSecond: rate = Number.POSITIVE_INFINITY } = one;
  const slower = Math.min(rate, other.messagesPerSecond ?? Number.POSITIVE_INFINITY);
  return {
    connections: Math.min(one.connections, other.connections),
    messagesPerConnection: Math.min(one.messagesPerConnection, other.messagesPerConnection),
    ...(slower === Number.POSITIVE_INFINITY ? {} : { messagesPerSecond: slower }),
    backoffSeconds: Math.min(one.backoffSeconds, other.backoffSeconds),
  };
}

/** Why a next hop gets less than its limits allow. */
export type HopTrouble = 'down' | 'throttling' | 'deferring';

/** What a next hop is given, from its answers. It holds no connection; times are of the monotonic clock. */
export class HopHealth {
  readonly #clock: MonotonicClock;
  readonly #share: Pick<HopShare, 'connections'> | undefined;
  #limits: HopLimits;
  #allowed: number;
  #failures = 0;
  #pauses = 0;
  #deferrals = 0;
  #downUntil = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #changedAt = Number.NEGATIVE_INFINITY;
  #trouble: HopTrouble | undefined;
  #lastWords: SmtpReply | undefined;

  /** @param share says how many connections this process may have open at all; absent: as many as the limits allow */
  constructor(limits: HopLimits, clock: MonotonicClock, share?: Pick<HopShare, 'connections'>) {
    this.#limits = limits;
    this.#share = share;
    this.#clock = clock;
    this.#allowed = limits.connections;
  }

  get limits(): HopLimits {
    return this.#limits;
  }

  /** It has other limits from now on. */
  limit(limits: HopLimits): void {
    // What it was given less stays so; what it was not, it has by the new limits.
    this.#allowed =
      this.#allowed < this.#limits.connections ? Math.min(this.#allowed, limits.connections) : limits.connections;
    this.#limits = limits;
  }

  /** Connections that may be open now. A next hop that was down gets one, until that one has served a message. */
  get connections(): number {
    const own = this.#share?.connections ?? this.#allowed;
    return Math.min(own, this.#failures > 0 ? 1 : this.#allowed);
  }

  /** It could not be reached at the last try. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** It has been given less than its limits allow, and nothing has shown yet that it may have more. */
  get isTroubled(): boolean {
    return this.#failures > 0 || this.#pauses > 0 || this.#allowed < this.limits.connections;
  }

  /** Milliseconds until a connection may be opened. */
  get opensIn(): number {
    return Math.max(0, this.#downUntil - this.#clock.monotonic(), this.pausedFor);
  }

  /** Milliseconds until a message may be begun on a connection that is open. */
  get pausedFor(): number {
    return Math.max(0, this.#pausedUntil - this.#clock.monotonic());
  }

  /** Why it gets less than its limits allow; undefined where it does not. */
  get trouble(): HopTrouble | undefined {
    return this.isTroubled ? this.#trouble : undefined;
  }

  /** The last reply that made a difference. */
  get lastWords(): SmtpReply | undefined {
    return this.#lastWords;
  }

  /**
   * It refused a connection, or closed several in a row that had served nothing. Failures during a back-off count as one.
   * @returns the length of the back-off, in milliseconds; 0 where one was under way
   */
  refused(reply: SmtpReply): number {
    this.#lastWords = reply;
    if (this.#clock.monotonic() < this.#downUntil) return 0;
    this.#trouble = 'down';
    this.#failures += 1;
    const delay = this.#backoff(this.#failures);
    this.#downUntil = this.#clock.monotonic() + delay;
    return delay;
  }

  /** A connection is ready. @param isBarren those before it were closed before they had served anything */
  opened(isBarren: boolean): void {
    if (!isBarren) this.#failures = 0;
    this.#downUntil = Number.NEGATIVE_INFINITY;
  }

  /** A connection has served a message. @returns whether that makes a difference: more connections may be opened now */
  served(): boolean {
    const wasFailing = this.#failures > 0;
    this.#failures = 0;
    return wasFailing;
  }

  /**
   * A message has ended with these results for its recipients.
   * @returns what came of it, where the next hop is given less from now on; undefined otherwise
   */
  ended(results: readonly { readonly kind: string; readonly reply: SmtpReply }[]): HopTrouble | undefined {
    const throttled = results.find(({ kind, reply }) => kind === 'deferred' && isThrottling(reply));
    if (throttled) return this.#cut(throttled.reply);
    if (results.some(({ kind }) => kind !== 'deferred')) {
      this.#deferrals = 0;
      if (results.some(({ kind }) => kind === 'delivered')) this.#recover();
      return undefined;
    }
    const [first] = results;
    this.#deferrals += 1;
    if (!first || this.#deferrals < mostDeferrals) return undefined;
    this.#deferrals = mostDeferrals / 2;
    return this.#pause('deferring', first.reply);
  }

  #cut(reply: SmtpReply): HopTrouble | undefined {
    this.#lastWords = reply;
    const now = this.#clock.monotonic();
    if (now - this.#changedAt < oneCutMs && this.#trouble === 'throttling') return undefined;
    if (this.#allowed === 1) return this.#pause('throttling', reply);
    this.#changedAt = now;
    this.#trouble = 'throttling';
    this.#allowed = Math.max(1, Math.floor(this.#allowed / 2));
    return 'throttling';
  }

  #pause(trouble: HopTrouble, reply: SmtpReply): HopTrouble {
    this.#lastWords = reply;
    this.#trouble = trouble;
    this.#pauses += 1;
    const now = this.#clock.monotonic();
    this.#changedAt = now;
    this.#pausedUntil = now + this.#backoff(this.#pauses);
    return trouble;
  }

  #recover(): void {
    const now = this.#clock.monotonic();
    this.#pauses = 0;
    if (this.#allowed >= this.limits.connections || now - this.#changedAt < recoveryMs) return;
    this.#allowed += 1;
    this.#changedAt = now;
  }

  #backoff(count: number): number {
    return Math.min(firstBackoff * 2 ** (count - 1), this.limits.backoffSeconds * 1000);
  }
}
