// Limits the memory for messages under way, by SMTP and HTTP together, and each client's share. A body counts from its first octet, by
// HTTP as announced, until it is on disk or refused, and for more than its octets: it is composed anew, signed and passed on.

import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { countedAddress } from './counted-address.ts';
import { Counts } from './counts.ts';

/** Octets of memory that one octet of a body costs at most, by SMTP and by HTTP; measured by `bench/bodies.ts`. */
export const bodyCosts = { smtp: 3, http: 4 } as const;

/** Memory is counted in steps of so many octets of a body. A body costs one step at least. */
const stepOctets = 32_768;

/** Who sends a body, and whether by SMTP or HTTP. */
export interface BodyOwner {
  readonly door: keyof typeof bodyCosts;
  /** Id of the account. */
  readonly account: string;
  /** Name of the account's credential that the request shows; absent where none is known or asked for. */
  readonly credential?: string;
  readonly address: string;
}

/** The memory that one body holds of the budget. */
export interface BodyReservation {
  /** Holds memory for a body's octets so far. Where none is left it gives back what was held and returns false: drop the body. */
  grow(octets: number): boolean;
  /** Gives everything back. Further calls do nothing. */
  release(): void;
}

/** The limit where none is named, in octets: a quarter of this process's memory, half of its heap at most, as some of it is text. */
export function defaultBodyLimit(): number {
  const constrained = process.constrainedMemory();
  const usable = Math.min(totalmem(), constrained > 0 ? constrained : Number.POSITIVE_INFINITY);
  return Math.floor(Math.min(usable / 4, getHeapStatistics().heap_size_limit / 2));
}

function credentialOf({ account, credential = '' }: BodyOwner): string {
  return `${account}/${credential}`;
}

function costOf({ door }: BodyOwner, octets: number): number {
  return Math.ceil(octets / stepOctets) * stepOctets * bodyCosts[door];
}

/**
 * The memory budget of all bodies. No client can use up all of it: an address (IPv6: a /64) or a credential may hold as much as then
 * remains free, an account twice as much. So one address alone gets half of the budget, two get a third each, and another client
 * always finds some. The only body under way always finds room, however large it is.
 */
export class BodyBudget {
  /** Octets of memory that may be held. */
  readonly limit: number;
  /** Refusals since the start, by door. */
  readonly refusals: Record<keyof typeof bodyCosts, number> = { smtp: 0, http: 0 };
  readonly #addresses = new Counts();
  readonly #accounts = new Counts();
  readonly #credentials = new Counts();
  #held = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Octets of memory held now. */
  get held(): number {
    return this.#held;
  }

  /** Makes the hold of a body that begins; it holds nothing yet. */
  open(owner: BodyOwner): BodyReservation {
    let own = 0;
    const take = (more: number): void => {
      own += more;
      this.#take(owner, more);
    };
    return {
      grow: (octets) => {
        const more = costOf(owner, octets) - own;
        if (more <= 0) return true;
        if (this.#held > own && !this.#hasRoom(owner, more)) {
          this.refusals[owner.door] += 1;
          take(-own);
          return false;
        }
        take(more);
        return true;
      },
      release: () => take(-own),
    };
  }

  /** Whether a body of so many octets would find room now. Where it would not, a refusal is counted. */
  admits(owner: BodyOwner, octets: number): boolean {
    if (this.#held === 0 || this.#hasRoom(owner, costOf(owner, Math.max(1, octets)))) return true;
    this.refusals[owner.door] += 1;
    return false;
  }

  #take(owner: BodyOwner, more: number): void {
    this.#held += more;
    this.#addresses.add(countedAddress(owner.address), more);
    this.#accounts.add(owner.account, more);
    if (owner.credential !== undefined) this.#credentials.add(credentialOf(owner), more);
  }

  #hasRoom(owner: BodyOwner, more: number): boolean {
    const { account, address } = owner;
    const free = this.limit - this.#held - more;
    if (owner.credential !== undefined && this.#credentials.of(credentialOf(owner)) + more > free) return false;
    return this.#addresses.of(countedAddress(address)) + more <= free && this.#accounts.of(account) + more <= 2 * free;
  }
}
