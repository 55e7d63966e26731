// What a next hop may be given by this process now: what its answers allow, at the pace of the configuration, and no more than
// this process has of the limits that hold for all processes together.

import type { MonotonicClock } from '../../base/clock.ts';
import { HopHealth, type HopLimits } from './hop-health.ts';
import type { HopShare, HopShares, ShareUser } from './hop-share.ts';
import { MessagePace } from './message-pace.ts';

/** What one next hop may be given. */
export class HopAllowance {
  readonly health: HopHealth;
  readonly share: HopShare;
  readonly #pace: MessagePace;

  /** @param options.hop names the next hop, and is the same in every process */
  constructor(
    {
      limits,
      clock,
      shares,
    }: { readonly limits: HopLimits; readonly clock: MonotonicClock; readonly shares: HopShares },
    { hop, changed, ...user }: Omit<ShareUser, 'most'> & { readonly hop: string },
  ) {
    const most = (): number => this.health.limits.connections;
    this.share = shares.share(hop, {
      ...{ ...user, most },
      changed: () => {
        this.#follow();
        changed();
      },
    });
    this.health = new HopHealth(limits, clock, this.share);
    this.#pace = new MessagePace(limits.messagesPerSecond, clock);
    this.#follow();
  }

  /** The next hop has other limits from now on. */
  limit(limits: HopLimits): void {
    this.health.limit(limits);
    this.#follow();
  }

  /** Milliseconds until a message may be begun on a connection that is open. */
  get waitMs(): number {
    return Math.max(this.health.pausedFor, this.#pace.waitMs);
  }

  /** A message begins. */
  begin(): void {
    this.#pace.begin();
  }

  #follow(): void {
    const { messagesPerSecond: rate } = this.health.limits;
    // Without a connection nothing is begun, whatever the pace.
    if (rate !== undefined && this.share.part > 0) this.#pace.limit(rate * this.share.part);
    else if (rate === undefined) this.#pace.limit(undefined);
  }
}
