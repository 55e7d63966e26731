// How many octets of messages may wait in memory, from the first octet of a body until it is on disk or refused, SMTP and
// HTTP together; and how much of that one client may have. A message in hand costs more than its octets: it is composed
// anew, signed, and handed to the spool's thread.

import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { countedAddress } from './counted-address.ts';

/** Octets of memory that one octet of a body costs at the most, by door; measured by `bench/bodies.ts`. */
export const bodyCosts = { smtp: 3, http: 4 } as const;

/** Memory is counted in steps of so many octets of a body: the least that a body in flight costs. */
const stepOctets = 32_768;

/** Whose a body is, and where it comes in. */
export interface BodyOwner {
  readonly door: keyof typeof bodyCosts;
  /** Id of the account. */
  readonly account: string;
  readonly address: string;
}

/** The room of one body. */
export interface BodyHold {
  /**
   * Holds room for a body of so many octets so far. Where there is none, that is counted as a refusal, what was held is
   * given back, and nothing more is to be kept.
   */
  grow(octets: number): boolean;
  /** Gives everything back; more than once is harmless. */
  release(): void;
}

/** The room of all bodies. */
export interface BodyBudget {
  /** Makes the hold of a body that begins; it holds nothing yet. */
  open(owner: BodyOwner): BodyHold;
  /** Whether a body of so many octets would find room now; where not, that is counted as a refusal. */
  admits(owner: BodyOwner, octets: number): boolean;
  /** Octets of memory held now. */
  readonly held: number;
  /** Octets of memory that may be held. */
  readonly limit: number;
  /** Refusals since the start, by door. */
  readonly refusals: Readonly<Record<keyof typeof bodyCosts, number>>;
}

/**
 * The limit where the configuration names none: a quarter of the memory that this process may use (the machine's, or its
 * container's where that is smaller), and no more than half of the heap that V8 was given, since parts of a message are
 * text there.
 * @returns octets
 */
export function defaultBodyLimit(): number {
  const constrained = process.constrainedMemory();
  const usable = Math.min(totalmem(), constrained > 0 ? constrained : Number.POSITIVE_INFINITY);
  return Math.floor(Math.min(usable / 4, getHeapStatistics().heap_size_limit / 2));
}

/** Octets held by each of many; who holds none is not remembered. */
class Shares {
  readonly #octets = new Map<string, number>();

  of(name: string): number {
    return this.#octets.get(name) ?? 0;
  }

  add(name: string, octets: number): void {
    const now = this.of(name) + octets;
    if (now > 0) this.#octets.set(name, now);
    else this.#octets.delete(name);
  }
}

function costOf({ door }: BodyOwner, octets: number): number {
  return Math.ceil(octets / stepOctets) * stepOctets * bodyCosts[door];
}

/**
 * Makes the budget. No client can take it from the others: an address (IPv6: a /64) may hold as much as is then left
 * free, an account twice that. So one address alone gets half of it, two a third each, and a newcomer always finds some.
 * A body always finds room where there is no other, however large it is.
 * @param limit octets of memory
 */
export function createBodyBudget(limit: number): BodyBudget {
  const addresses = new Shares();
  const accounts = new Shares();
  const refusals = { smtp: 0, http: 0 };
  let held = 0;

  function hasRoom({ account, address }: BodyOwner, more: number): boolean {
    const free = limit - held - more;
    return addresses.of(countedAddress(address)) + more <= free && accounts.of(account) + more <= 2 * free;
  }

  return {
    open(owner) {
      let own = 0;
      const take = (more: number): void => {
        own += more;
        held += more;
        addresses.add(countedAddress(owner.address), more);
        accounts.add(owner.account, more);
      };
      return {
        grow(octets) {
          const more = costOf(owner, octets) - own;
          if (more <= 0) return true;
          if (held > own && !hasRoom(owner, more)) {
            refusals[owner.door] += 1;
            take(-own);
            return false;
          }
          take(more);
          return true;
        },
        release: () => take(-own),
      };
    },
    admits(owner, octets) {
      if (held === 0 || hasRoom(owner, costOf(owner, Math.max(1, octets)))) return true;
      refusals[owner.door] += 1;
      return false;
    },
    get held() {
      return held;
    },
    limit,
    refusals,
  };
}
