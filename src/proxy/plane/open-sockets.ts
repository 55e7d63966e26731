// The listening sockets that are open: made equal to those that are wanted, a batch at a time (D84).

import { setImmediate } from 'node:timers/promises';
import { errorCode, errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import { writePorts, writeSockets } from '../application/port-ranges.ts';
import type { ListenAt, PortListener } from '../traffic/listener.ts';
import type { WantedListener } from './listen-plan.ts';

/** One port that could not be bound. */
export interface BindFailure {
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
    `${ports} on ${address} ${needs(ports)} a privilege that this process does not have (EACCES); ` +
    'grant it CAP_NET_BIND_SERVICE or set proxy.portOffset',
  EADDRINUSE: (ports, address) => `${ports} on ${address}: another program listens there (EADDRINUSE)`,
  EADDRNOTAVAIL: (ports, address) => `${ports}: ${address} is no address of this machine (EADDRNOTAVAIL)`,
  EAFNOSUPPORT: (ports, address) => `${ports}: this machine has no network of ${address}'s family (EAFNOSUPPORT)`,
  EMFILE: (ports, address) => `${ports} on ${address}: this process may not open more files (EMFILE)`,
  ENFILE: (ports, address) => `${ports} on ${address}: this machine has no more files to open (ENFILE)`,
};

function needs(ports: string): string {
  return ports.startsWith('port ') ? 'needs' : 'need';
}

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

function addressOf({ transport, at }: WantedListener): string {
  return `${transport} ${at.address}`;
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
      const known = hopeless.get(addressOf(one));
      const failure = known === undefined ? await this.#tryOpen(key, one) : { at, code: known };
      if (failure === undefined) {
        opened.add(application);
        return;
      }
      if (hopelessCodes.has(failure.code)) hopeless.set(addressOf(one), failure.code);
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
