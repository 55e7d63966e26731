// Which sockets the plans ask for: pure, so that the same plans give the same listeners after a restart (D84).

import { hostPort, normalAddress } from '../../base/net/socket-address.ts';
import type { ForwardingPlan, TransportProtocol } from '../application/application.ts';
import { wildcardIp } from '../application/ip-address.ts';
import { writePorts } from '../application/port-ranges.ts';
import type { ListenAt } from '../traffic/listener.ts';

/** One socket that is wanted. */
export interface WantedListener {
  readonly transport: TransportProtocol;
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
  /** Of those, the ones of one account. */
  readonly maxPerAccount: number;
  /** This machine's IPv6 addresses. UDP on `::` is a socket on each: an answer would else leave from another than was asked. */
  readonly ipv6Addresses: readonly string[];
  /** TCP ports that the gateway itself listens on, after the offset. */
  readonly ownPorts: ReadonlySet<number>;
}

const highestPort = 65_535;

/** Names a socket: no two listeners have the same key. */
export function listenerKey(transport: TransportProtocol, address: string, port: number): string {
  return `${transport} ${hostPort(address, port)}`;
}

interface PlanSockets {
  readonly count: number;
  /** Why there are fewer than its ports and addresses. */
  readonly problems: readonly string[];
  /** The sockets with their keys; made when they are first asked for, since they may be too many to be made at all. */
  readonly list: () => readonly (readonly [string, WantedListener])[];
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

/** The addresses to bind for one of a plan. */
function addressesOf(given: string, { transport }: ForwardingPlan, { ipv6Addresses }: ListenBounds): readonly string[] {
  if (transport === 'udp' && given === wildcardIp) return ipv6Addresses;
  return [normalAddress(given) ?? given];
}

function socketsOf(plan: ForwardingPlan, bounds: ListenBounds): PlanSockets {
  if (plan.obstacle !== undefined) return { count: 0, problems: [plan.obstacle], list: () => [] };
  const { ports, problems } = bindablePorts(plan, bounds);
  const addresses = plan.addresses.flatMap((given) => addressesOf(given, plan, bounds));
  if (plan.addresses.length > 0 && addresses.length === 0) problems.push('this machine has no IPv6 address');
  let made: ReturnType<PlanSockets['list']> | undefined;
  const make = () =>
    addresses.flatMap((address) =>
      ports.map((edgePort): [string, WantedListener] => {
        const at = { address, port: edgePort + bounds.portOffset, edgePort };
        const { transport, id } = plan;
        return [listenerKey(transport, address, at.port), { transport, at, application: id }];
      }),
    );
  return { count: ports.length * addresses.length, problems, list: () => (made ??= make()) };
}

/** Adds the sockets of a plan to those that are wanted. @returns the edge ports that another one has */
function addTo(wanted: Map<string, WantedListener>, { list }: PlanSockets): readonly number[] {
  const taken: number[] = [];
  for (const [key, listener] of list()) {
    if (wanted.has(key)) taken.push(listener.at.edgePort);
    else wanted.set(key, listener);
  }
  return taken;
}

/**
 * Makes what says which sockets plans ask for. Where they are more than there may be, in all or of one account, the
 * plans that come first are served whole, and one that does not fit any more gets none. Of two plans that ask for the same socket the first has
 * it. A plan that it was given before is not worked out again.
 */
export function createListenPlanner(): (plans: readonly ForwardingPlan[], bounds: ListenBounds) => ListenPlan {
  let known = new WeakMap<ForwardingPlan, PlanSockets>();
  let knownUnder = '';
  return (plans, bounds) => {
    const { portOffset, ownPorts, maxListeners, maxPerAccount, ipv6Addresses } = bounds;
    const under = [portOffset, ...ownPorts, ...ipv6Addresses].join(' ');
    if (under !== knownUnder) known = new WeakMap();
    knownUnder = under;
    const wanted = new Map<string, WantedListener>();
    const problems = new Map<string, readonly string[]>();
    const byAccount = new Map<string, number>();
    for (const plan of plans) {
      const sockets = known.get(plan) ?? socketsOf(plan, bounds);
      known.set(plan, sockets);
      const before = wanted.size;
      const ofAccount = byAccount.get(plan.account) ?? 0;
      const stocks = [
        [maxPerAccount - ofAccount, `the ${maxPerAccount} of its account`],
        [maxListeners - before, maxListeners],
      ] as const;
      const [left, stock] = stocks.find(([left]) => sockets.count > left) ?? [];
      if (left !== undefined) {
        const short = `it needs ${sockets.count} listening sockets, and ${left} of ${stock} are left`;
        problems.set(plan.id, [...sockets.problems, short]);
        continue;
      }
      const taken = addTo(wanted, sockets);
      byAccount.set(plan.account, ofAccount + wanted.size - before);
      const lost = taken.length > 0 ? [`${writePorts(taken)}: another application listens there`] : [];
      problems.set(plan.id, [...sockets.problems, ...lost]);
    }
    return { wanted, problems };
  };
}
