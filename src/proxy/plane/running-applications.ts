// The applications at run time: counters, latest events, and the plan that new connections are opened under (D84).

import { isDeepStrictEqual } from 'node:util';
import type { MonotonicClock } from '../../base/clock.ts';
import { Counts } from '../../base/counts.ts';
import type { Logger } from '../../base/log.ts';
import type { ApplicationStatus, ConnectionEvent, ForwardingPlan } from '../application/application.ts';
import { joinReasons } from '../application/texts.ts';
import type { MutableTraffic, RunningApplication } from '../traffic/listener.ts';
import type { DataPlaneParts } from './data-plane-parts.ts';

/** How many events of each of the two kinds are told in one second. */
export const toldPerSecond = 10;

/** Tells events on to `tell`, refusals and errors at most ten of a kind a second; the next one says how many it hid. */
export function createNoteLimit(
  clock: MonotonicClock,
): (event: ConnectionEvent, tell: (event: ConnectionEvent) => void) => void {
  const windows = { refused: { start: 0, told: 0, hidden: 0 }, error: { start: 0, told: 0, hidden: 0 } };
  return (event, tell) => {
    if (event.kind !== 'refused' && event.kind !== 'error') return tell(event);
    const window = windows[event.kind];
    const now = clock.monotonic();
    if (now - window.start >= 1000) {
      window.start = now;
      window.told = 0;
    }
    if (window.told >= toldPerSecond) {
      window.hidden += 1;
      return undefined;
    }
    window.told += 1;
    const { hidden } = window;
    window.hidden = 0;
    return tell(hidden === 0 ? event : { ...event, reason: `${event.reason ?? ''} (and ${hidden} more before it)` });
  };
}

const eventsKept = 100;

/** The counters of an application that has carried nothing. */
export function noTraffic(): MutableTraffic {
  return {
    open: 0,
    connections: 0,
    refused: 0,
    failed: 0,
    bytesFromClients: 0,
    bytesFromOrigins: 0,
    datagramsDropped: 0,
  };
}

/** Logs an event: the end of a connection for everybody, what a flood could repeat without end only for debugging. */
function logEvent(log: Logger, application: string, event: ConnectionEvent): void {
  const { at: _, kind, ...fields } = event;
  const line = { application, ...fields };
  if (kind === 'disconnect') log.info(line, 'proxy connection ended');
  else if (kind === 'error') log.info(line, 'proxy connection failed');
  else log.debug(line, kind === 'connect' ? 'proxy connection opened' : 'proxy connection refused');
}

/** One application; what belongs to the plan is replaced with it, the counters stay. */
export type ApplicationState = ReturnType<typeof createApplicationState>;

/** Begins an application under its first plan. */
export function createApplicationState(
  first: ForwardingPlan,
  parts: Pick<DataPlaneParts, 'createOrigins' | 'clock' | 'log'>,
) {
  const events: ConnectionEvent[] = [];
  // A flood of refusals or failures would push everything else out of the events.
  const limit = createNoteLimit(parts.clock);
  const keep = (event: ConnectionEvent): void => {
    if (events.push(event) > eventsKept) events.shift();
    logEvent(parts.log, first.id, event);
  };
  let status: ApplicationStatus | undefined;
  let current: RunningApplication = {
    plan: first,
    origins: parts.createOrigins(first),
    traffic: noTraffic(),
    note: (event) => limit(event, keep),
    openByClient: new Counts(),
    connections: new Set(),
  };
  return {
    /** What a new connection takes. */
    current: () => current,
    /** The newest first. */
    events: () => events.toReversed(),
    /** Undefined before its listeners were opened for the first time. */
    status: () => status,
    /** Takes a status. @returns whether it is another one: retries that end the same way are not told again */
    settle(now: ApplicationStatus): boolean {
      const before = status;
      status = now;
      return before?.state !== now.state || before.reason !== now.reason;
    },
    /** Lets new connections follow another plan. @param retire gets what was opened under the one before */
    follow(plan: ForwardingPlan, retire: (before: RunningApplication) => void): void {
      const before = current;
      // Everything matters but the addresses, which only say where to listen.
      if (plan === before.plan || isDeepStrictEqual({ ...plan, addresses: [] }, { ...before.plan, addresses: [] }))
        return;
      const { origin, ports } = before.plan;
      const sameOrigin = isDeepStrictEqual([plan.origin, plan.ports], [origin, ports]);
      const origins = sameOrigin ? before.origins : parts.createOrigins(plan);
      current = { ...before, plan, origins, connections: new Set() };
      retire(before);
    },
  };
}

const mostTold = 8;

/** Whether other machines alone serve an application. */
export function isElsewhere({ addresses, elsewhere }: ForwardingPlan): boolean {
  return addresses.length === 0 && elsewhere !== undefined;
}

/** The status of an application. @param reasons why it does not work; none: nothing stands in its way, or another machine serves it */
export function statusOf(reasons: readonly string[], plan: ForwardingPlan): ApplicationStatus {
  if (reasons.length > 0) return { state: 'failed', reason: reasons.join('; ') };
  if (!isElsewhere(plan)) return { state: 'active', reason: '' };
  const others = joinReasons(plan.elsewhere ?? [], mostTold, ', ');
  return { state: 'pending', reason: `another machine serves ${others} (proxy.servedAddresses)` };
}

/** Writes a status into the log. @param bound where the sockets of the application are bound */
export function logStatus(
  log: Logger,
  application: string,
  { state, reason }: ApplicationStatus,
  bound: readonly string[],
): void {
  const listening = joinReasons(bound, mostTold, ', ');
  if (state === 'active') log.info({ application, listening }, 'proxy application is active');
  else if (state === 'pending') log.info({ application, reason }, 'proxy application is served elsewhere');
  else log.warn({ application, reason, listening }, 'proxy application has failed');
}

/** Cuts every connection and session of an application. */
export function cutConnections(running: RunningApplication): void {
  for (const connection of running.connections) connection.cut('the application was changed or removed');
}

/** Applications as they were before a change or their removal, until their connections have ended or were cut. */
export class RetiredPlans {
  readonly #timers = new Map<RunningApplication, NodeJS.Timeout>();

  /** Gives what was opened under a plan the drain time, in milliseconds, then cuts it. */
  add(before: RunningApplication, drainMs: number): void {
    if (before.connections.size === 0) return;
    const timer = setTimeout(() => this.#cut(before), drainMs);
    timer.unref();
    this.#timers.set(before, timer);
  }

  cutAll(): void {
    for (const before of this.#timers.keys()) this.#cut(before);
  }

  #cut(before: RunningApplication): void {
    clearTimeout(this.#timers.get(before));
    this.#timers.delete(before);
    cutConnections(before);
  }
}
