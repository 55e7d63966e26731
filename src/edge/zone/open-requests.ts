// Counts the open requests (D66, 1200): in all, to each zone, and of each client. Upgraded connections count until they close.

import { countedAddress } from '../../base/counted-address.ts';
import { Counts } from '../../base/counts.ts';
import type { SharedSlots } from '../../base/process-group.ts';

/** How many requests may be open. */
export interface RequestLimits {
  /** In all. */
  readonly requests: number;
  /** To one zone, so that no site takes them all. */
  readonly requestsPerZone: number;
  /** Of one client: an IPv4 address or an IPv6 /64. */
  readonly requestsPerAddress: number;
}

/** The places that all processes of a server take together, and how many processes there are. */
export interface SharedRequests {
  readonly places: SharedSlots;
  readonly count: number;
}

/** The part of a limit that a process has without asking, a tenth over all: the few requests of most clients cost nothing so. */
const ownParts = 10;

function ownPart(limit: number, { count }: SharedRequests): number {
  return Math.floor(limit / (ownParts * count));
}

/** Counts the requests of this process. */
export class OpenRequests {
  readonly limits: () => RequestLimits;
  readonly shared: SharedRequests | undefined;
  readonly counts = new Counts();
  /** What was taken from all. */
  readonly extra = new Counts();
  /** By key, the requests that may give way, the longest waiting first. */
  readonly yielding = new Map<string, Set<() => boolean>>();
  #open = 0;

  /** @param limits those in force, asked with each request @param shared where other processes of the server serve, too: what is beyond this one's own part is taken from all */
  constructor(limits: () => RequestLimits, shared?: SharedRequests) {
    this.limits = limits;
    this.shared = shared;
  }

  /** Counts a request. `zone` is the zone's id; empty for a request to no zone. */
  begin(zone: string, address: string): OpenRequest {
    this.#open += 1;
    return new OpenRequest(this, zone, address);
  }

  open(): number {
    return this.#open;
  }

  ended(): void {
    this.#open -= 1;
  }

  mostOf(key: string): number {
    const { requests, requestsPerZone, requestsPerAddress } = this.limits();
    if (key === 'edge') return requests;
    return key.startsWith('edge zone ') ? requestsPerZone : requestsPerAddress;
  }

  /** Ends a request that counts towards a key and may give way; false where there is none. */
  makeRoom(key: string): boolean {
    for (const giveWay of this.yielding.get(key) ?? []) if (giveWay()) return true;
    return false;
  }
}

/** One request that is counted. */
export class OpenRequest {
  readonly #of: OpenRequests;
  readonly #keys: readonly string[];
  #hasEnded = false;
  #taken: readonly string[] = [];
  #giveWay: (() => boolean) | undefined;

  constructor(of: OpenRequests, zone: string, address: string) {
    this.#of = of;
    const ofAddress = `edge address ${countedAddress(address)}`;
    this.#keys = zone === '' ? ['edge', ofAddress] : ['edge', `edge zone ${zone}`, ofAddress];
    for (const key of this.#keys) of.counts.add(key);
  }

  /** Whether more requests are open, this one included, than its zone, its client or the server may have. */
  isOver(): boolean | Promise<boolean> {
    const { counts, extra, shared } = this.#of;
    for (const key of this.#keys) {
      while (counts.of(key) > this.#of.mostOf(key)) if (!this.#of.makeRoom(key)) return true;
    }
    if (!shared) return false;
    const wanted = this.#keys.filter((key) => counts.of(key) - extra.of(key) > ownPart(this.#of.mostOf(key), shared));
    return wanted.length === 0 ? false : this.#isOverAll(shared, wanted);
  }

  /** Lets others have its room from now on: where it is wanted, this one ends first. @param giveUp gives false where it goes on */
  mayGiveWay(giveUp: () => boolean): void {
    if (this.#hasEnded) return;
    const giveWay = (): boolean => {
      this.#forget();
      if (!giveUp()) return false;
      this.end();
      return true;
    };
    this.#giveWay = giveWay;
    const { yielding } = this.#of;
    for (const key of this.#keys) yielding.set(key, (yielding.get(key) ?? new Set()).add(giveWay));
  }

  /** Must be called when the request has ended; further calls do nothing. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#of.ended();
    for (const key of this.#keys) this.#of.counts.add(key, -1);
    this.#forget();
    this.#giveBack();
  }

  async #isOverAll(of: SharedRequests, wanted: readonly string[]): Promise<boolean> {
    const { extra } = this.#of;
    // Counted at once, so that requests that come meanwhile do not ask for the same places.
    for (const key of wanted) extra.add(key);
    const places = wanted.map((key) => {
      const most = this.#of.mostOf(key);
      return { key, most: most - of.count * ownPart(most, of) };
    });
    // Without its supervisor this process is ending, and answers what it has.
    const full = await of.places.take(places).catch(() => undefined);
    if (full === undefined) this.#taken = wanted;
    else for (const key of wanted) extra.add(key, -1);
    if (full === undefined && this.#hasEnded) this.#giveBack();
    const key = full === undefined ? undefined : wanted[full];
    return key !== undefined && (this.#of.makeRoom(key) ? this.isOver() : true);
  }

  #giveBack(): void {
    const { extra, shared } = this.#of;
    for (const key of this.#taken) extra.add(key, -1);
    if (this.#taken.length > 0) shared?.places.giveBack(this.#taken);
  }

  #forget(): void {
    const giveWay = this.#giveWay;
    if (!giveWay) return;
    for (const key of this.#keys) {
      const all = this.#of.yielding.get(key);
      all?.delete(giveWay);
      if (all?.size === 0) this.#of.yielding.delete(key);
    }
  }
}
