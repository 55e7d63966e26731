// Asks the spool for due messages, a transport at a time for which there is room, so that no next hop delays another.

import { type ClockReading, readClock } from '../base/clock.ts';
import { tellOnce } from '../base/fault/tell-once.ts';
import { Part } from '../base/part.ts';
import { BrokenClaim, type ClaimedMessage } from '../spool/broken-claim.ts';
import { domainOfTransport, type Hold } from '../spool/hold.ts';
import type { ClaimQuery, ClaimTurn, DueMessage, TransportOf } from '../spool/spool.ts';
import { leaseMilliseconds } from '../spool/spool-limits.ts';
import type { DeliveryParts } from './new-transport.ts';
import type { Transport } from './transport.ts';
import type { ClaimRoom, TransportShare } from './transport-share.ts';

/** Milliseconds between two questions for due messages and holds: well within the second of D94, also where nobody tells. */
const pollInterval = 500;
/** Recipients that get a transport in one step, at most. */
const strayLimit = 1000;

/** A transport at work, and its share. */
export interface Working {
  readonly transport: Transport;
  readonly share: TransportShare;
}

/** What claiming needs. */
interface ClaimerParts extends Pick<DeliveryParts, 'spool' | 'clock' | 'log' | 'changes'> {
  readonly transports: readonly Working[];
  readonly transportOf: TransportOf;
  /** Nothing is claimed while this is false. */
  readonly mayClaim: () => boolean;
  /** Takes the holds of the operator, as they are now; called at least once a second. */
  readonly hold: (holds: readonly Hold[]) => void;
  /** Takes a message that was claimed. @param claimedAt when the claim began; it lasts for `leaseMilliseconds` */
  readonly take: (working: Working, message: DueMessage, claimedAt: ClockReading) => void;
  /** Takes the recipients of a message that may be claimed, although their claim has failed. */
  readonly giveBack: (message: ClaimedMessage) => void;
}

function hasRoom({ share }: Working): boolean {
  return share.claimLimit > 0;
}

function hasMore(working: Working): boolean {
  return working.share.mayHaveMore && hasRoom(working);
}

/** Claims for all transports of this process. The rounds follow one another and never overlap. */
export class Claimer extends Part<ClaimerParts> {
  #timer: NodeJS.Timeout | undefined;
  #ignore: (() => void) | undefined;
  #round: Promise<void> | undefined;
  readonly #teller = tellOnce({
    fault: (err) => this.parts.log.error({ err }, 'Cannot ask the spool for due messages'),
    over: () => this.parts.log.info('The spool can be asked for due messages again'),
  });
  /** The next round asks for every transport, and for recipients without one. */
  #askAll = false;

  /** Asks now, and then twice a second, and whenever another process tells of something. */
  start(): void {
    const tick = (): void => {
      this.#askAll = true;
      this.poll();
    };
    this.#timer = setInterval(tick, pollInterval);
    this.#ignore = this.parts.changes?.on('mail_due', tick);
    tick();
  }

  /** Stops asking; resolves when what the last claim brought has been taken. */
  async stop(): Promise<void> {
    this.#ignore?.();
    clearInterval(this.#timer);
    await this.#round;
  }

  /** Asks for the transports that may have more due messages and have room for them. */
  poll(): void {
    if (this.#round || !this.parts.mayClaim()) return;
    this.#round = this.#claimAll().finally(() => (this.#round = undefined));
  }

  async #claimAll(): Promise<void> {
    const { transports, mayClaim } = this.parts;
    const isWhole = this.#askAll;
    try {
      let turn = transports.filter(hasMore);
      while ((this.#askAll || turn.length > 0) && mayClaim()) {
        if (this.#askAll) {
          this.parts.hold(await this.parts.spool.holds());
          this.#askAll = await this.#giveTransports();
          turn = transports.filter(hasRoom);
        }
        await this.#claimSideBySide(turn);
        turn = turn.filter(hasMore);
      }
      // One that asks for some transports alone says nothing of the others.
      if (isWhole) this.#teller.worked();
    } catch (thrown) {
      for (const { share } of transports) share.mayHaveMore = false;
      this.#askAll = false;
      this.#teller.failed(thrown);
    }
  }

  /** Claims for several transports in one transaction. If one claim fails, what the others brought is still taken. */
  async #claimSideBySide(turn: readonly Working[]): Promise<void> {
    const claims = await Promise.allSettled(turn.map((working) => this.#claim(working)));
    for (const claim of claims) if (claim.status === 'rejected') throw claim.reason;
  }

  /** Claims for those whose turn it is, so many messages for each that all of them get some. */
  async #claim(working: Working): Promise<void> {
    const { clock, spool } = this.parts;
    const { name: transport, claimLimit } = working.share;
    // Read before the claim, so that our claim ends no later than the spool's.
    const claimedAt = readClock(clock);
    const except = working.share.fullAccounts();
    const turns = await spool.turns({ transport, now: claimedAt.wall, limit: claimLimit, except });
    working.share.mayHaveMore = turns.length > 0;
    const each = Math.ceil(claimLimit / Math.max(1, turns.length));
    const asked = { each, claimedAt, room: working.share.claimRoom() };
    const claims = await Promise.allSettled(turns.map((turn) => this.#claimTurn(working, turn, asked)));
    for (const claim of claims) if (claim.status === 'rejected') throw claim.reason;
    // Turns that belong to other processes stay: they are not asked for again before the next round.
    if (claims.every((claim) => claim.status === 'fulfilled' && claim.value === 'elsewhere'))
      working.share.mayHaveMore = false;
  }

  async #claimTurn(
    working: Working,
    turn: ClaimTurn,
    { each, claimedAt, room }: { readonly each: number; readonly claimedAt: ClockReading; readonly room: ClaimRoom },
  ): Promise<'claimed' | 'elsewhere'> {
    const now = claimedAt.wall;
    const admission = working.transport.admits(domainOfTransport(turn.transport));
    if ('isElsewhere' in admission) return 'elsewhere';
    const query = { ...turn, now, claimUntil: now + leaseMilliseconds };
    let limit = room(turn.account, Math.min(each, admission.messages));
    // What has expired must end although the next hop is down: it is given up with that one's last words.
    const expiredOnly = 'isDown' in admission && admission.isDown;
    if (expiredOnly) limit = each;
    const messages = limit > 0 ? await this.#claimDue({ ...query, limit, expiredOnly }) : [];
    const isOver = 'waitMs' in admission && messages.length < each;
    if (isOver) await this.#postpone(turn, now + Math.max(1, Math.ceil(admission.waitMs)));
    for (const message of messages) this.parts.take(working, message, claimedAt);
    return 'claimed';
  }

  async #claimDue(query: ClaimQuery): Promise<readonly DueMessage[]> {
    try {
      return await this.parts.spool.claimDue(query);
    } catch (thrown) {
      if (thrown instanceof BrokenClaim) for (const message of thrown.messages) this.parts.giveBack(message);
      throw thrown;
    }
  }

  async #postpone(turn: ClaimTurn, until: number): Promise<void> {
    try {
      await this.parts.spool.postpone(turn, until);
    } catch (thrown) {
      this.parts.log.error({ err: thrown }, 'Cannot put off what waits for a next hop that takes nothing');
    }
  }

  /** Gives transports to recipients of an older database or configuration; true when more of them may be left. */
  async #giveTransports(): Promise<boolean> {
    const { clock, spool, transports, transportOf } = this.parts;
    const names = transports.map(({ share }) => share.name);
    const strays = { now: clock.now(), limit: strayLimit, transports: names, transportOf };
    return (await spool.giveTransports(strays)) === strayLimit;
  }
}
