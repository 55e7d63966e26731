// Explains why ports could not be bound, for the status of an application (D84).

import { errorCode, errorMessage } from '../../base/errors.ts';
import { writePorts } from '../application/written-ports.ts';
import type { ListenAt } from '../traffic/listener.ts';

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
export const hopelessCodes: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EMFILE', 'ENFILE']);

/** Tells all failures of one application, those of one address and code together. Ports are those of the edge. */
export function explainFailures(failures: readonly BindFailure[]): string[] {
  const groups = new Map<string, BindFailure[]>();
  for (const failure of failures) {
    const key = `${failure.code} ${failure.at.address}`;
    const group = groups.get(key);
    if (group) group.push(failure);
    else groups.set(key, [failure]);
  }
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
