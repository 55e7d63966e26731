// What a next hop may be given by this process now: what its answers allow, at the pace of the configuration, and no more than
// this process has of the limits that hold for all processes together.

import type { MonotonicClock } from '../../base/clock.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import {
  type HopEvent,
  type HopHealth,
  type HopLimits,
  type HopTrouble,
  healthAfter,
  isTroubled,
  newHealth,
} from './hop-health.ts';
import type { HopShare, HopShares, ShareUser } from './hop-share.ts';

/** Counts messages against a rate. After a pause, as many as one second allows may begin at once. */
export class MessagePace {
  readonly #clock: MonotonicClock;
  #perSecond: number | undefined;
  /** When the last message that was begun would have begun, had they come evenly. */
  #at = Number.NEGATIVE_INFINITY;

  /** @param perSecond absent: no limit */
  constructor(perSecond: number | undefined, clock: MonotonicClock) {
    this.#perSecond = perSecond;
    this.#clock = clock;
  }

  /** The rate is another from now on; absent: no limit. */
  limit(perSecond: number | undefined): void {
    this.#perSecond = perSecond;
  }

  /** Milliseconds until a message may begin. */
  get waitMs(): number {
    if (this.#perSecond === undefined) return 0;
    return Math.max(0, this.#at + 1000 / this.#perSecond - this.#clock.monotonic());
  }

  begin(): void {
    if (this.#perSecond === undefined) return;
    const step = 1000 / this.#perSecond;
    this.#at = Math.max(this.#at + step, this.#clock.monotonic() - 1000 + step);
  }
}

/** What one next hop may be given. */
export class HopAllowance {
  readonly share: HopShare;
  readonly #clock: MonotonicClock;
  readonly #pace: MessagePace;
  #health: HopHealth;

  /** @param options.hop names the next hop, and is the same in every process */
  constructor(
    parts: { readonly limits: HopLimits; readonly clock: MonotonicClock; readonly shares: HopShares },
    { hop, changed, ...user }: Omit<ShareUser, 'most'> & { readonly hop: string },
  ) {
    const { limits, clock, shares } = parts;
    this.#clock = clock;
    this.#health = newHealth(limits);
    this.share = shares.share(hop, {
      ...user,
      most: () => this.limits.connections,
      changed: () => {
        this.#follow();
        changed();
      },
    });
    this.#pace = new MessagePace(limits.messagesPerSecond, clock);
    this.#follow();
  }

  get limits(): HopLimits {
    return this.#health.limits;
  }

  /** Why it gets less than its limits allow; undefined where it does not. */
  get trouble(): HopTrouble | undefined {
    return isTroubled(this.#health) ? this.#health.trouble : undefined;
  }

  get lastWords(): SmtpReply | undefined {
    return this.#health.lastWords;
  }

  /** It could not be reached at the last try: it gets one connection, until that one has served a message. */
  get isDown(): boolean {
    return this.#health.isDown;
  }

  get connections(): number {
    return Math.min(this.share.connections, this.#health.isDown ? 1 : this.#health.allowed);
  }

  /** Milliseconds until a connection may be opened. */
  get opensIn(): number {
    return Math.max(this.pausedFor, this.#until(this.#health.opensAt));
  }

  /** Milliseconds until its answers allow a message to be begun on a connection that is open. */
  get pausedFor(): number {
    return this.#until(this.#health.beginsAt);
  }

  /** Milliseconds until a message may be begun on a connection that is open. */
  get beginsIn(): number {
    return Math.max(this.pausedFor, this.#pace.waitMs);
  }

  /**
   * Whether a connection may be opened beside those that are open or being opened. Where the last was refused, one at a time.
   * @param kept connections that are not to be opened now
   */
  mayOpen(open: number, opening: number, kept = 0): boolean {
    if (this.opensIn > 0 || (this.#health.refusals > 0 && opening > 0)) return false;
    return open + opening < this.connections - kept;
  }

  begin(): void {
    this.#pace.begin();
  }

  /** Takes what happened. @returns whether the next hop is given less from now on, or more */
  tell(event: HopEvent): 'less' | 'more' | 'same' {
    const before = this.#health;
    const after = healthAfter(before, event, this.#clock.monotonic());
    this.#health = after;
    if (event.kind === 'limited') this.#follow();
    if (isLess(after, before)) return event.kind === 'limited' ? 'same' : 'less';
    return isLess(before, after) ? 'more' : 'same';
  }

  #until(at: number): number {
    // Mostly nothing is to be waited for, and the clock is not read in vain.
    return at === Number.NEGATIVE_INFINITY ? 0 : Math.max(0, at - this.#clock.monotonic());
  }

  #follow(): void {
    const { messagesPerSecond: rate } = this.limits;
    // Without a connection nothing is begun, whatever the pace.
    if (rate !== undefined && this.share.part > 0) this.#pace.limit(rate * this.share.part);
    else if (rate === undefined) this.#pace.limit(undefined);
  }
}

function isLess(one: HopHealth, other: HopHealth): boolean {
  return (
    one.allowed < other.allowed ||
    one.opensAt > other.opensAt ||
    one.beginsAt > other.beginsAt ||
    (one.isDown && !other.isDown) ||
    (one.refusals > 0 && other.refusals === 0)
  );
}
