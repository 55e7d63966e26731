// The interface of a route at work: it takes tasks from its queue and reports the result for each recipient.

import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { TlsFacts } from '../mail/tls-facts.ts';
import type { HopTrouble } from './hop/hop-health.ts';
import type { Task } from './job.ts';
import type { MessageTls } from './mx/tls-demand.ts';
import type { Route } from './settings.ts';
import type { NextHop, RecipientResult } from './smtp/smtp-client.ts';

/** A route at work. */
export interface Transport {
  readonly route: Route;
  /** The most recipients of a message that one task may have. */
  readonly recipientsPerTask: number;
  push(task: Task): void;
  /** Loads the messages of waiting tasks as far as there is room; to be called whenever room becomes free. */
  fill(): void;
  /** While it is paused, it begins no task. */
  pause(isPaused: boolean): void;
  /** Says how many messages for a domain may be handed over now. @param domain undefined where mail of all domains waits together */
  admits(domain: string | undefined): HopAdmission;
  giveBackWhere(isUnwanted: (task: Task) => boolean): void;
  /** The next hops that it knows of, for people. */
  destinations(): readonly DestinationView[];
  readonly active: number;
  readonly connections: number;
  /** Begins nothing more; attempts under way go on to their end. */
  stop(): void;
  /** Breaks off attempts under way; their messages are deferred. */
  abort(): void;
}

/** How many messages a next hop takes now; where it takes none, for how long. */
export type HopAdmission =
  | { readonly messages: number }
  /** Other processes have all that the next hop may be given. */
  | { readonly messages: 0; readonly isElsewhere: true }
  /** `isDown`: what has expired may still be handed over, to be given up. */
  | { readonly messages: 0; readonly waitMs: number; readonly isDown: boolean };

/**
 * Why mail waits for a next hop that is in no trouble: for its pace (`messagesPerSecond`), for room among the connections to all
 * next hops (`delivery.connections`), for a share of its connections, which other processes have, for its octets to be in
 * memory, or until the spool records outcomes again.
 */
export type HopWait = 'pace' | 'room' | 'share' | 'memory' | 'unrecorded';

/** How a next hop is served, in one word. */
export function serviceOf({
  trouble,
  waits,
}: Pick<DestinationView, 'trouble' | 'waits'>): HopTrouble | HopWait | 'served' {
  return trouble ?? waits ?? 'served';
}

/** A next hop as the queue commands show it. */
export interface DestinationView {
  readonly key: string;
  readonly label: string;
  readonly route: string;
  /** The recipient domains that are known to lead there; empty where all of the route do. */
  readonly domains: readonly string[];
  readonly connections: number;
  /** Connections that may be open now, and those that the configuration allows. */
  readonly allowed: number;
  readonly most: number;
  /** Messages in hand that wait, and attempts under way. */
  readonly waiting: number;
  readonly active: number;
  /** Why it gets less than the configuration allows. */
  readonly trouble?: HopTrouble;
  /** What its mail waits for beside that; absent where a connection takes it as soon as it is its turn. */
  readonly waits?: HopWait;
  /** Milliseconds until it is tried again; 0 where it may be at once. */
  readonly waitMs: number;
  readonly lastWords?: SmtpReply;
}

/** What a transport reports of a task. */
export interface TransportEvents {
  /** Reports the result of each recipient in order. @param host `route name (host:port)` @param tls of the connection, if any */
  finish(task: Task, results: readonly RecipientResult[], host: string, tls?: TlsFacts): void;
  /** Reports that the next hop could not be reached, so that there was no attempt. @param retryInMs when the next hop is tried again */
  unreached(task: Task, down: { readonly reply: SmtpReply; readonly host: string; readonly retryInMs: number }): void;
  /** A next hop is given less from now on. */
  troubled(route: string, trouble: HopTrouble): void;
  /** Gives a task back without an attempt. */
  giveBack(task: Task): void;
}

/** Finds next hops; each route at work has one. */
export interface NextHops {
  /**
   * The next hop of a recipient domain (A-label), or the outcome where there is none: null MX, no such domain, DNS out of order.
   * A message that says something of TLS has another next hop than the others to the same domain, where that matters.
   * @param account whose mail it is: what it costs to find next hops is shared between accounts
   */
  find(domain: string, tls: MessageTls | undefined, account: string): Promise<NextHop | RecipientResult>;
}
