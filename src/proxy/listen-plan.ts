// Which sockets the plans ask for: pure, so that the same plans give the same listeners after a restart (D84).

import type { ForwardingPlan, Transport } from './application.ts';
import type { ListenAt } from './listener.ts';
import { hostPort, normalAddress } from './socket-address.ts';
import { writePorts } from './written-ports.ts';

/** One socket that is wanted. */
export interface WantedListener {
  readonly transport: Transport;
  readonly at: ListenAt;
  /** Id of the application. */
  readonly application: string;
}

/** What the plans come to. */
export interface ListenPlan {
  /** By {@link listenerKey}. */
  readonly wanted: ReadonlyMap<string, WantedListener>;
  /** Why an application gets less than it asks for, by its id. */
  readonly problems: ReadonlyMap<string, readonly string[]>;
}

/** What bounds the listeners. */
export interface ListenBounds {
  /** Added to every edge port (`proxy.portOffset`). */
  readonly portOffset: number;
  /** Listening sockets of all applications together. */
  readonly maxListeners: number;
  /** TCP ports that the gateway itself listens on, after the offset. */
  readonly ownPorts: ReadonlySet<number>;
}

const highestPort = 65_535;

/** Names a socket: no two listeners have the same key. */
export function listenerKey(transport: Transport, address: string, port: number): string {
  return `${transport} ${hostPort(address, port)}`;
}

/** The edge ports of a plan that can be bound, and what is wrong with the others. */
function bindablePorts(plan: ForwardingPlan, { portOffset, ownPorts }: ListenBounds) {
  const { first, last } = plan.ports;
  const ports: number[] = [];
  const own: number[] = [];
  const highest = Math.min(last, highestPort - portOffset);
  for (let port = first; port <= highest; port += 1) {
    const isOwn = plan.transport === 'tcp' && ownPorts.has(port + portOffset);
    (isOwn ? own : ports).push(port);
  }
  const problems: string[] = [];
  if (highest < last) {
    const over = writePorts([{ first: Math.max(first, highest + 1), last }]);
    problems.push(`${over} and the offset of ${portOffset} are over ${highestPort}`);
  }
  if (own.length > 0) problems.push(`${writePorts(own)}: the gateway itself listens there`);
  return { ports, problems };
}

/**
 * Says which sockets the plans ask for. Where they are more than there may be, the plans that come first are served
 * whole, and one that does not fit any more gets none. Of two plans that ask for the same socket the first has it.
 */
export function planListeners(plans: readonly ForwardingPlan[], bounds: ListenBounds): ListenPlan {
  const wanted = new Map<string, WantedListener>();
  const problems = new Map<string, readonly string[]>();
  for (const plan of plans) {
    const { ports, problems: wrong } = bindablePorts(plan, bounds);
    problems.set(plan.id, wrong);
    const asked = ports.length * plan.addresses.length;
    const left = bounds.maxListeners - wanted.size;
    if (asked > left) {
      wrong.push(`it needs ${asked} listening sockets, and ${left} of ${bounds.maxListeners} are left`);
      continue;
    }
    const taken: number[] = [];
    for (const given of plan.addresses) {
      const address = normalAddress(given) ?? given;
      for (const edgePort of ports) {
        const at = { address, port: edgePort + bounds.portOffset, edgePort };
        const key = listenerKey(plan.transport, address, at.port);
        if (wanted.has(key)) taken.push(edgePort);
        else wanted.set(key, { transport: plan.transport, at, application: plan.id });
      }
    }
    if (taken.length > 0) wrong.push(`${writePorts(taken)}: another application listens there`);
  }
  return { wanted, problems };
}
