// Asks the spool for what is due, transport by transport: as much as a transport's share has room for, so that the many
// due messages of one next hop never stand before those of another.

import { type Clock, type ClockReading, readClock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { leaseMilliseconds } from '../spool/lease.ts';
import type { DueMessage, Spool, TransportOf } from '../spool/spool.ts';
import type { Transport } from './transport.ts';
import type { TransportShare } from './transport-share.ts';

/** How often the spool is asked for due messages, in milliseconds; commands beside the server are noticed by it (D94). */
const pollInterval = 1000;
/** Recipients given a transport at once. */
const strayLimit = 1000;

/** A transport, and its share. */
export interface Working {
  readonly transport: Transport;
  readonly share: TransportShare;
}

/** What claiming needs. */
export interface ClaimerParts {
  readonly spool: Pick<Spool, 'claimDue' | 'giveTransports'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly transports: readonly Working[];
  readonly transportOf: TransportOf;
  /** Nothing is claimed while this is false. */
  readonly mayClaim: () => boolean;
  /**
   * Takes a message that was claimed.
   * @param claimedAt when the claim began, which lasts for `leaseMilliseconds`
   */
  readonly take: (working: Working, message: DueMessage, claimedAt: ClockReading) => void;
}

function hasRoom({ transport, share }: Working): boolean {
  return share.claimLimit > 0 && !transport.isDown;
}

function hasMore(working: Working): boolean {
  return working.share.mayHaveMore && hasRoom(working);
}

/** Claims for all transports of this process; one round after another, never two at once. */
export class Claimer {
  readonly #parts: ClaimerParts;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  /** Every transport is to be asked, and there may be recipients that wait for none. */
  #askAll = false;

  constructor(parts: ClaimerParts) {
    this.#parts = parts;
  }

  /** Asks now, and each second from now on. */
  start(): void {
    const tick = (): void => {
      this.#askAll = true;
      this.poll();
    };
    this.#timer = setInterval(tick, pollInterval);
    tick();
  }

  /** Asks no more; resolves when the last claim has been taken. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  /** Asks for the transports that may have more and have room for it. */
  poll(): void {
    if (this.#round || !this.#parts.mayClaim()) return;
    this.#round = this.#claimAll().finally(() => {
      this.#round = undefined;
    });
  }

  async #claimAll(): Promise<void> {
    const { transports, log, mayClaim } = this.#parts;
    try {
      let turn = transports.filter(hasMore);
      while ((this.#askAll || turn.length > 0) && mayClaim()) {
        if (this.#askAll) {
          this.#askAll = await this.#giveTransports();
          turn = transports.filter(hasRoom);
        }
        await this.#claimSideBySide(turn);
        turn = turn.filter(hasMore);
      }
    } catch (thrown) {
      for (const { share } of transports) share.mayHaveMore = false;
      this.#askAll = false;
      log.error({ err: thrown }, 'Cannot ask the spool for due messages');
    }
  }

  /** All in one transaction of the spool's. What one transport has claimed is taken even where another's claim failed. */
  async #claimSideBySide(turn: readonly Working[]): Promise<void> {
    const claims = await Promise.allSettled(turn.map((working) => this.#claim(working)));
    for (const claim of claims) if (claim.status === 'rejected') throw claim.reason;
  }

  async #claim(working: Working): Promise<void> {
    const { clock, spool, take } = this.#parts;
    const { name: transport, claimLimit: limit } = working.share;
    // Read before the claim, so that it ends for us no later than for the spool.
    const claimedAt = readClock(clock);
    const now = claimedAt.wall;
    const messages = await spool.claimDue({ now, limit, claimUntil: now + leaseMilliseconds, transport });
    working.share.mayHaveMore = messages.length === limit;
    for (const message of messages) take(working, message, claimedAt);
  }

  /** Gives transports to recipients of an older database or configuration; true when there may be more of them. */
  async #giveTransports(): Promise<boolean> {
    const { clock, spool, transports, transportOf } = this.#parts;
    const names = transports.map(({ share }) => share.name);
    return (
      (await spool.giveTransports({ now: clock.now(), limit: strayLimit, transports: names, transportOf })) ===
      strayLimit
    );
  }
}
