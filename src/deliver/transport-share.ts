// What a transport may have in hand: its share of messages, recipients and octets. A next hop that takes nothing fills
// its own share and no other, and what does not fit waits in the spool, where it costs nothing.

import { ContentBudget } from './content-budget.ts';
import type { Route } from './settings.ts';

/** What delivery may have in hand over all transports, and the bounds of a transport's share. */
const messages = { all: 10_000, least: 100 } as const;
/** Each recipient costs memory, and a write when it is given back at the end. */
const recipients = { all: 50_000, least: 1000 } as const;
/** Messages claimed from the spool: enough to keep the connections of a transport busy. */
const claimed = { all: 2048, least: 32, most: 512 } as const;
/** Octets of messages read back from the spool. */
const loadedOctets = { all: 64 * 1024 * 1024, most: 32 * 1024 * 1024 } as const;
/** Messages claimed at once. */
const mostAtOnce = 256;

/** What a message in hand counts for. */
interface Load {
  /** How many of its recipients are in hand. */
  readonly recipientCount: number;
  /** Claimed from the spool, not handed over by the pipeline. */
  readonly isClaimed: boolean;
}

/** A transport's share, and what it holds of it. */
export class TransportShare {
  readonly route: Route;
  /** The transport's name in the spool. */
  readonly name: string;
  /** Octets of accepted messages that are kept until they are delivered. */
  readonly fresh: ContentBudget;
  /** Octets of messages read back from the spool. */
  readonly loaded: ContentBudget;
  /** The last claim brought as many as it asked for. */
  mayHaveMore = false;
  readonly #most: { readonly messages: number; readonly recipients: number; readonly claimed: number };
  #messages = 0;
  #recipients = 0;
  #claimed = 0;

  /**
   * @param place.transports how many transports there are: the shares are equal
   * @param place.contentBytes octets of accepted messages kept in memory, over all transports
   */
  constructor(
    route: Route,
    place: { readonly name: string; readonly transports: number; readonly contentBytes: number },
  ) {
    const part = (all: number): number => Math.floor(all / place.transports);
    this.route = route;
    this.name = place.name;
    this.fresh = new ContentBudget(part(place.contentBytes));
    this.loaded = new ContentBudget(Math.min(loadedOctets.most, part(loadedOctets.all)));
    this.#most = {
      messages: Math.max(messages.least, part(messages.all)),
      recipients: Math.max(recipients.least, part(recipients.all)),
      claimed: Math.min(claimed.most, Math.max(claimed.least, part(claimed.all))),
    };
  }

  /** Messages in hand. */
  get inHand(): number {
    return this.#messages;
  }

  /** There is room for a message that has just been accepted. */
  get mayTake(): boolean {
    return this.#messages < this.#most.messages && this.#recipients < this.#most.recipients;
  }

  /** How many messages may be claimed from the spool now; 0 where there is no room. */
  get claimLimit(): number {
    if (this.#recipients >= this.#most.recipients) return 0;
    return this.#claimed < this.#most.claimed ? Math.min(mostAtOnce, this.#most.claimed) : 0;
  }

  enter({ recipientCount, isClaimed }: Load): void {
    this.#messages += 1;
    this.#recipients += recipientCount;
    if (isClaimed) this.#claimed += 1;
  }

  leave({ recipientCount, isClaimed }: Load): void {
    this.#messages -= 1;
    this.#recipients -= recipientCount;
    if (isClaimed) this.#claimed -= 1;
  }
}
