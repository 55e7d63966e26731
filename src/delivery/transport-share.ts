// A transport's share of the messages, recipients and octets that delivery may have in hand. A next hop that takes nothing
// fills only its own share; what does not fit waits in the spool, where it needs no memory.

import { Counts } from '../base/counts.ts';
import type { Route } from './settings.ts';

/** An account may have so many times what it leaves free, in octets or in hand, so that there is room for another's first message. */
const greed = 9;

/**
 * Counts octets in memory against a limit. One account leaves a tenth to the others, so that messages which wait for a next
 * hop that says nothing do not take the room of all. An account with nothing in memory gets room for one message of any size
 * while the limit is kept; so the limit is exceeded by one message at a time.
 */
export class ContentBudget {
  used = 0;
  readonly #limit: number;
  readonly #byAccount = new Counts();

  /** @param limit octets */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes room for a message of an account; false if there is none. */
  tryReserve(octets: number, account: string): boolean {
    const own = this.#byAccount.of(account);
    const isFirst = own === 0 && this.used < this.#limit;
    const leavesEnough = own + octets <= greed * (this.#limit - this.used - octets);
    if (this.used > 0 && !isFirst && !leavesEnough) return false;
    this.used += octets;
    this.#byAccount.add(account, octets);
    return true;
  }

  release(octets: number, account: string): void {
    this.used -= octets;
    this.#byAccount.add(account, -octets);
  }
}

/** Messages that delivery may have in hand over all transports, and the least share of a transport. */
const messages = { all: 10_000, least: 100 } as const;
/** Recipients likewise: each costs memory, and a write when it is given back at the end. */
const recipients = { all: 50_000, least: 1000 } as const;
/** Messages claimed from the spool: enough to keep all connections of a transport busy. */
const claimed = { all: 2048, least: 32, most: 512 } as const;
/** Octets of messages read back from the spool. */
const loadedOctets = { all: 64 * 1024 * 1024, most: 32 * 1024 * 1024 } as const;
/** Messages that one claim asks for, at most. */
const mostAtOnce = 256;

/** An account that has used up what it may claim claims again when it may have so many messages, or as many as it has. */
const leastAgain = 64;

interface InHand {
  messages: number;
  recipients: number;
  claimed: number;
}

/** Hands out what may be claimed now. @returns of the messages that an account wants as many as it may have */
export type ClaimRoom = (account: string, wanted: number) => number;

/** What a message in hand uses of the share. */
interface Load {
  readonly entry: { readonly account: string };
  readonly recipientCount: number;
  /** Claimed from the spool, not handed over by the pipeline. */
  readonly isClaimed: boolean;
}

function count(inHand: InHand, { recipientCount, isClaimed }: Load, sign: 1 | -1): void {
  inHand.messages += sign;
  inHand.recipients += sign * recipientCount;
  if (isClaimed) inHand.claimed += sign;
}

/** A transport's share, and how much of it is in use. */
export class TransportShare {
  readonly route: Route;
  /** The transport's name in the spool. */
  readonly name: string;
  /** The budget of accepted messages whose octets are kept until they are delivered. */
  readonly fresh: ContentBudget;
  /** The budget of messages whose octets were read back from the spool. */
  readonly loaded: ContentBudget;
  /** The last claim brought as many messages as it asked for, so there may be more. */
  mayHaveMore = false;
  readonly #most: Readonly<InHand>;
  readonly #all: InHand = { messages: 0, recipients: 0, claimed: 0 };
  /** What each account has in hand; those with nothing are left out. */
  readonly #byAccount = new Map<string, InHand>();
  /** Accounts that the last claim left out, since they had all that they may have. */
  #full: ReadonlySet<string> = new Set();

  /** @param place.transports how many have equal shares @param place.contentBytes octets in memory, over all transports */
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

  /** There is room for a message that an account has just handed in. */
  mayTake(account: string): boolean {
    const own = this.#byAccount.get(account);
    const most = this.#most;
    return (
      this.#all.messages < most.messages &&
      this.#all.recipients < most.recipients &&
      (own?.messages ?? 0) < greed * (most.messages - this.#all.messages) &&
      (own?.recipients ?? 0) < greed * (most.recipients - this.#all.recipients)
    );
  }

  /** How many messages may be claimed from the spool now; 0 without room. */
  get claimLimit(): number {
    if (this.#all.recipients >= this.#most.recipients) return 0;
    return this.#roomOf('') > 0 ? Math.min(mostAtOnce, this.#most.claimed) : 0;
  }

  /** The accounts that may claim nothing now; when one of them may again, there may be more to claim. */
  fullAccounts(): readonly string[] {
    this.#full = new Set([...this.#byAccount.keys()].filter((account) => this.#isFull(account)));
    return [...this.#full];
  }

  /** Makes the room of one claim; what was handed out counts as claimed. */
  claimRoom(): ClaimRoom {
    const own = new Map<string, number>();
    let handedOut = 0;
    return (account, wanted) => {
      const before = own.get(account) ?? 0;
      const given = Math.min(wanted, this.#roomOf(account, { own: before, all: handedOut }));
      own.set(account, before + given);
      handedOut += given;
      return given;
    };
  }

  /** How many messages an account may claim, so that it has at most `greed` times what is left free then. */
  #roomOf(account: string, more = { own: 0, all: 0 }): number {
    const free = this.#most.claimed - this.#all.claimed - more.all;
    const own = (this.#byAccount.get(account)?.claimed ?? 0) + more.own;
    return Math.max(0, Math.floor((greed * free - own) / (greed + 1)));
  }

  #isFull(account: string): boolean {
    const own = this.#byAccount.get(account)?.claimed ?? 0;
    return own > 0 && this.#roomOf(account) < Math.min(leastAgain, own);
  }

  /** How many messages one next hop of several may have in hand: as many as all of them leave free. */
  get freeToClaim(): number {
    return Math.max(0, this.#most.claimed - this.#all.claimed);
  }

  enter(load: Load): void {
    this.#add(load, 1);
  }

  leave(load: Load): void {
    this.#add(load, -1);
    const { account } = load.entry;
    if (this.#full.has(account) && !this.#isFull(account)) this.mayHaveMore = true;
  }

  #add(load: Load, sign: 1 | -1): void {
    const { account } = load.entry;
    const own = this.#byAccount.get(account) ?? { messages: 0, recipients: 0, claimed: 0 };
    count(this.#all, load, sign);
    count(own, load, sign);
    if (own.messages === 0) this.#byAccount.delete(account);
    else this.#byAccount.set(account, own);
  }
}
