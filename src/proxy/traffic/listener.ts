// What listeners are given and give: the interface between the reconciler, which decides what listens where, and the two transports that
// carry octets; what all of them may have open together, with a reserve for the rest of the process; and who may enter (D81, D84).

import { readFileSync } from 'node:fs';
import type { Clock } from '../../base/clock.ts';
import { Counts } from '../../base/counts.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import { addressTest, hostPort } from '../../base/net/socket-address.ts';
import { oncePer } from '../../base/once-per.ts';
import type { ConnectionEvent, ForwardingPlan, Traffic, TransportProtocol } from '../application/application.ts';
import type { OriginAddress, Origins, RefuseOrigin } from '../origins/origins.ts';
import type { Endpoint } from './proxy-header.ts';

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

/** Where one listener is bound. */
export interface ListenAt {
  readonly address: string;
  /** The bound port: the edge port and the offset. */
  readonly port: number;
  /** The edge port, as the application names it. */
  readonly edgePort: number;
}

/** Limits and times of the data plane. */
export interface DataPlaneLimits {
  /** Until an origin must have accepted, and agreed on TLS. */
  readonly connectTimeoutMs: number;
  /** A TCP connection without an octet in either direction is closed after it. */
  readonly tcpIdleMs: number;
  /** A UDP session without a datagram in either direction ends after it. */
  readonly udpIdleMs: number;
  /** Open connections or sessions of one application; beyond it new ones are refused. */
  readonly openPerApplication: number;
  /** Open connections or sessions of one client address and application. */
  readonly openPerClient: number;
}

/** The counters of one application; every listener of it adds to the same. */
export type MutableTraffic = { -readonly [Key in keyof Traffic]: Traffic[Key] };

/** One application at run time: what its listeners share. */
export interface RunningApplication {
  /** The plan now; a listener reads it anew for each new connection, so that a change needs no new listener. */
  readonly plan: ForwardingPlan;
  readonly origins: Origins;
  readonly traffic: MutableTraffic;
  /** Keeps an event, and logs it. */
  readonly note: (event: ConnectionEvent) => void;
  /** Open connections or sessions of each client address. */
  readonly openByClient: Counts;
  /** What is open under this plan. When a changed plan takes over it gets an empty set, and what is left here is cut (D84). */
  readonly connections: Set<OpenConnection>;
}

/** What every listener is given. */
export interface ProxyListenerParts {
  /** Gives the limits of an application. */
  readonly limits: (plan: ForwardingPlan) => DataPlaneLimits;
  readonly budget: OpenBudget;
  readonly clock: Clock;
  readonly log: Logger;
  /** Why a connection may not go to an origin (D84): asked when the address is known, whatever a name has come to mean. */
  readonly refuseOrigin: RefuseOrigin;
  /** The certificate for a plan with `tls` not off; undefined: there is none. PEM. */
  readonly certificate: (name: string) => { readonly cert: string; readonly key: string } | undefined;
}

/** What a connection or session belongs to. */
export interface PeerContext {
  /** 16 hex. */
  readonly id: string;
  readonly client: Endpoint;
  /** As it was when the connection came, or the first datagram: a later update does not touch it. */
  readonly application: RunningApplication;
  readonly edgePort: number;
  readonly parts: ProxyListenerParts;
}

type Told = Omit<ConnectionEvent, 'at' | 'connection' | 'client' | 'port' | 'origin'>;

/** Makes what notes the events of one connection or session. */
export function noteFor({ id, client, application, edgePort, parts }: PeerContext) {
  return (told: Told, origin?: OriginAddress): void =>
    application.note({
      at: parts.clock.now(),
      connection: id,
      client: hostPort(client.address, client.port),
      port: edgePort,
      ...(origin && { origin: hostPort(origin.address, origin.port) }),
      ...told,
    });
}

/** Errors of a listener are told once in so many milliseconds. */
const errorLogMs = 10_000;

/** Logs errors of a listener, which outlives them: the system has run out of something, or one datagram was lost. */
export function logErrors(
  socket: { on(event: 'error', listener: (error: Error) => void): unknown },
  { at, clock, log }: Pick<ProxyListenerParts, 'clock' | 'log'> & { readonly at: ListenAt },
  what: string,
): void {
  let toldAt = Number.NEGATIVE_INFINITY;
  socket.on('error', (error) => {
    if (clock.monotonic() - toldAt < errorLogMs) return;
    toldAt = clock.monotonic();
    log.warn({ listener: hostPort(at.address, at.port), error: errorMessage(error) }, what);
  });
}

/** Milliseconds of silence before the system first asks a TCP peer whether it is still there (RFC 9293 §3.8.4). */
export const keepAliveMs = 60_000;

/** A listener that is bound. */
export interface PortListener {
  readonly at: ListenAt;
  /** Stops taking new connections at once, and frees the port; open ones go on for so long and are then cut. */
  close(drainMs: number): Promise<void>;
}

/** Binds one port of an application. @throws the system's error where it cannot (EACCES, EADDRINUSE, EADDRNOTAVAIL, EMFILE) */
export type OpenListener = (
  at: ListenAt,
  running: () => RunningApplication,
  parts: ProxyListenerParts,
) => Promise<PortListener>;

/** Reads the lists of a plan: block wins over allow, an empty allow list allows all. @throws ConfigurationError for what is no network */
export function readFirewall({ block, allow }: ForwardingPlan['firewall']) {
  const isBlocked = addressTest(block);
  const isAllowed = allow.length === 0 ? () => true : addressTest(allow);
  /** Says why an address may not connect; undefined where it may. */
  return (address: string): string | undefined => {
    if (isBlocked(address)) return 'blocked by the zone';
    return isAllowed(address) ? undefined : "not on the zone's allow list";
  };
}

// The lists are read once for each plan, not for each connection.
const firewallOf = oncePer(readFirewall);

/** The scopes in which a session takes room, the names that {@link OpenBudget} keeps it under. */
export function scopesOf({ plan }: RunningApplication, client: string) {
  return {
    all: 'all',
    account: `account ${plan.transport} ${plan.account}`,
    application: `application ${plan.id}`,
    client: `client ${plan.id} ${client}`,
  } as const;
}

function refusalOf(
  application: RunningApplication,
  client: string,
  { limits, budget }: Pick<ProxyListenerParts, 'limits' | 'budget'>,
): string | undefined {
  const { plan, traffic, openByClient } = application;
  const refused = firewallOf(plan.firewall)(client);
  if (refused !== undefined) return refused;
  const { openPerApplication, openPerClient } = limits(plan);
  const ofAccount = () => budget.ofAccount(plan.account, plan.transport);
  const scopes = scopesOf(application, client);
  const bounds = [
    ['application', () => traffic.open, openPerApplication],
    ['client', () => openByClient.of(client), openPerClient],
    ['account', () => ofAccount().open, ofAccount().most],
  ] as const;
  for (const [name, open, most] of bounds) {
    while (open() >= most) {
      if (budget.evict(scopes[name])) continue;
      budget.refuse(name);
      return `the ${name} has ${most} open, its limit`;
    }
  }
  while (!budget.hasRoom(descriptorsOf[plan.transport])) {
    if (budget.evict(scopes.all)) continue;
    budget.refuse('descriptors');
    return 'all applications together have as many files open as they may';
  }
  return undefined;
}

/** Judges a new connection or session, and counts a refusal. At a limit, sessions that no origin has answered make room, the oldest first. */
export function mayEnter(peer: PeerContext): boolean {
  const { application, client, parts } = peer;
  const reason = refusalOf(application, client.address, parts);
  if (reason === undefined) return true;
  application.traffic.refused += 1;
  noteFor(peer)({ kind: 'refused', reason });
  return false;
}

/** Counts a connection or session as open. @returns what counts it as closed; to be called once */
export function countOpen(
  { plan, traffic, openByClient }: RunningApplication,
  client: string,
  budget: OpenBudget,
): () => void {
  traffic.open += 1;
  traffic.connections += 1;
  openByClient.add(client);
  const close = budget.open(plan.account, plan.transport);
  return () => {
    close();
    traffic.open -= 1;
    openByClient.add(client, -1);
  };
}
