// Asks the spool for what is due, lane by lane: as much as a lane's share has room for, so that the many due messages of
// one next hop never stand before those of another.

import { type Clock, type ClockReading, readClock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { leaseMilliseconds } from '../spool/lease.ts';
import type { DueMessage, LaneOf, Spool } from '../spool/spool.ts';
import type { Lane } from './lane.ts';
import type { LaneShare } from './lane-share.ts';

/** How often the spool is asked for due messages, in milliseconds; commands beside the server are noticed by it (D94). */
const pollInterval = 1000;
/** Recipients given a lane at once. */
const strayLimit = 1000;

/** A lane, and its share. */
export interface Working {
  readonly lane: Lane;
  readonly share: LaneShare;
}

/** What claiming needs. */
export interface ClaimerParts {
  readonly spool: Pick<Spool, 'claimDue' | 'giveLanes'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly lanes: readonly Working[];
  readonly laneOf: LaneOf;
  /** Nothing is claimed while this is false. */
  readonly mayClaim: () => boolean;
  /**
   * Takes a message that was claimed.
   * @param claimedAt when the claim began, which lasts for `leaseMilliseconds`
   */
  readonly take: (working: Working, message: DueMessage, claimedAt: ClockReading) => void;
}

function hasRoom({ lane, share }: Working): boolean {
  return share.claimLimit > 0 && !lane.isDown;
}

function hasMore(working: Working): boolean {
  return working.share.mayHaveMore && hasRoom(working);
}

/** Claims for all lanes of this process; one round after another, never two at once. */
export class Claimer {
  readonly #parts: ClaimerParts;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  /** Every lane is to be asked, and there may be recipients that wait in none. */
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

  /** Asks for the lanes that may have more and have room for it. */
  poll(): void {
    if (this.#round || !this.#parts.mayClaim()) return;
    this.#round = this.#claimAll().finally(() => {
      this.#round = undefined;
    });
  }

  async #claimAll(): Promise<void> {
    const { lanes, log, mayClaim } = this.#parts;
    try {
      let turn = lanes.filter(hasMore);
      while ((this.#askAll || turn.length > 0) && mayClaim()) {
        if (this.#askAll) {
          this.#askAll = await this.#giveLanes();
          turn = lanes.filter(hasRoom);
        }
        await this.#claimSideBySide(turn);
        turn = turn.filter(hasMore);
      }
    } catch (thrown) {
      for (const { share } of lanes) share.mayHaveMore = false;
      this.#askAll = false;
      log.error({ err: thrown }, 'Cannot ask the spool for due messages');
    }
  }

  /** All in one transaction of the spool's. What one lane has claimed is taken even where another's claim failed. */
  async #claimSideBySide(turn: readonly Working[]): Promise<void> {
    const claims = await Promise.allSettled(turn.map((working) => this.#claim(working)));
    for (const claim of claims) if (claim.status === 'rejected') throw claim.reason;
  }

  async #claim(working: Working): Promise<void> {
    const { clock, spool, take } = this.#parts;
    const { name: lane, claimLimit: limit } = working.share;
    // Read before the claim, so that it ends for us no later than for the spool.
    const claimedAt = readClock(clock);
    const now = claimedAt.wall;
    const messages = await spool.claimDue({ now, limit, claimUntil: now + leaseMilliseconds, lane });
    working.share.mayHaveMore = messages.length === limit;
    for (const message of messages) take(working, message, claimedAt);
  }

  /** Gives lanes to recipients of an older database or configuration; true when there may be more of them. */
  async #giveLanes(): Promise<boolean> {
    const { clock, spool, lanes, laneOf } = this.#parts;
    const names = lanes.map(({ share }) => share.name);
    return (await spool.giveLanes({ now: clock.now(), limit: strayLimit, lanes: names, laneOf })) === strayLimit;
  }
}
