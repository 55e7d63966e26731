// Which sockets the plans ask for, the same ones after a restart, and the open ones, made equal to those a batch at a time (D84).

import { setImmediate } from 'node:timers/promises';
import { errorCode, errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import { hostPort, normalAddress } from '../../base/net/socket-address.ts';
import type { ForwardingPlan, TransportProtocol } from '../application/application.ts';
import { writePorts, writeSockets } from '../application/port-ranges.ts';
import { wildcardIp } from '../application/texts.ts';
import type { ListenAt, PortListener } from '../traffic/listener.ts';

/** One socket that is wanted. */
export interface WantedListener {
  readonly transport: TransportProtocol;
  readonly at: ListenAt;
  /** Id of the application. */
  readonly application: string;
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

function socketsOf(plan: ForwardingPlan, bounds: ListenBounds): PlanSockets {
  if (plan.obstacle !== undefined) return { count: 0, problems: [plan.obstacle], list: () => [] };
  const { ports, problems } = bindablePorts(plan, bounds);
  const addresses = plan.addresses.flatMap((given) =>
    plan.transport === 'udp' && given === wildcardIp ? bounds.ipv6Addresses : (normalAddress(given) ?? given),
  );
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
 * it. A plan that it was given before is not worked out again. It gives the sockets by {@link listenerKey}, and, by the ids of
 * applications, why one gets less than it asks for.
 */
export function createListenPlanner() {
  let known = new WeakMap<ForwardingPlan, PlanSockets>();
  let knownUnder = '';
  return (plans: readonly ForwardingPlan[], bounds: ListenBounds) => {
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

/** One port that could not be bound. */
interface BindFailure {
  readonly at: ListenAt;
  /** The system's code, or the message where there is none. */
  readonly code: string;
}

/** Reads what an attempt to bind has thrown. */
export function bindFailure(at: ListenAt, thrown: unknown): BindFailure {
  return { at, code: errorCode(thrown) ?? errorMessage(thrown) };
}

const explanations: Readonly<Record<string, (ports: string, address: string) => string>> = {
  EACCES: (ports, address) =>
    `${ports} on ${address} ${ports.startsWith('port ') ? 'needs' : 'need'} a privilege that this process does not have (EACCES); ` +
    'grant it CAP_NET_BIND_SERVICE or set proxy.portOffset',
  EADDRINUSE: (ports, address) => `${ports} on ${address}: another program listens there (EADDRINUSE)`,
  EADDRNOTAVAIL: (ports, address) => `${ports}: ${address} is no address of this machine (EADDRNOTAVAIL)`,
  EAFNOSUPPORT: (ports, address) => `${ports}: this machine has no network of ${address}'s family (EAFNOSUPPORT)`,
  EMFILE: (ports, address) => `${ports} on ${address}: this process may not open more files (EMFILE)`,
  ENFILE: (ports, address) => `${ports} on ${address}: this machine has no more files to open (ENFILE)`,
};

/** Codes that every other port of the same address would get as well. */
const hopelessCodes: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EMFILE', 'ENFILE']);

/** Tells all failures of one application, those of one address and code together. Ports are those of the edge. */
export function explainFailures(failures: readonly BindFailure[]): string[] {
  const groups = Map.groupBy(failures, ({ code, at }) => `${code} ${at.address}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    const { code, at } = first;
    const offset = at.port - at.edgePort;
    const edgePorts = writePorts(group.map((failure) => failure.at.edgePort));
    const ports = offset === 0 ? edgePorts : `${edgePorts} (bound ${offset} higher)`;
    const explain = explanations[code];
    return [explain ? explain(ports, at.address) : `${ports} on ${at.address} cannot be bound: ${code}`];
  });
}

/** How many ports are bound in one go; after each batch the event loop goes on. */
const bindBatch = 64;

/** A listener that is up, and for whom. */
interface OpenSocket {
  readonly application: string;
  readonly listener: PortListener;
}

/** Opens a listener. @returns undefined where its application is gone @throws the system's error where it cannot be bound */
type OpenWanted = (wanted: WantedListener) => Promise<PortListener | undefined>;

function whereBound(sockets: readonly OpenSocket[]): readonly string[] {
  return writeSockets(sockets.map(({ listener }) => listener.at));
}

/** All listening sockets of the data plane. */
export class OpenSockets {
  readonly #open: OpenWanted;
  readonly #log: Logger;
  readonly #sockets = new Map<string, OpenSocket>();
  readonly #closing = new Set<Promise<void>>();

  constructor(open: OpenWanted, log: Logger) {
    this.#open = open;
    this.#log = log;
  }

  /** Where the sockets of an application are bound: `127.0.0.1:20022`, `[::1]:21000-22000`. */
  of(application: string): readonly string[] {
    return whereBound([...this.#sockets.values()].filter((socket) => socket.application === application));
  }

  /** Id of the application that has the socket of this key ({@link listenerKey}); undefined: none has. */
  at(key: string): string | undefined {
    return this.#sockets.get(key)?.application;
  }

  count(): number {
    return this.#sockets.size;
  }

  /** Reads the sockets of all applications at once. @returns a function that gives those of one; an empty list if it has none */
  ofAll(): (application: string) => readonly string[] {
    const byApplication = Map.groupBy(this.#sockets.values(), ({ application }) => application);
    return (application) => whereBound(byApplication.get(application) ?? []);
  }

  /** Closes sockets that are not wanted. Their ports are free at once; their connections go on for so many milliseconds. */
  closeUnwanted(wanted: ReadonlyMap<string, WantedListener>, drainMs: number): void {
    for (const [key, { application, listener }] of this.#sockets) {
      if (wanted.get(key)?.application === application) continue;
      this.#sockets.delete(key);
      this.#close(listener, drainMs);
    }
  }

  /** Resolves when everything that was closed has no connection any more. */
  async closed(): Promise<void> {
    await Promise.all(this.#closing);
  }

  #close(listener: PortListener, drainMs: number): void {
    const closing = listener
      .close(drainMs)
      .catch((error: unknown) =>
        this.#log.error({ at: listener.at, error: errorMessage(error) }, 'a proxy listener did not close'),
      )
      .finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  /** Opens what is wanted. @param isStopped asked before each batch @returns what could not be bound, and what was opened for */
  async openMissing(
    wanted: ReadonlyMap<string, WantedListener>,
    isStopped: () => boolean,
  ): Promise<{ failures: ReadonlyMap<string, readonly BindFailure[]>; opened: ReadonlySet<string> }> {
    const missing = [...wanted].filter(([key]) => !this.#sockets.has(key));
    const failures = new Map<string, BindFailure[]>();
    const opened = new Set<string>();
    // An address that this machine lacks may have thousands of ports: one failed attempt stands for all of them.
    const hopeless = new Map<string, string>();
    const openOne = async ([key, one]: readonly [string, WantedListener]): Promise<void> => {
      const { application, at } = one;
      const place = `${one.transport} ${at.address}`;
      const known = hopeless.get(place);
      const failure = known === undefined ? await this.#tryOpen(key, one) : { at, code: known };
      if (failure === undefined) {
        opened.add(application);
        return;
      }
      if (hopelessCodes.has(failure.code)) hopeless.set(place, failure.code);
      const others = failures.get(application);
      if (others) others.push(failure);
      else failures.set(application, [failure]);
    };
    for (let begin = 0; begin < missing.length && !isStopped(); begin += bindBatch) {
      await Promise.all(missing.slice(begin, begin + bindBatch).map(openOne));
      await setImmediate();
    }
    return { failures, opened };
  }

  async #tryOpen(key: string, wanted: WantedListener): Promise<BindFailure | undefined> {
    try {
      const listener = await this.#open(wanted);
      if (listener) this.#sockets.set(key, { application: wanted.application, listener });
      return undefined;
    } catch (error) {
      return bindFailure(wanted.at, error);
    }
  }
}
