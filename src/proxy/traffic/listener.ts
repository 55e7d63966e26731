// The interface between the reconciler, which decides what listens where, and the two transports that carry octets (D84).

import type { Clock } from '../../base/clock.ts';
import type { Counts } from '../../base/counts.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import type { ConnectionEvent, ForwardingPlan, Traffic } from '../application/application.ts';
import type { OriginAddress, Origins, RefuseOrigin } from '../origins/origin.ts';
import type { OpenBudget, OpenConnection } from './open-budget.ts';
import type { Endpoint } from './proxy-header.ts';

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
