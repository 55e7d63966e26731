// Counts the open requests (D66, 1200): in all, to each zone, and of each client. Upgraded connections count until they close.

import { countedAddress } from '../../base/counted-address.ts';
import type { SharedPlaces } from '../../base/process-group.ts';

/** How many requests may be open. */
export interface RequestLimits {
  /** In all. */
  readonly requests: number;
  /** To one zone, so that no site takes them all. */
  readonly requestsPerZone: number;
  /** Of one client: an IPv4 address or an IPv6 /64. */
  readonly requestsPerAddress: number;
}

/** One request that is counted. */
export interface OpenRequest {
  /** Whether more requests are open, this one included, than its zone, its client or the server may have. */
  isOver(): boolean | Promise<boolean>;
  /**
   * Lets others have its room from now on: where it is wanted, this request ends first.
   * @param giveUp ends the request, or gives false where it goes on
   */
  mayGiveWay(giveUp: () => boolean): void;
  /** Must be called when the request has ended; further calls do nothing. */
  end(): void;
}

/** Counts requests. */
export interface OpenRequests {
  /** Counts a request. `zone` is the zone's id; empty for a request to no zone. */
  begin(zone: string, address: string): OpenRequest;
  /** Requests open now. */
  open(): number;
}

/** Counts by a key. A count of zero is removed, so the map is never larger than the number of open requests. */
class Counts {
  readonly #counts = new Map<string, number>();

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  add(key: string): void {
    this.#counts.set(key, this.of(key) + 1);
  }

  remove(key: string): void {
    const left = this.of(key) - 1;
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
  }
}

/** The places that all processes of a server take together, and how many processes there are. */
export interface SharedRequests {
  readonly places: SharedPlaces;
  readonly count: number;
}

/**
 * The part of a limit that each process has for itself, without asking: together they have a tenth of it. So the few requests
 * that most clients have open cost nothing, and the limit holds for all processes together. A client whose requests all come
 * to one process has that part of the others less.
 */
const ownParts = 10;

function ownPart(limit: number, { count }: SharedRequests): number {
  return Math.floor(limit / (ownParts * count));
}

/**
 * Makes the count in the memory of this process.
 * @param shared where other processes of the server serve, too: what is beyond this one's own part is taken from all
 */
export function createOpenRequests(limits: RequestLimits, shared?: SharedRequests): OpenRequests {
  const counts = new Counts();
  /** What was taken from all. */
  const extra = new Counts();
  let open = 0;
  /** By key, the requests that may give way, the longest waiting first. */
  const yielding = new Map<string, Set<() => boolean>>();
  /** Ends a request that counts towards a key and may give way; false where there is none. */
  const makeRoom = (key: string): boolean => {
    for (const giveWay of yielding.get(key) ?? []) if (giveWay()) return true;
    return false;
  };
  const begin = (zone: string, address: string): OpenRequest => {
    const ofAddress = `edge address ${countedAddress(address)}`;
    const ofZone = `edge zone ${zone}`;
    const keys = ['edge', ...(zone === '' ? [] : [ofZone]), ofAddress];
    const mostOf = (key: string): number =>
      key === 'edge' ? limits.requests : key === ofZone ? limits.requestsPerZone : limits.requestsPerAddress;
    let hasEnded = false;
    let taken: readonly string[] = [];
    const giveBack = (): void => {
      for (const key of taken) extra.remove(key);
      if (taken.length > 0) shared?.places.giveBack(taken);
    };
    const isOverAll = async (of: SharedRequests, wanted: readonly string[]): Promise<boolean> => {
      // Counted at once, so that requests that come meanwhile do not ask for the same places.
      for (const key of wanted) extra.add(key);
      const places = wanted.map((key) => ({ key, most: mostOf(key) - of.count * ownPart(mostOf(key), of) }));
      // Without its supervisor this process is ending, and answers what it has.
      const full = await of.places.take(places).catch(() => undefined);
      if (full === undefined) taken = wanted;
      else for (const key of wanted) extra.remove(key);
      if (full === undefined && hasEnded) giveBack();
      const key = full === undefined ? undefined : wanted[full];
      return key !== undefined && (makeRoom(key) ? isOver() : true);
    };
    let giveWay: (() => boolean) | undefined;
    const forget = (): void => {
      for (const key of keys) {
        const all = yielding.get(key);
        if (giveWay) all?.delete(giveWay);
        if (all?.size === 0) yielding.delete(key);
      }
    };
    const end = (): void => {
      if (hasEnded) return;
      hasEnded = true;
      open -= 1;
      for (const key of keys) counts.remove(key);
      forget();
      giveBack();
    };
    const isOver = (): boolean | Promise<boolean> => {
      for (const key of keys) {
        while (counts.of(key) > mostOf(key)) if (!makeRoom(key)) return true;
      }
      if (!shared) return false;
      const wanted = keys.filter((key) => counts.of(key) - extra.of(key) > ownPart(mostOf(key), shared));
      return wanted.length === 0 ? false : isOverAll(shared, wanted);
    };
    open += 1;
    for (const key of keys) counts.add(key);
    return {
      isOver,
      mayGiveWay(giveUp) {
        if (hasEnded) return;
        giveWay = () => {
          forget();
          if (!giveUp()) return false;
          end();
          return true;
        };
        for (const key of keys) yielding.set(key, (yielding.get(key) ?? new Set()).add(giveWay));
      },
      end,
    };
  };
  return { begin, open: () => open };
}
