// What all proxy applications may have open (D84): a share for each account, what gives way, and a reserve for the rest of the process.

import { readFileSync } from 'node:fs';
import { Counts } from '../../base/counts.ts';
import type { TransportProtocol } from '../application/application.ts';

/** The least that is left to the rest of the process, however few files it may open. */
const leastReserve = 64;
/** Where nobody tells the limit (no Linux). */
const unknownLimit = 8192;

/** Files that this process may open, sockets among them. */
export function openFilesLimit(): number {
  try {
    const line = readFileSync('/proc/self/limits', 'utf8').match(/^Max open files\s+(\d+)/m);
    return line ? Number(line[1]) : unknownLimit;
  } catch {
    return unknownLimit;
  }
}

/** Of so many files, what the data plane may have: all but a fifth, and all but 64. Never below 0. */
export function descriptorsAllowed(limit: number): number {
  return Math.max(0, limit - Math.max(leastReserve, Math.ceil(limit / 5)));
}

/** Descriptors of one connection or session: a TCP connection has a client's and an origin's. */
export const descriptorsOf = { tcp: 2, udp: 1 } as const satisfies Record<TransportProtocol, number>;

/** A connection or session that can be ended from outside. */
export interface OpenConnection {
  /** Ends the connection or session at once; the reason is told in its last event. */
  readonly cut: (reason: string) => void;
}

/** What may be open. */
export interface BudgetBounds {
  /** Of listeners, connections and sessions together. */
  readonly descriptors: number;
  /** TCP connections of one account. */
  readonly accountConnections: number;
  /** UDP sessions of one account. */
  readonly accountSessions: number;
}

/** Keeps count of all that is open, and of the UDP sessions that no origin has answered yet, the oldest first. */
export class OpenBudget {
  readonly #bounds: BudgetBounds;
  readonly #open = new Counts();
  /** By scope. */
  readonly #unanswered = new Map<string, Set<OpenConnection>>();
  readonly #refused = new Counts();
  #descriptors = 0;
  #evicted = 0;

  constructor(bounds: BudgetBounds) {
    this.#bounds = bounds;
  }

  /** Whether so many descriptors more may be taken. */
  hasRoom(descriptors: number): boolean {
    return this.#descriptors + descriptors <= this.#bounds.descriptors;
  }

  /** Takes so many descriptors. @returns a function that gives them back; only its first call does */
  take(descriptors: number): () => void {
    this.#descriptors += descriptors;
    let isTaken = true;
    return () => {
      if (isTaken) this.#descriptors -= descriptors;
      isTaken = false;
    };
  }

  /** What an account may have open of this kind, and what it has. */
  ofAccount(account: string, transport: TransportProtocol): { readonly open: number; readonly most: number } {
    const { accountConnections, accountSessions } = this.#bounds;
    const most = transport === 'tcp' ? accountConnections : accountSessions;
    return { open: this.#open.of(`${transport} ${account}`), most };
  }

  /** Counts a connection or session of an account, with its descriptors. @returns takes it back; to be called once */
  open(account: string, transport: TransportProtocol): () => void {
    const key = `${transport} ${account}`;
    const giveBack = this.take(descriptorsOf[transport]);
    this.#open.add(key);
    return () => {
      giveBack();
      this.#open.add(key, -1);
    };
  }

  /** Remembers a session as one that gives way. @param scopes where it takes room @returns call it when it is answered or over */
  awaitAnswer(session: OpenConnection, scopes: readonly string[]): () => void {
    for (const scope of scopes) {
      const waiting = this.#unanswered.get(scope);
      if (waiting) waiting.add(session);
      else this.#unanswered.set(scope, new Set([session]));
    }
    return () => {
      for (const scope of scopes) {
        const waiting = this.#unanswered.get(scope);
        waiting?.delete(session);
        if (waiting?.size === 0) this.#unanswered.delete(scope);
      }
    };
  }

  /** Ends the session of a scope that has waited longest for an answer. @returns false where there is none */
  evict(scope: string): boolean {
    const [oldest] = this.#unanswered.get(scope) ?? [];
    if (!oldest) return false;
    this.#evicted += 1;
    oldest.cut('it was never answered, and others needed its place');
    return true;
  }

  refuse(bound: string): void {
    this.#refused.add(bound);
  }

  /** What is open: `evicted` made room, `refused` by the bound that was reached, `byAccount` all of each account. */
  counts() {
    const byAccount = new Counts();
    for (const [key, open] of this.#open) byAccount.add(key.slice(4), open);
    return {
      descriptors: this.#descriptors,
      allowed: this.#bounds.descriptors,
      evicted: this.#evicted,
      refused: this.#refused,
      byAccount,
    };
  }
}
